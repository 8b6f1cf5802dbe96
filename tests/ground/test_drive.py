# SPDX-License-Identifier: Apache-2.0
"""Scans over time: what is carried along, and what must not be."""

from dataclasses import replace

import numpy as np
import pytest

from roadbed import Config, GroundFilter, InputError, Pose, Scan
from roadbed.core.frames import Mounting
from roadbed.core.timeline import Timeline
from roadbed.ground.stcrf.cpu import StcrfCpu
from roadbed.ground.stcrf.motion.grid_pose import GridTracker
from tests.devices import DRIVERS, backend


def hill(x, y):
    return 0.5 * np.sin(x / 12) + 0.02 * y


def scan_at(x, seed=0, time=None, tilt=0.0, hide=None, n=8000, pose_error=0.0):
    """A scan of rolling ground from a sensor 1.8 m over the road at world (x, 0)."""
    random = np.random.default_rng(seed)
    world = random.uniform([x - 25, -25, 0], [x + 25, 25, 0], (n, 3))
    world[:, 2] = hill(world[:, 0], world[:, 1]) + random.normal(0, 0.01, n)
    if hide is not None:
        world = world[~((np.abs(world[:, 0] - hide[0]) < 3) & (np.abs(world[:, 1] - hide[1]) < 3))]
    true = Pose.from_euler(x, 0, hill(x, 0) + 1.8, pitch=tilt)
    said = true @ Pose.from_euler(pitch=pose_error)
    points = (true.inverse() @ world).astype(np.float32)
    return Scan(points, time=time, T_world_sensor=said, T_vehicle_sensor=Pose.from_euler(z=1.8))


def error(frame, reach=15):
    x, y = frame.grid.mesh()
    centre = frame.T_grid_sensor.translation
    near = np.isfinite(frame.elevation) & (np.hypot(x - centre[0], y - centre[1]) < reach)
    return np.abs(frame.elevation - hill(x, y))[near]


@pytest.mark.parametrize("motion", ["rolling", "vehicle"])
def test_hidden_ground_is_remembered(motion):
    """Figure 8 of the paper: what an obstacle hides now keeps its shape from before."""
    config = Config.parse({"ground": {"time": {"motion": motion}}})
    ground = GroundFilter(config)
    for k in range(4):
        ground(scan_at(0.0, k, 0.1 * k))
    remembered = ground(scan_at(0.0, 9, 0.4, hide=(8, 0)))
    forgotten = GroundFilter(config)(scan_at(0.0, 9, 0.4, hide=(8, 0)))
    lift = 0.0 if motion == "rolling" else -hill(0, 0)
    x, y = remembered.grid.mesh()
    inside = (np.abs(x - 8) < 2) & (np.abs(y) < 2)
    assert np.isfinite(remembered.elevation[inside]).all()
    assert np.abs(remembered.elevation - lift - hill(x, y))[inside].max() < 0.08
    assert np.isnan(forgotten.elevation[inside]).mean() > 0.5


@pytest.mark.parametrize("name", DRIVERS)
def test_hidden_ground_does_not_creep_towards_its_neighbours(name):
    """A mound keeps most of its height while many scans do not see it; it sank to a third."""
    ground = GroundFilter(Config(), backend(name))

    def height(k, hide=None):
        scan = scan_at(0.0, k, 0.1 * k, hide=hide)
        points = scan.points.copy()
        points[:, 2] += 0.6 * np.exp(-(np.hypot(points[:, 0] - 8, points[:, 1]) ** 2) / 8)
        frame = ground(replace(scan, points=points))
        x, y = frame.grid.mesh()
        return np.nanmean((frame.elevation - hill(x, y))[np.hypot(x - 8, y) < 2.5])

    seen = [height(k) for k in range(4)][-1]
    hidden = [height(k, hide=(8, 0)) for k in range(4, 34)]
    assert seen > 0.2
    assert hidden[-1] > 0.7 * seen
    assert abs(hidden[-1] - hidden[-20]) < 0.01


def test_rolling_lattice_follows_and_keeps_its_nodes():
    ground = GroundFilter()
    frames = [ground(scan_at(1.5 * k, k, 0.1 * k)) for k in range(30)]
    assert not any(frame.diagnostics for frame in frames)
    assert not frames[0].used_prior
    assert all(frame.used_prior for frame in frames[1:])
    assert frames[-1].grid.x0 - frames[0].grid.x0 == pytest.approx(43, abs=1)
    offset = (frames[-1].grid.x0 - frames[0].grid.x0) / frames[0].grid.spacing
    assert offset == round(offset)
    assert np.quantile(error(frames[-1]), 0.95) < 0.05


def test_heights_far_from_zero_stay_exact():
    """A drive at 2,000 m height and far from the origin, as with map coordinates."""
    ground = GroundFilter()
    shift = Pose.from_euler(450_000.0, 5_400_000.0, 2000.0)
    for k in range(5):
        scan = scan_at(1.0 * k, k, 0.1 * k)
        frame = ground(scan.at(shift @ scan.T_world_sensor))
    x, y = frame.grid.mesh()
    known = np.isfinite(frame.elevation) & (np.hypot(x - 450_004, y - 5_400_000) < 15)
    off = frame.elevation[known] - 2000 - hill(x[known] - 450_000, y[known] - 5_400_000)
    assert np.quantile(np.abs(off), 0.95) < 0.05


def test_heights_are_counted_from_near_the_road_on_a_long_climb():
    """The engine's numbers stay small, and what it remembers keeps its height when they are counted anew."""
    config = Config.parse({"ground": {"stcrf": {"length": 60, "width": 60}}})
    engine = StcrfCpu(config)
    grid, timeline = GridTracker(config, engine, None), Timeline()
    for k in range(14):
        x, z = 2.0 * k, 1.2 * k
        T_world_vehicle = Pose.from_euler(x, 0, z)
        moment = timeline.update(0.1 * k, ("lidar",), T_world_vehicle)
        place, _ = grid.follow(
            T_world_vehicle, Mounting(T_vehicle_sensor=Pose.from_euler(z=1.8), estimated=False), moment
        )
        assert place.road + place.base == pytest.approx(z)
        assert abs(place.road) <= 4.0
        if k == 0:
            prior = engine.prior.copy()
            prior[0], prior[6] = 10.0, 10.0 * 0.5  # everywhere half a metre over the road of now
            engine.prior = prior
    known = engine.prior[0] > 0
    assert known.any()
    np.testing.assert_allclose(engine.prior[6][known] / 10 + place.base, 0.5, atol=1e-4)


def test_pose_noise_is_absorbed():
    random = np.random.default_rng(0)
    errors = random.normal(0, np.radians(0.7), 12)
    errors[0] = 0

    def last(alignment):
        ground = GroundFilter(Config.parse({"ground": {"without": [] if alignment else ["alignment"]}}))
        for k, wrong in enumerate(errors):
            frame = ground(scan_at(0.8 * k, k, 0.1 * k, pose_error=wrong))
        return np.sqrt(np.mean(error(frame, 20) ** 2))

    assert last(True) < 0.5 * last(False)


def test_events_are_noted_and_handled():
    ground = GroundFilter()
    ground(scan_at(0, 0, 0.0))
    assert ground(scan_at(1, 1, 0.1)).diagnostics == ()
    repeated = ground(scan_at(1, 1, 0.1))
    assert "repeated" in repeated.diagnostics[0]
    late = ground(scan_at(0.5, 2, 0.05))
    assert "late" in late.diagnostics[0]
    following = ground(scan_at(2, 3, 0.2))
    assert following.diagnostics == ()
    assert following.used_prior
    scan = scan_at(2, 3, 0.2)
    alone = ground(Scan(scan.points, T_vehicle_sensor=scan.T_vehicle_sensor))
    assert "no pose" in alone.diagnostics[0]
    assert not alone.used_prior
    assert ground(scan_at(3, 4, 0.3)).used_prior
    jump = ground(scan_at(80, 5, 0.4))
    assert "jump" in jump.diagnostics[0]
    assert not jump.used_prior
    pause = ground(scan_at(81, 6, 30.0))
    assert "pause" in pause.diagnostics[0]
    assert not pause.used_prior


def test_wrong_height_of_a_pose_does_not_smear():
    """A scan that does not lie on the prior surface is not mixed with it."""
    ground = GroundFilter()
    for k in range(3):
        ground(scan_at(0.5 * k, k, 0.1 * k))
    scan = scan_at(1.5, 3, 0.3)
    lifted = scan.at(Pose.from_euler(z=0.9) @ scan.T_world_sensor)
    frame = ground(lifted)
    assert not frame.used_prior
    assert "does not fit" in frame.diagnostics[0]


def test_repeated_scan_is_not_counted_twice():
    """What is known after it is what was known before: the next scan sees no difference."""
    once, twice = GroundFilter(), GroundFilter()
    for ground in (once, twice):
        ground(scan_at(0, 0, 0.0))
    twice(scan_at(0, 0, 0.0))
    a, b = once(scan_at(0.5, 1, 0.1)), twice(scan_at(0.5, 1, 0.1))
    np.testing.assert_array_equal(a.variance, b.variance)
    np.testing.assert_array_equal(a.elevation, b.elevation)


def test_moving_cells_do_not_become_ground():
    from roadbed.core.geometry import Grid

    random = np.random.default_rng(0)
    car = random.uniform([6, -1, -1.5], [10, 1, -1.45], (3000, 3))  # a flat roof, 0.3 m over the road
    road = random.uniform([-15, -15, -1.81], [15, 15, -1.79], (4000, 3))
    road = road[~((road[:, 0] > 6) & (road[:, 0] < 10) & (np.abs(road[:, 1]) < 1))]
    points = np.concatenate([road, car]).astype(np.float32)
    scan = Scan(points, T_vehicle_sensor=Pose.from_euler(z=1.8))
    cells = Grid.centred(40, 40, 0.5)
    x, y = cells.mesh()
    mask = (x > 5) & (x < 11) & (np.abs(y) < 2)
    frame = GroundFilter()(scan, moving=(cells, mask))
    assert (frame.height_above_ground[len(road) :] > 0.2).all()
    same = GroundFilter()(scan, moving=(cells, np.broadcast_to(mask * 1, mask.shape)))
    np.testing.assert_array_equal(same.label, frame.label)
    with pytest.raises(InputError, match=r"moving: found a mask of shape \(3, 3\), expected \(80, 80\) of its grid"):
        GroundFilter()(scan, moving=(cells, mask[:3, :3]))
    with pytest.raises(InputError, match="moving: expected a grid and its mask"):
        GroundFilter()(scan, moving=mask)


def test_loop_drive_keeps_information_bounded():
    """Variances do not shrink for ever: what is known fades as fast as it grows."""
    ground = GroundFilter()
    lowest = []
    for k in range(150):
        frame = ground(scan_at(10 * np.sin(k / 10), k % 7, 0.1 * k, n=2000))
        assert np.isfinite(frame.elevation).any()
        assert not np.isnan(frame.variance).any()
        lowest.append(frame.variance.min())
    assert min(lowest[75:]) > min(lowest[10:75]) / 1.5


def test_results_can_be_placed_in_the_world():
    """T_world_grid takes nodes to where the ground is, whatever the lattice's axes and the first pose's tilt."""
    tilted = Pose.from_euler(100, -50, 7, yaw=0.7, pitch=0.06, roll=-0.04)
    for motion in ("rolling", "vehicle"):
        for known in (True, False):
            ground = GroundFilter(Config.parse({"ground": {"time": {"motion": motion}}}))
            for k in range(3):
                scan = scan_at(1.5 * k, k, 0.1 * k)
                scan = scan.at(tilted @ scan.T_world_sensor)
                frame = ground(scan if known else replace(scan, T_vehicle_sensor=None))
            x, y = frame.grid.mesh()
            seen = np.isfinite(frame.elevation) & (frame.variance < 1e-3)
            nodes = np.stack([x[seen], y[seen], frame.elevation[seen]], axis=1)
            level = tilted.inverse() @ (frame.T_world_grid @ nodes)
            near = np.hypot(level[:, 0] - 3, level[:, 1]) < 15
            assert near.sum() > 100
            assert np.quantile(np.abs(level[near, 2] - hill(level[near, 0], level[near, 1])), 0.95) < 0.05
            assert frame.time == pytest.approx(0.2)
    assert GroundFilter()(Scan(scan.points)).T_world_grid is None
