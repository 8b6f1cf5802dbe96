# SPDX-License-Identifier: Apache-2.0
"""Spans are filled up to whole vectors: they must cover what was seen and never leave the buffers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roadbed.ground.stcrf.arrays import Field
from roadbed.ground.stcrf.spans_cpu import VECTOR, find_spans


@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 5), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_spans_cover_the_points_and_stay_inside_the_buffers(rows, columns, reach, seed, share):
    field = Field(rows, columns, 1.0, 4, VECTOR)
    spans = field.spans
    field.count[:] = np.random.default_rng(seed).random(rows * columns) < share
    find_spans(field.count, field.prior, False, field.shape, reach, spans)
    stride = field.data.shape[2]
    # Sums along x also read the node after the last of a span.
    assert max(spans.hi.max(), spans.wide_hi.max()) + 1 <= stride
    seen = field.count.reshape(rows, columns) > 0
    for row, column in np.argwhere(seen):
        assert spans.lo[row] <= column + 1 < spans.hi[row]
        assert (spans.wide_lo[row : row + 3] <= spans.lo[row]).all()
        assert (spans.wide_hi[row : row + 3] >= spans.hi[row]).all()
