# SPDX-License-Identifier: Apache-2.0
"""A LiDAR that turns sees each azimuth at another time: points of tracked objects are moved to the frame's time."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed import OccupancyFilter
from roadbed.config import Config
from roadbed.core.geometry import Grid, Pose
from roadbed.core.tracked_objects import TRACK
from roadbed.occupancy.observation.movers import MARGIN, MOST_MOVERS, movers_at
from roadbed.occupancy.observation.movers_cpu import move_points
from tests.occupancy.scenes import box_points, flat_ground, scan_at, sweep

CONFIG = Config.parse({"occupancy": {"grid": {"length": 40, "width": 20, "spacing": 0.2}}})
SPEED, LAG = 10.0, 0.05  # m/s, s


def track(x, y, heading, velocity, seen=1.0):
    tracks = np.zeros(1, TRACK)
    tracks["seen"], tracks["x"], tracks["y"], tracks["heading"] = seen, x, y, heading
    tracks["length"], tracks["width"] = 4.0, 2.0
    tracks["state"][0, 2:4] = velocity
    return tracks


def moved(points, times, movers):
    out = np.empty_like(points)
    move_points(0, len(points), points, np.asarray(times, np.float32), movers, out)
    return out


def test_points_of_an_object_come_to_where_it_is_at_the_frames_time():
    """It slid on since it was seen, ahead and aside; the points are in the axes of a sensor that is turned."""
    velocity = 25.0 * np.array([np.cos(1.3), np.sin(1.3)])
    T_grid_points = Pose.from_euler(3.0, -2.0, 1.7, yaw=0.8, pitch=0.05)
    movers = movers_at(1.1, track(5.0, 2.0, 0.5, velocity), T_grid_points)
    rng = np.random.default_rng(0)
    body, times = rng.uniform((-2, -1, 0), (2, 1, 1.5), (200, 3)), rng.uniform(-0.05, 0.05, 200)
    at_frame = Pose.from_euler(*(np.array([5.0, 2.0]) + 0.1 * velocity), 0.0, yaw=0.5) @ body
    measured = at_frame + times[:, None] * [*velocity, 0.0]
    found = T_grid_points @ moved((T_grid_points.inverse() @ measured).astype(np.float32), times, movers)
    assert np.abs(measured - at_frame).max() > 0.8
    np.testing.assert_allclose(found, at_frame, atol=1e-5)


def test_other_points_and_those_without_a_time_stay():
    movers = movers_at(1.0, track(0.0, 0.0, 0.0, (10.0, 0.0)), Pose.identity())
    beside = 1.0 + MARGIN
    points = np.array([[0, beside + 0.01, 1], [2.01 + MARGIN - 0.4, 0, 1], [0, 0, 1], [np.nan] * 3], np.float32)
    np.testing.assert_array_equal(moved(points, [-0.04, -0.04, np.nan, -0.04], movers), points)
    np.testing.assert_allclose(moved(points[:1] - [[0, 0.02, 0]], [-0.04], movers)[0, 0], 0.4, atol=1e-6)


def test_more_objects_than_there_is_room_for_are_left_out():
    tracks = np.concatenate([track(5.0 * k, 0.0, 0.0, (1.0, 0.0)) for k in range(MOST_MOVERS + 3)])
    assert len(movers_at(1.0, tracks, Pose.identity())) == MOST_MOVERS
    assert len(movers_at(1.0, tracks[:0], Pose.identity())) == 0


def with_times(scan, **channels):
    return replace(scan, channels={**scan.channels, **channels})


def scene(time, timed, car=True):
    """A car passes a standing sensor that sees it LAG seconds late at first, and early from the eleventh scan on.

    That is how it comes by the direction in which the sweep begins.
    """
    lag = LAG if time < 1.0 else -LAG
    body = box_points(-9.0 + SPEED * (time + lag), 4.0, 4.0, 1.8, 1.5)[:: 1 if car else 10**6]
    ground = sweep(reach=20.0)
    scan = scan_at(np.vstack([ground, body]), time)
    if timed:
        times = np.repeat((0.0, lag), (len(ground), len(body)))
        scan = with_times(scan, deskewed_time=times)
    return scan, flat_ground(scan, Grid.centred(80.0, 60.0, 1.0))


def drive(fields=None, timed=True):
    """Frames from 0.2 s on after it came by that direction."""
    filter_ = OccupancyFilter(CONFIG, fields=fields)
    return [filter_(*scene(0.1 * k, timed)) for k in range(18)][12:]


def test_a_car_is_tracked_where_it_is_and_not_where_it_was_seen():
    """Without the times it seems to brake, and is half a metre behind."""
    far, wrong, slow = [], [], []
    for frame, blind in zip(drive(), drive(timed=False)):
        middle = np.array([-9.0 + SPEED * frame.time, 4.0])
        (found,) = frame.objects
        far.append(np.linalg.norm(found.position - middle))
        wrong.append(min(np.linalg.norm(item.position - middle) for item in blind.objects))
        slow.append(blind.objects[0].velocity[0])
        np.testing.assert_allclose(found.velocity, (SPEED, 0.0), atol=0.5)
    assert max(far) < 0.15 < 0.45 < min(wrong)
    assert min(slow) < 0.85 * SPEED


def test_moving_cells_do_not_depend_on_which_results_are_asked_for():
    for frame, bare in zip(drive(), drive(fields=())):
        np.testing.assert_array_equal(frame.moving, bare.moving)
        assert frame.moving.any()
        assert not bare.objects


def test_times_of_the_frame_itself_change_nothing():
    """All points of one time: the same frame as without times, bit by bit."""
    one, other = OccupancyFilter(CONFIG), OccupancyFilter(CONFIG)
    for k in range(14):
        scan, ground = scene(0.1 * k, timed=False)
        plain = one(scan, ground)
        frame = other(with_times(scan, deskewed_time=np.zeros(len(scan))), ground)
        for name in ("static", "dynamic", "free", "velocity", "moving"):
            np.testing.assert_array_equal(getattr(frame, name), getattr(plain, name))
    assert frame.objects


@pytest.fixture
def counts(monkeypatch):
    """How many objects had their points moved, frame by frame."""
    import roadbed.occupancy.filter as module

    found = []
    monkeypatch.setattr(module, "movers_at", lambda *given: found.append(len(given[1])) or movers_at(*given))
    return found


def test_scans_that_are_not_deskewed_are_left_as_they_are(counts):
    """There what stands is torn like what moves, and what drives along with the sensor is not torn at all."""
    filter_ = OccupancyFilter(CONFIG)
    for k in range(6):
        scan, ground = scene(0.1 * k, timed=True)
        filter_(replace(scan, channels={}, point_time=scan.channels["deskewed_time"]), ground)
    assert not counts


def test_points_move_with_what_the_last_two_frames_saw(counts):
    """A phantom of one frame moves nothing; nor does what the tracker remembers, as it is elsewhere by now."""
    filter_ = OccupancyFilter(CONFIG)
    found = [len(filter_(*scene(0.1 * k, timed=True, car=k < 6)).objects) for k in range(10)]
    first = found.index(1)
    assert counts[: first + 3] == [0] * (first + 2) + [1]
    assert counts[6] == 1
    assert counts[-1] == 0
    assert len(filter_._tracker.known) == 1
