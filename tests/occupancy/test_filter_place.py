# SPDX-License-Identifier: Apache-2.0
"""Where the grid lies: what stands keeps its place in the world, whichever way grid and ground follow the vehicle."""

import numpy as np
import pytest

from roadbed import OccupancyFilter
from roadbed.core.geometry import Pose
from tests.occupancy.scenes import box_points, flat_ground, scan_at, sweep
from tests.occupancy.test_filter import CONFIG

BOX = np.array([6.0, 3.0])
GROUND = sweep(reach=16.0)


def world_of(frame, weights):
    """The middle of some cells in the world."""
    x, y = frame.grid.mesh()
    middle = np.array([np.average(x, weights=weights), np.average(y, weights=weights), 0.0])
    return (frame.T_world_grid @ middle)[:2]


def on_the_way(k):
    """A vehicle at 6 m/s that turns by 20 degrees a second: x, y, yaw."""
    yaw = np.radians(2.0 * k)
    return 0.6 * k * np.cos(yaw / 2), 0.6 * k * np.sin(yaw / 2), yaw


def ground_of(scan, axes):
    """The ground's grid frame fixed to a world that is turned and moved, or to the vehicle."""
    if axes == "vehicle":
        return flat_ground(scan, T_world_grid=scan.T_world_vehicle)
    return flat_ground(scan, T_world_grid=Pose.from_euler(20.0, -7.0, yaw=0.7))


@pytest.mark.parametrize("axes", ["world", "vehicle"])
@pytest.mark.parametrize("motion", ["rolling", "vehicle"])
def test_what_stands_keeps_its_place_in_the_world(motion, axes):
    filter_ = OccupancyFilter(CONFIG.with_changes(occupancy={"grid": {"motion": motion}}))
    box = box_points(*BOX, 0.8, 0.8)
    for k in range(14):
        x, y, yaw = on_the_way(k)
        scan = scan_at(np.vstack([GROUND + np.array([x, y, 0]), box]), 0.1 * k, x, y, yaw=yaw)
        frame = filter_(scan, ground_of(scan, axes))
        assert frame.time == scan.time
        assert frame.diagnostics == ()
        if k < 3:
            continue
        stands = frame.static > 0.7
        assert 4 <= np.count_nonzero(stands) <= 40
        assert np.linalg.norm(world_of(frame, stands) - BOX) < 0.25


@pytest.mark.parametrize("motion", ["rolling", "vehicle"])
def test_what_one_sensor_watched_stays_in_its_place_until_it_reports_again(motion):
    """Two sensors at their own rates; the second sees nothing itself, so all that is watched is what the first saw."""
    filter_ = OccupancyFilter(CONFIG.with_changes(occupancy={"grid": {"motion": motion}}))
    patch = np.array([[x, y, 0.0] for x in np.arange(5.0, 7.0, 0.1) for y in np.arange(2.0, 4.0, 0.1)])
    scan = scan_at(patch, 0.0, sensor="front")
    seen = filter_(scan, flat_ground(scan))
    place = world_of(seen, seen.observedness)
    for k in range(1, 5):
        x, y, yaw = on_the_way(k)
        empty = scan_at(np.zeros((0, 3)), 0.05 * k, x, y, sensor="rear", yaw=yaw)
        frame = filter_(empty, flat_ground(empty))
        assert frame.observedness.sum() == pytest.approx(np.exp(-0.05 * k / 0.2) * seen.observedness.sum(), rel=0.01)
        assert np.linalg.norm(world_of(frame, frame.observedness) - place) < 0.02
