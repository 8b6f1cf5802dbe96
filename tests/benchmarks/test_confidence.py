# SPDX-License-Identifier: Apache-2.0
"""A wrong mounting or surface is announced, and a right one is not doubted without need."""

import numpy as np
import pytest

from benchmarks.confidence import confidence_rows, is_right
from roadbed.core.confidence import Mounting
from roadbed.core.geometry import Pose

pytestmark = pytest.mark.long(16)


@pytest.fixture(scope="module")
def rows():
    return list(confidence_rows(range(0)))  # all scenes but the simulated roads


def test_wrong_mountings_and_surfaces_are_announced(rows):
    assert len(rows) >= 60
    wrong = [row for row in rows if not row["right"]]
    assert len(wrong) >= 20
    assert [row for row in wrong if row["sure"]] == []


def test_a_wrong_surface_is_announced_where_the_mounting_is_given(rows):
    given = [row for row in rows if row["kind"].endswith("given")]
    wrong = [row for row in given if not row["surface_right"]]
    assert all(row["mounting_right"] for row in given)
    assert len(wrong) >= 8
    assert max(row["surface"] for row in wrong) < 0.45


def test_right_frames_are_mostly_sure(rows):
    rooms = [row for row in rows if row["kind"] in ("room", "tunnel", "ramp", "deck", "low objects")]
    assert sum(row["right"] for row in rooms) >= len(rooms) - 1
    assert sum(row["sure"] for row in rooms) >= len(rooms) - 5


def test_the_floor_is_found_where_it_is_in_view_of_a_desk(rows):
    desks = [row for row in rows if row["kind"] == "desk"]
    in_view = [row for row in desks if "12 x 15" in row["scene"] or "1.6 x 0.8 m, 6 x 8" in row["scene"]]
    assert len(in_view) == 6
    assert all(row["mounting_right"] for row in in_view)


@pytest.mark.parametrize(
    ("height", "degrees", "right"), [(1.8, 0, True), (1.99, 0, False), (1.9, 2, True), (1.8, 4, False)]
)
def test_right_means_height_and_tilt(height, degrees, right):
    found = Mounting(T_vehicle_sensor=Pose.from_euler(z=height, pitch=np.radians(degrees)), estimated=True)
    assert is_right(found, Pose.from_euler(z=1.8)) == right
    assert not is_right(found, None)
