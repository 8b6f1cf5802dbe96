# SPDX-License-Identifier: Apache-2.0
"""The own vehicle's body: found from what travels along, left out of the ground and of the occupancy."""

import numpy as np
import pytest

import roadbed
from roadbed.config import Config
from roadbed.core.frames import Label, Scan
from roadbed.core.geometry import Pose
from roadbed.ground.ego.ego_mask import ACROSS, ALONG, PER_METRE, EgoMask
from roadbed.ground.ego.ego_mask_cpu import copy_without, mark_inside
from roadbed.runtime.cpu_backend import CpuBackend

MOUNT = Pose.from_euler(z=1.7)
BODY = np.array([[x, y, z] for x in (-1.0, -0.9, 1.9) for y in (-1.1, 1.1) for z in (0.9, 1.1)])


def scans(world, count=20, step=0.5, body=BODY):
    """A vehicle that drives along x among points of the world, with returns of its own body."""
    for k in range(count):
        T_world_vehicle = Pose.from_euler(x=step * k)
        points = np.vstack([T_world_vehicle.inverse() @ world, body])
        points = MOUNT.inverse() @ points[np.abs(points[:, 0]) < 30]
        yield Scan(
            points.astype(np.float32), time=0.1 * k, T_world_sensor=T_world_vehicle @ MOUNT, T_vehicle_sensor=MOUNT
        )


def road(rng, things=()):
    ground = np.column_stack([rng.uniform(-20, 40, 20_000), rng.uniform(-15, 15, 20_000), rng.normal(0, 0.01, 20_000)])
    return np.vstack([ground, *things])


def posts(rng):
    """Things beside the road, some of them near."""
    x, y = np.arange(-5, 20, 1.7), rng.uniform(1.2, 1.7, 15)
    return np.array([[a, b, z] for a, b in zip(x, y) for z in np.arange(0.3, 1.5, 0.2)])


def wall():
    """A wall along the whole way, near enough to be taken for the body."""
    return np.array([[x, -1.55, z] for x in np.arange(-20, 40, 0.05) for z in (0.5, 1.0)])


def test_points_in_a_box_are_marked_and_left_out():
    points = np.float32(
        [[0, 0, 0], [0.9, 0, 0], [1.1, 0, 0], [0, -0.6, 0], [0, 0, 2.1], [np.nan, 0, 0], [np.inf, 0, 0]]
    )
    inside = np.ones(len(points), bool)
    box = np.array([-1.0, 1.0, -0.5, 0.5, -1.0, 2.0])
    mark_inside(0, 7, points, np.eye(3), np.zeros(3), box, inside)
    assert inside.tolist() == [True, True, False, False, False, False, False]
    left = np.zeros_like(points)
    copy_without(0, 7, points, inside, left)
    np.testing.assert_array_equal(left, np.where(inside[:, None], np.nan, points))


def parked(rng, y=-1.7):
    """Cars parked along the whole way, 1 m apart: at any place beside the vehicle there is one in most scans."""
    rears = np.arange(-20, 60, 5.3) + rng.uniform(0, 0.3)
    return np.array([[x + along, y, z] for x in rears for along in np.arange(0, 4.3, 0.1) for z in (0.4, 0.8)])


@pytest.mark.parametrize("step", [0.1, 0.8, 2.4])
def test_parked_cars_are_not_the_own_body(step):
    """Were they, the road between them and the vehicle would be unknown."""
    rng = np.random.default_rng(5)
    row = parked(rng)
    beside = row[(row[:, 0] > 1.0) & (row[:, 0] < 6.0)] - (2.2, 0, 0)  # one car, from 1 m behind to 3 m ahead
    for things in (row, beside, np.vstack([row, parked(rng, 1.7)])):
        own, count = EgoMask(Config().vehicle, CpuBackend()), round(24 / step)
        for scan in scans(road(rng, [things]), count=count, step=step, body=np.zeros((0, 3))):
            own.update(scan, MOUNT)
            assert own.box is None


def test_a_body_that_is_no_longer_there_is_forgotten():
    rng = np.random.default_rng(6)
    own = EgoMask(Config().vehicle, CpuBackend())
    world = road(rng)[::20]
    for scan in scans(world, count=100, step=1.0):
        own.update(scan, MOUNT)
    assert own.box is not None
    for scan in scans(world, count=40, step=-1.0, body=np.zeros((0, 3))):
        own.update(scan, MOUNT)
    assert own.box is None


def test_what_travels_along_is_found_and_walls_and_posts_are_not():
    rng = np.random.default_rng(0)
    own = EgoMask(Config().vehicle, CpuBackend())
    for scan in scans(road(rng, [posts(rng), wall()])):
        own.update(scan, MOUNT)
    box = own.box
    assert box is not None
    assert box.front == pytest.approx(2.0, abs=0.2)
    assert box.rear == pytest.approx(-1.05, abs=0.2)
    assert box.left == pytest.approx(1.25, abs=0.2)
    assert box.right == pytest.approx(-1.25, abs=0.2)
    # 5 cm beyond the edge of the outermost cell.
    for edge, end in ((box.front, ALONG), (-box.rear, ALONG), (box.left, ACROSS), (-box.right, ACROSS)):
        cells = (end - (edge - 0.05)) * PER_METRE
        assert cells == pytest.approx(round(cells), abs=1e-6)
    nothing = EgoMask(Config().vehicle, CpuBackend())
    for scan in scans(road(rng, [posts(rng), wall()]), body=np.zeros((0, 3))):
        nothing.update(scan, MOUNT)
    assert nothing.box is None


def test_a_vehicle_that_stands_says_nothing_and_a_configured_box_holds_at_once():
    rng = np.random.default_rng(1)
    own = EgoMask(Config().vehicle, CpuBackend())
    for scan in scans(road(rng), step=0.0):
        own.update(scan, MOUNT)
    assert own.box is None
    body = {"front": 2.0, "rear": -1.2, "left": 1.3, "right": -1.3}
    config = Config().with_changes(vehicle={"body": body})
    scan = next(scans(road(rng)))
    for frame in (roadbed.GroundFilter(config)(scan), next(roadbed.GroundFilter(config).batch([scan]))):
        assert frame.ego_mask is not None
        assert frame.ego_mask[-len(BODY) :].all()
        inside = frame.ego_mask[: -len(BODY)]
        assert not inside[np.abs(scan.points[: -len(BODY), 0]) > 2].any()
        assert (frame.label[frame.ego_mask] == Label.UNKNOWN).all()
        assert np.isnan(frame.height_above_ground[frame.ego_mask]).all()
        assert frame.scan is scan  # what the caller gave is kept as it was


def test_the_own_body_is_no_obstacle():
    rng = np.random.default_rng(2)
    for found in (True, False):
        config = Config().with_changes(vehicle={"find_body": found}, occupancy={"grid": {"length": 20, "width": 20}})
        pipeline = roadbed.Pipeline(config)
        for scan in scans(road(rng), count=20):
            frame = pipeline(scan).occupancy
        x, y = frame.grid.mesh()
        x = x - scan.T_world_sensor.translation[0]
        near = (np.abs(x) < 3) & (np.abs(y) < 2)
        assert bool((frame.observation[near] > 0.5).any()) is not found


def test_leaving_points_out_by_their_mask_is_the_same_as_without_them(monkeypatch):
    """Dense scans are not copied; what is said of every other point must not depend on it."""
    world = road(np.random.default_rng(3), [posts(np.random.default_rng(4))])
    body = {"front": 2.0, "rear": -1.1, "left": 1.15, "right": -1.15, "top": 2.0}
    config = Config.parse({"vehicle": {"body": body}, "ground": {"without": ["visibility"]}})
    drive = list(scans(world, count=4))
    by_mask, copied = roadbed.GroundFilter(config), roadbed.GroundFilter(config)
    assert not by_mask._method._mountings.reads(drive[0])
    monkeypatch.setattr(copied._method._mountings, "reads", lambda scan: True)
    for scan in drive:
        one, other = by_mask(scan), copied(scan)
        assert one.ego_mask.any()
        assert (one.label[one.ego_mask] == Label.UNKNOWN).all()
        for name in ("label", "height_above_ground", "ground_probability", "elevation", "variance"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.used_prior
