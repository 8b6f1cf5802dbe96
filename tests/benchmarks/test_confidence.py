# SPDX-License-Identifier: Apache-2.0
"""A wrong mounting is announced, and a right one is not doubted without need."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.confidence import confidence_rows, is_right
from roadbed.core.frames import Mounting
from roadbed.core.geometry import Pose


@pytest.fixture(scope="module")
def rows():
    return list(confidence_rows(range(0)))  # all scenes but the simulated roads


def test_wrong_mountings_are_announced(rows):
    wrong = [row for row in rows if not row["right"]]
    assert len(wrong) >= 8
    assert [row for row in wrong if row["sure"]] == []


def test_mountings_in_rooms_and_tunnels_are_found_and_mostly_sure(rows):
    rooms = [row for row in rows if row["kind"] in ("room", "tunnel")]
    assert sum(row["right"] for row in rooms) >= len(rooms) - 1
    assert sum(row["sure"] for row in rooms) >= len(rooms) - 3


@pytest.mark.parametrize(
    ("height", "degrees", "right"), [(1.8, 0, True), (1.99, 0, False), (1.9, 2, True), (1.8, 4, False)]
)
def test_right_means_height_and_tilt(height, degrees, right):
    found = Mounting(T_vehicle_sensor=Pose.from_euler(z=height, pitch=np.radians(degrees)), estimated=True)
    assert is_right(found, Pose.from_euler(z=1.8)) == right
    assert not is_right(found, None)
