# SPDX-License-Identifier: Apache-2.0
"""The truth against the caster and against closed forms."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import roadbed
from roadbed.core.geometry import Grid, Pose
from roadbed.simulate.layers import Plane, Wave
from roadbed.simulate.motion import Along, Fixed, Pace, Straight
from roadbed.simulate.objects import SceneObject, box, car, wall
from roadbed.simulate.sensors import load_rig
from roadbed.simulate.sequence import SimulatedSequence
from roadbed.simulate.solids import Movements, reach
from roadbed.simulate.terrain import Terrain
from roadbed.simulate.truth import FrameTruth, object_velocity
from roadbed.simulate.world import Scene
from roadbed.sources.simulator import SimulatorSource


@pytest.fixture(scope="module")
def city() -> SimulatorSource:
    return roadbed.open("sim:city?sensor=vlp16&frames=20")


@pytest.mark.parametrize("distortion", ["off", "on"])
def test_object_points_lie_on_their_solids(distortion: str) -> None:
    """Those of movers, too, where these are at the time of the scan: they were seen up to 50 ms from it."""
    truth: FrameTruth = roadbed.open(f"sim:city?sensor=vlp16&frames=20&distortion={distortion}").truth(10)
    solids = truth.instant.solids
    margin = reach(solids) + (0.02 if distortion == "on" else 1e-6)  # limbs swing, cars turn
    for identity in np.unique(truth.object_id[truth.object_id > 0]):
        points = truth.points_world[truth.object_id == identity]
        parts = np.flatnonzero(solids.object == identity - 1)
        inside = (np.abs(points[:, None] - solids.centre[parts]) <= margin[parts]).all(axis=2)
        assert inside.any(axis=1).all()


def test_labels_and_flags_agree(city) -> None:  # type: ignore[no-untyped-def]
    scan, truth = city[10], city.truth(10)
    semantic = scan.classes & 0xFFFF
    np.testing.assert_array_equal(truth.is_ground, np.isin(semantic, [40, 44, 48, 72]))
    np.testing.assert_array_equal(truth.object_id, scan.classes >> 16)
    moving = np.isin(semantic, [252, 253, 254, 258])
    assert moving.any()
    np.testing.assert_array_equal(np.linalg.norm(truth.velocity, axis=1) > 0.1, moving)


def test_measured_points_lie_within_the_noise(city) -> None:  # type: ignore[no-untyped-def]
    scan, truth = city[10], city.truth(10)
    error = np.linalg.norm(truth.T_world_sensor @ scan.points.astype(np.float64) - truth.points_world, axis=1)
    assert np.sqrt((error**2).mean()) == pytest.approx(0.02, rel=0.1)


def test_elevation_and_slope_on_world_axes_are_the_terrain(city) -> None:  # type: ignore[no-untyped-def]
    truth = city.truth(3)
    grid = Grid.centred(20.0, 10.0, 0.5, 5.0, 2.0)
    x, y = grid.mesh()
    np.testing.assert_allclose(truth.elevation(grid), truth.terrain.height(x, y))
    np.testing.assert_allclose(truth.slope(grid), truth.terrain.slope(x, y))


def test_elevation_in_a_tilted_frame() -> None:
    scene = Scene("waves", Terrain((Wave(0.8, 30.0, 0.4), Plane(0.3, 0.1, 0.05))), (), Fixed(0.0, 0.0), 1.0)
    _, truth = SimulatedSequence(scene, load_rig("vlp16"), 1).frame(0)
    T_grid_sensor = Pose.from_euler(3.0, -1.0, 0.7, yaw=0.9, pitch=0.12, roll=-0.07)
    grid = Grid.centred(16.0, 12.0, 0.5)
    elevation = truth.elevation(grid, T_grid_sensor)
    x, y = grid.mesh()
    T_world_grid = truth.T_world_sensor @ T_grid_sensor.inverse()
    world = (T_world_grid @ np.stack([x, y, elevation], -1).reshape(-1, 3)).reshape(*x.shape, 3)
    np.testing.assert_allclose(world[..., 2], scene.terrain.height(world[..., 0], world[..., 1]), atol=1e-6)
    step = 1e-3
    moved = Grid(grid.x0 + step, grid.y0, grid.spacing, grid.columns, grid.rows)
    by_x = (truth.elevation(moved, T_grid_sensor) - elevation) / step
    np.testing.assert_allclose(truth.slope(grid, T_grid_sensor)[..., 0], by_x, atol=1e-3)


def block_scene() -> Scene:
    block = SceneObject("obstacle", (box(0.0, 0.0, 0.0, 2.0, 1.0, 1.0),), Fixed(6.0, 0.0, math.pi / 2), 2.0, 1.0, 1.0)
    roof = SceneObject("bridge", (box(0.0, 0.0, 3.0, 4.0, 4.0, 0.5),), Fixed(-8.0, 0.0), 4.0, 4.0, 3.5)
    kerb = SceneObject("obstacle", (box(0.0, 0.0, 0.0, 1.0, 1.0, 0.1),), Fixed(0.0, -6.0), 1.0, 1.0, 0.1)
    runner = car(Straight(0.0, 8.0, 0.3, Pace(7.0)))
    return Scene(
        "blocks", Terrain(), (block, roof, kerb, runner, wall(Fixed(14.0, 0.0, math.pi / 2), 6.0)), Fixed(0, 0), 2.0
    )


def test_occupancy_of_simple_shapes() -> None:
    _, truth = SimulatedSequence(block_scene(), load_rig("hdl32e"), 1).frame(0)
    grid = Grid.centred(40.0, 30.0, 0.2)
    found = truth.occupancy(grid)
    x, y = grid.mesh()
    block = (np.abs(x - 6.0) < 0.5 - 0.1) & (np.abs(y) < 1.0 - 0.1)  # turned by 90 degrees
    assert found.occupied[block].all()
    assert (found.object_id[block] == 1).all()
    around = (np.abs(x - 6.0) < 2.0) & (np.abs(y) < 2.0) & ~((np.abs(x - 6.0) < 0.7) & (np.abs(y) < 1.2))
    assert not found.occupied[around].any()
    assert not found.occupied[np.hypot(x + 8.0, y) < 2.5].any()  # the roof can be passed under
    assert not found.occupied[np.hypot(x, y + 6.0) < 1.0].any()  # lower than the band
    assert not found.moving[block].any()
    assert np.isnan(found.velocity[block]).all()
    along, across = (x * math.cos(0.3) + (y - 8.0) * math.sin(0.3)), (-x * math.sin(0.3) + (y - 8.0) * math.cos(0.3))
    runner = (np.abs(along) < 1.9) & (np.abs(across) < 0.7)
    assert found.moving[runner].all()
    np.testing.assert_allclose(
        found.velocity[runner], np.tile([7 * math.cos(0.3), 7 * math.sin(0.3)], (runner.sum(), 1)), rtol=1e-4
    )


def test_visibility_ends_behind_the_block() -> None:
    _, truth = SimulatedSequence(block_scene(), load_rig("hdl32e"), 1).frame(0)
    grid = Grid.centred(40.0, 30.0, 0.2)
    visible = truth.occupancy(grid, below=1.0).visible
    x, y = grid.mesh()
    assert visible[(np.hypot(x - 3.0, y) < 0.5)].mean() > 0.95
    assert not visible[(np.abs(x - 18.0) < 1.0) & (np.abs(y) < 2.0)].any()  # behind the wall
    assert visible[(np.abs(x - 5.55) < 0.11) & (np.abs(y) < 0.5)].all()  # the side of the block that is hit


def test_occupancy_turns_with_the_grid() -> None:
    _, truth = SimulatedSequence(block_scene(), load_rig("vlp16"), 1).frame(0)
    T_grid_sensor = Pose.from_euler(yaw=math.pi / 2)  # the world's x axis is the lattice's y axis
    grid = Grid.centred(30.0, 30.0, 0.2)
    found = truth.occupancy(grid, T_grid_sensor)
    x, y = grid.mesh()
    assert found.occupied[(np.abs(y - 6.0) < 0.35) & (np.abs(x) < 0.8)].all()
    runner = found.moving & (found.object_id == 4)
    np.testing.assert_allclose(found.velocity[runner].mean(axis=0), [-7 * math.sin(0.3), 7 * math.cos(0.3)], rtol=1e-3)


def test_objects_have_their_true_motion() -> None:
    source = roadbed.open("sim:highway?sensor=vlp16&frames=2")
    items = source.truth(1).objects()
    speeds = {round(float(np.linalg.norm(item.velocity)), 1) for item in items if item.moving}
    assert {15.0, 30.0} <= speeds
    for item in items:
        if item.moving:
            assert item.velocity @ item.T_world_object.rotation[:, 0] == pytest.approx(
                np.linalg.norm(item.velocity), rel=1e-3
            )


def test_points_of_a_turning_object_move_by_its_turning() -> None:
    """Counter-clockwise about (5, 0): what lies ahead goes left, what lies left goes back."""
    movements = Movements(np.array([[5.0, 0.0, 0.0]]), np.array([[1.0, 0.0, 0.0]]), np.array([0.5]))
    places = np.array([[7.0, 0.0, 1.0], [5.0, 3.0, 1.0]])
    found = object_velocity(SimpleNamespace(movements=movements), np.zeros(2, np.int32), places)
    np.testing.assert_allclose(found, [[1.0, 1.0, 0.0], [1.0 - 1.5, 0.0, 0.0]])


def test_drifting_odometry_leaves_the_truth_in_place() -> None:
    """The truth of a lattice in the measured world is the true ground seen from the vehicle."""
    source = roadbed.open("sim:mountain?sensor=vlp16&frames=40&odometry=drift")
    scan, truth = source[39], source.truth(39)
    assert scan.T_world_sensor is not None
    assert scan.T_world_sensor.distance_to(truth.T_world_sensor) > 0.01
    x, y, _ = scan.T_world_sensor.translation
    grid = Grid.centred(24.0, 24.0, 0.5, x, y)
    elevation = truth.elevation(grid, scan.T_world_sensor)
    points = scan.T_world_sensor @ scan.points.astype(np.float64)[truth.is_ground]
    near = grid.index(points[:, 0], points[:, 1])
    error = points[near >= 0, 2] - elevation.ravel()[near[near >= 0]]
    assert np.median(np.abs(error)) < 0.05


def test_a_car_starting_from_rest() -> None:
    path = Along(0.0, 0.0, Pace(12.0, begin=2.0, acceleration=2.0))
    terrain = Terrain()
    assert path.at(terrain, 1.9)[0] == 0.0
    assert path.at(terrain, 4.5)[0] == pytest.approx(0.5 * 2.0 * 2.5**2)
    source = roadbed.open("sim:standstart?sensor=vlp16&frames=46")
    starter = next(item for item in source.truth(45).objects() if item.id == 1)
    assert np.linalg.norm(starter.velocity) == pytest.approx(5.0, abs=0.02)
    semantic = source[5].classes & 0xFFFF
    assert not (semantic == 252).any()  # it waits
    assert ((source[45].classes & 0xFFFF) == 252).any()
