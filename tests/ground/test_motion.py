# SPDX-License-Identifier: Apache-2.0
"""Lattices that move by whole nodes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roadbed.geometry import Lattice
from roadbed.ground.stcrf.motion_cpu import shift
from roadbed.mapping.information import lower

steps = st.integers(-12, 12)


@given(steps, steps)
def test_shift_moves_nodes_and_empties_what_enters(columns, rows):
    layers = np.zeros((12, 2, 20), np.float32)
    layers[1:-1, :, 1:9] = np.arange(1, 161).reshape(10, 2, 8)
    out = np.full_like(layers, 7)
    shift(layers, out, 8, columns, rows)
    for r in range(10):
        for c in range(8):
            inside = 0 <= r + rows < 10 and 0 <= c + columns < 8
            expected = layers[r + rows + 1, :, c + columns + 1] if inside else 0
            assert (out[r + 1, :, c + 1] == expected).all()


@given(steps, steps)
def test_outside_is_what_the_moved_lattice_does_not_cover(columns, rows):
    lattice = Lattice(0.5, 0.5, 1.0, 8, 10)
    mask = lattice.outside(columns, rows)
    moved = lattice.shifted(columns, rows)
    x, y = lattice.mesh()
    assert (mask == (moved.index(x, y) < 0)).all()


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from([0.5, 1.0, 2.0]))
def test_nodes_lie_at_the_same_places_of_the_world(x, y, spacing):
    lattice = Lattice.centred(40, 20, spacing).around(x, y)
    assert abs(lattice.x0 / spacing - 0.5 - round(lattice.x0 / spacing - 0.5)) < 1e-6
    columns, rows = lattice.steps_to(lattice.around(x + 3 * spacing, y - 2 * spacing))
    assert abs(columns - 3) <= 1
    assert abs(rows + 2) <= 1


def test_lower_moves_heights_by_exactly_that():
    information = np.random.default_rng(0).normal(size=(1, 9, 4, 4)).astype(np.float32)
    information[:, 0] = 5
    information[:, 1:6] = 0
    information[:, 3] = information[:, 5] = 1
    before = information[0, 6] / information[0, 0]
    lower(information, 1.25)
    np.testing.assert_allclose(information[0, 6] / information[0, 0], before - 1.25, atol=1e-6)
