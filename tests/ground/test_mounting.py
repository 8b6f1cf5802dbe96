# SPDX-License-Identifier: Apache-2.0
"""An unknown mounting is found from the scan itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadbed import Config, GroundFilter, Pose, Scan


def street(seed=0, n=20000):
    """Road points in the vehicle frame with walls on both sides and boxes on it."""
    random = np.random.default_rng(seed)
    points = random.uniform([-20, -8, 0], [20, 8, 0], (n, 3))
    points[:, 2] = random.normal(0, 0.01, n)
    wall = random.random(n) < 0.3
    points[wall, 1] = np.sign(points[wall, 1]) * 8
    points[wall, 2] = random.uniform(0, 4, wall.sum())
    box = random.random(n) < 0.05
    points[box] = random.uniform([5, 2, 0], [9, 4, 1.5], (box.sum(), 3))
    return points


@settings(max_examples=20, deadline=None)
@given(st.floats(0.5, 3.5), st.floats(-12, 12), st.floats(-8, 8))
def test_random_height_and_tilt_are_recovered(height, pitch, roll):
    mounted = Pose.from_euler(z=height, pitch=np.radians(pitch), roll=np.radians(roll))
    points = mounted.inverse() @ street()
    frame = GroundFilter()(points.astype(np.float32))
    found = frame.mounting
    assert found.estimated
    assert found.quality > 0.25
    assert found.height == pytest.approx(height, abs=0.05)
    up = found.T_vehicle_sensor.rotation[2] @ mounted.rotation[2]
    assert np.degrees(np.arccos(np.clip(up, -1, 1))) < 0.6


def test_given_values_are_used():
    config = Config.parse({"ground": {"mounting": {"height": 1.5, "pitch": 2.0, "roll": 0.0}}})
    mounting = GroundFilter(config)(street().astype(np.float32) - np.float32([0, 0, 1.8])).mounting
    assert not mounting.estimated
    assert mounting.height == 1.5
    assert np.degrees(mounting.T_vehicle_sensor.pitch) == pytest.approx(2.0)


def test_nothing_to_see_falls_back_and_says_so():
    mounting = GroundFilter()(np.zeros((0, 3), np.float32)).mounting
    assert mounting.quality == 0
    assert mounting.height == 1.8


def test_sensor_that_is_moved_during_a_drive_is_noticed():
    ground = GroundFilter()
    notes = []
    for k in range(220):
        height = 1.8 if k < 60 else 1.2
        points = (street(k % 5, 3000) - [0, 0, height]).astype(np.float32)
        frame = ground(Scan(points, time=0.1 * k, T_world_sensor=Pose.from_euler(z=height)))
        notes += [note for note in frame.notes if "mounting" in note]
    assert len(notes) == 1
    assert frame.mounting.height == pytest.approx(1.2, abs=0.05)
