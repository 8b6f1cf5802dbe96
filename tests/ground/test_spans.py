# SPDX-License-Identifier: Apache-2.0
"""Only a part of the lattice is computed: spans cover what was seen, and what lay there before leaves no trace."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roadbed import Config
from roadbed.ground.stcrf.arrays import Field, Listed
from roadbed.ground.stcrf.cpu import StcrfCpu
from roadbed.ground.stcrf.spans_cpu import VECTOR, clear_outside, find_spans
from tests.ground import engines


def listed(nodes):
    """The list of some nodes of a lattice, (rows, columns) of truth values."""
    ends = np.concatenate([[0], np.cumsum(nodes.sum(axis=1))])
    return Listed(np.flatnonzero(nodes).astype(np.int32), ends.astype(np.int32))


@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 5), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_spans_cover_the_points_and_stay_inside_the_buffers(rows, columns, reach, seed, share):
    field = Field(rows, columns, 1.0, 4, VECTOR)
    spans = field.spans
    seen = np.random.default_rng(seed).random((rows, columns)) < share
    find_spans(listed(seen), field.prior, False, field.shape, reach, spans)
    stride = field.data.shape[2]
    # Sums along x also read the node after the last of a span.
    assert max(spans.hi.max(), spans.wide_hi.max()) + 1 <= stride
    for row, column in np.argwhere(seen):
        assert spans.lo[row] <= column + 1 < spans.hi[row]
        assert (spans.wide_lo[row : row + 3] <= spans.lo[row]).all()
        assert (spans.wide_hi[row : row + 3] >= spans.hi[row]).all()


@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 3), st.integers(0, 2**32 - 1), st.booleans())
def test_spans_are_those_of_the_points_and_the_prior_together(rows, columns, reach, seed, use_prior):
    field, rng = Field(rows, columns, 1.0, 4, VECTOR), np.random.default_rng(seed)
    seen, known = rng.random((2, rows, columns)) < rng.random(2)[:, None, None] ** 4
    field.prior[1:-1, 0, 1 : columns + 1] = known
    find_spans(listed(seen), field.prior, use_prior, field.shape, reach, field.spans)
    both = Field(rows, columns, 1.0, 4, VECTOR)
    find_spans(listed(seen | (known & use_prior)), both.prior, False, both.shape, reach, both.spans)
    for found, expected in zip(field.spans, both.spans):
        np.testing.assert_array_equal(found, expected)


def test_what_an_earlier_frame_wrote_outside_of_this_ones_spans_is_cleared():
    field, rng = Field(30, 40, 1.0, 4, VECTOR), np.random.default_rng(4)
    for share in (0.02, 0.002, 0.0, 0.01):
        find_spans(listed(rng.random((30, 40)) < share), field.prior, False, field.shape, 2, field.spans)
        clear_outside(field.information, field.written, field.spans)
        inside = np.zeros(field.data.shape[::2], bool)
        for row, (lo, hi) in enumerate(zip(field.spans.lo, field.spans.hi)):
            inside[row + 1, lo:hi] = True
        assert not field.information.transpose(0, 2, 1, 3)[:, :, ~inside].any()
        for buffer in field.information:
            buffer.transpose(1, 0, 2)[:, inside] = 1  # as a frame does


def scene(rng, reach, count):
    """Uneven ground, boxes on it and a wall, within so many m."""
    points = rng.uniform(-reach, reach, (count, 3))
    points[:, 2] = 0.1 * np.sin(points[:, 0]) + rng.normal(0, 0.02, count)
    high = np.floor(points[:, 0] / 3) % 4 == 0
    points[high, 2] += rng.uniform(0, 2, high.sum())
    return points


def test_a_frame_is_the_same_whatever_was_computed_before():
    config, rng = Config().with_changes(ground={"stcrf": {"length": 50.0, "width": 38.0}}), np.random.default_rng(5)
    used = StcrfCpu(config)
    for reach, count in ((24, 9000), (6, 300), (18, 4000), (2, 40)):
        given = engines.given(config, scene(rng, reach, count))
        found, fresh = used.frame(given), StcrfCpu(config).frame(given)
        for name in ("label", "ground_probability", "height_above_ground", "elevation", "slope", "variance"):
            np.testing.assert_array_equal(getattr(found, name), getattr(fresh, name), err_msg=name)
        used.keep()
