# SPDX-License-Identifier: Apache-2.0
"""The eye stays above the ground, on its orbit where that is possible."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roadbed.viewer.scene import lifted

coordinate = st.floats(-60, 60)
place = st.tuples(coordinate, coordinate, coordinate).map(np.array)


@given(place, place, st.floats(-10, 10))
def test_the_eye_is_lifted_to_the_floor_and_keeps_its_distance(position, target, floor):
    moved = lifted(position, target, floor)
    if position[2] >= floor:
        assert moved is None
    if moved is None:
        assert position[2] > floor - 0.03
        return
    eye, looked_at = moved
    assert np.isclose(eye[2], floor)
    assert np.isclose(np.linalg.norm(eye - looked_at), np.linalg.norm(position - target))
    assert lifted(eye, looked_at, floor) is None


def test_a_drag_below_the_ground_stops_on_the_orbit():
    eye, target = lifted(np.array([-8.0, 0.0, -6.0]), np.zeros(3), 0.5)
    assert np.allclose(eye, [-np.sqrt(100 - 0.25), 0.0, 0.5])
    assert (target == 0).all()


def test_eye_and_target_rise_where_the_orbit_does_not_reach_the_floor():
    eye, target = lifted(np.array([1.0, 0.0, -1.0]), np.zeros(3), 2.0)
    assert (eye == [1, 0, 2]).all()
    assert (target == [0, 0, 3]).all()
