# SPDX-License-Identifier: Apache-2.0
"""Opaque ground: the mask against a float64 oracle, tiny scenes, the measure of sparsity, and every engine."""

from dataclasses import replace

import numpy as np
import pytest

import roadbed
from roadbed import Config, GroundFilter, Label, Pose, Scan
from roadbed.core.errors import InputError
from roadbed.core.frames import SensorMount
from roadbed.ground.engine import Exclusion
from roadbed.ground.visibility import cpu
from roadbed.ground.visibility import model as rules
from roadbed.ground.visibility.applies import views_of
from roadbed.ground.visibility.model import VisibilityModel
from roadbed.simulate.scenes import build_scene
from roadbed.simulate.sensors import Mount, Rig, Sensor, lux4
from roadbed.simulate.sequence import SimulatedSequence
from tests.devices import BACKENDS, backend
from tests.ground import engines

LEVEL = Pose.identity()


def non_ground_points(scan, T_vehicle_sensor, config):
    views = views_of(scan, T_vehicle_sensor, config)
    return None if views is None else cpu.non_ground_points(scan.points, views, config)


def oracle(scan, T_vehicle_sensor, config):
    """The rule as it reads, every pair of returns of one sensor and direction."""
    directions = config.directions
    origins = [m.T_vehicle_sensor.translation for m in scan.mounts] or [np.zeros(3)]
    sensor = (scan.channels["sensor_index"] if scan.mounts else np.zeros(len(scan))).astype(int)
    offset = (scan.points - np.asarray(origins)[sensor]) @ T_vehicle_sensor.rotation.T
    r, z = np.hypot(offset[:, 0], offset[:, 1]), offset[:, 2]
    turn = ((np.arctan2(offset[:, 1], offset[:, 0]) + np.pi) / (2 * np.pi) * directions).astype(int)
    standing = np.zeros(len(scan), bool)
    for p in range(len(scan)):
        for q in np.flatnonzero((sensor == sensor[p]) & (turn == turn[p])):
            beneath = z[p] - r[p] * z[q] / r[q] > rules.BENEATH
            if r[q] - r[p] > rules.GAP + rules.GAP_GROWTH * r[p] and beneath:
                standing[p] = True
            rise, apart = z[q] - z[p], abs(r[q] - r[p])
            if rise > rules.RISE and apart < rules.NEAR and rise > rules.STEEP * apart:
                near = (r >= min(r[p], r[q]) - rules.NEAR) & (r <= max(r[p], r[q]) + rules.NEAR)
                between = (z >= z[p] - rules.BETWEEN) & (z <= z[q] + rules.BETWEEN)
                standing |= near & between & (sensor == sensor[p]) & (turn == turn[p])
    return beside_oracle(scan.points @ T_vehicle_sensor.rotation.T, r, z, sensor * directions + turn, standing)


def beside_oracle(level, r, z, cell, standing):
    """Far cars, undersides, the road at feet, and what stands among standing returns, after the first rules."""
    slope = z / r
    for p in np.flatnonzero(r >= rules.FAR):
        above = np.flatnonzero((cell == cell[p]) & (slope - slope[p] > rules.BEAM))
        q = above[np.argmin(slope[above])] if len(above) else p
        standing[p] |= r[q] > r[p] and z[q] - z[p] > rules.FAR_STEEP * (r[q] - r[p])
    stood = standing.copy()
    for p in range(len(r)):
        q = (cell == cell[p]) & stood & (r < r[p]) & (z > z[p])
        standing[p] |= (q & (r[p] - r < rules.BEHIND) & (z - z[p] < rules.BEHIND_LOWER)).any()
    road, stood = level[~standing], standing.copy()
    for p in np.flatnonzero(stood):
        above = (cell == cell[p]) & (z > z[p] + rules.RISE) & (np.abs(r - r[p]) < rules.FOOT_NEAR)
        if above.any() and (r[above] - r[p]).mean() > rules.FOOT_BEFORE:
            standing[p] = near(level[p], road, rules.FOOT, rules.FOOT_HEIGHT) < rules.FOOT_FROM
    many = [near(p, level[standing], rules.GROW, rules.GROW_HEIGHT) >= rules.GROW_FROM for p in level]
    return standing | many


def near(p, others, aside, height):
    return np.sum((np.hypot(*(others - p)[:, :2].T) < aside) & (np.abs(others[:, 2] - p[2]) < height))


@pytest.fixture(scope="module")
def lux():
    """Four layers in a street."""
    source = roadbed.open("sim:city?sensor=lux4&frames=1")
    return source[0], source.truth(0)


def test_the_mask_is_what_the_rule_says(lux):
    scan, truth = lux
    config = VisibilityModel()
    found = non_ground_points(scan, scan.T_vehicle_sensor, config)
    expected = oracle(scan, scan.T_vehicle_sensor, config)
    assert np.count_nonzero(found != expected) <= 2  # a return on the border of two directions
    assert found[~truth.is_ground].mean() > 0.8
    assert found[truth.is_ground].mean() < 0.08


def in_one_direction(*returns):
    """(range, height over the sensor) of returns straight ahead."""
    return Scan(np.array([(r, 0.01, z) for r, z in returns], np.float32))


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        (((8, -0.4), (12, -0.6), (20, -1.0)), [False, False, False]),  # a road
        (((8, -0.2), (20, -1.0)), [True, False]),  # a beam went on beneath the first
        (((8, -0.4), (8.05, -0.2), (20, 0.0)), [True, True, False]),  # a door
        (((8, -0.45), (8.02, -0.38), (8.05, -0.3)), [True, True, True]),  # what lies between stands too
        (((8, -0.5), (8.2, -0.38), (8.4, -0.26)), [False, False, False]),  # a bank of slope 0.6
        (((38, -0.4), (38.8, 0.1)), [True, False]),  # bonnet and window of a car far away
        (((18, -0.4), (18.8, 0.1)), [False, False]),  # nearer, a hillside
        (((38, -0.4), (39.5, 0.1)), [False, False]),  # far away, a hillside of slope 0.33
        (((8.6, -0.4), (8, -0.25), (8.02, -0.1)), [True, True, True]),  # under a bumper
        (((9, -0.4), (8, -0.25), (8.02, -0.1)), [False, True, True]),  # ground behind a rail
        (((8.6, -0.7), (8, -0.2), (8.02, -0.1)), [False, True, True]),  # ground under a sign
    ],
)
def test_what_cannot_be_ground(returns, expected):
    assert non_ground_points(in_one_direction(*returns), LEVEL, VisibilityModel()).tolist() == expected


@pytest.mark.parametrize("turned", [-179.9, -90, -0.1, 0.1, 90, 179.9])
def test_every_direction_is_looked_at(turned):
    """A door all around, in the first and the last direction too, and on the border between two."""
    door = in_one_direction((8, -0.4), (8.05, -0.2), (20, 0.0))
    around = Scan(door.points @ Pose.from_euler(yaw=np.radians(turned)).rotation.T)
    assert non_ground_points(around, LEVEL, VisibilityModel()).tolist() == [True, True, False]


LAYERED = VisibilityModel(densest=1)


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        (((20, -1.8), (27, -1.7), (27.02, -0.8)), [False, True, False]),  # the lowest return from a wall far away
        (((4, -1.8), (4.02, -0.8)), [False, False]),  # nearby the road ends in many beams before a wall
        (((27, -1.7), (27.02, -1.4)), [False, False]),  # beams so near each other would have met its foot
        (((20, -1.8), (27, -1.7), (27.15, -0.8)), [False, True, False]),  # a car's side
        (((27, -1.7), (27.3, -0.8)), [False, False]),  # the ground before a wall
        (((27, -1.7), (27.23, -0.85)), [False, False]),  # a bank
        (((27, 0.2), (27.02, 1.1)), [False, False]),  # above the sensor: a ceiling, perhaps
        (((27, -0.8), (27.1, 0.1), (27.2, 1.0)), [True, True, False]),  # above the wall that a falling beam has met
        (((27, -0.8), (27.1, 0.1), (27.3, 1.0), (27.3, 1.9)), [True, True, False, False]),  # 0.3 m behind that wall
    ],
)
def test_the_lowest_return_from_a_wall_is_not_ground_where_beams_are_far_apart(returns, expected):
    assert non_ground_points(in_one_direction(*returns), LEVEL, LAYERED).tolist() == expected


def foot_oracle(scan, T_vehicle_sensor, config):
    """The rule as it reads: the next beam above returned from right above, and would hardly leave room for ground."""
    directions = config.directions
    offset = scan.points.astype(np.float64) @ T_vehicle_sensor.rotation.T
    r, z = np.hypot(offset[:, 0], offset[:, 1]), offset[:, 2]
    turn = ((np.arctan2(offset[:, 1], offset[:, 0]) + np.pi) / (2 * np.pi) * directions).astype(int)
    slope, standing = z / r, np.zeros(len(scan), bool)
    for p in np.argsort(slope):
        others = np.flatnonzero((turn == turn[p]) & (slope >= slope[p] + rules.BEAM))
        if not len(others):
            continue
        gap = slope[others].min() - slope[p]
        beam = others[slope[others] < slope[p] + gap + rules.BEAM]
        q = beam[np.argmin(np.abs(r[beam] - r[p]))]
        apart = abs(r[q] - r[p])
        wall = apart < rules.NEAR and z[q] - z[p] > rules.WALL_RISE + rules.WALL * apart
        before = -slope[p] * (apart + rules.RANGE_NOISE) / r[p]
        met = (turn == turn[p]) & (slope < 0) & standing & (np.abs(r - r[p]) < rules.NEAR)
        lowest = before < rules.GROUND_SHARE * gap if slope[p] < 0 else met.any()
        standing[p] = gap > rules.FAR_APART and wall and lowest
    return standing


def test_sixteen_layers_see_less_ground_on_walls_and_lose_hardly_any():
    source = roadbed.open("sim:parking?sensor=vlp16&frames=1")
    scan, truth = source[0], source.truth(0)
    found = non_ground_points(scan, scan.T_vehicle_sensor, VisibilityModel())
    assert np.count_nonzero(found != foot_oracle(scan, scan.T_vehicle_sensor, VisibilityModel())) <= 2
    assert found[truth.is_ground].mean() < 0.01
    on_things, of_them = (
        np.count_nonzero(GroundFilter(config)(scan).is_ground & ~truth.is_ground)
        for config in (Config().with_changes(ground={"without": ["visibility"]}), Config())
    )
    assert of_them < 0.75 * on_things


def test_eight_layers_are_not_a_few_however_many_columns_they_have():
    """Their road lies so near that the rules for a few layers would take banks and its edges for objects."""
    scanner = Sensor(name="top", elevations=tuple(np.linspace(15, -15, 8)), columns=1024, mount=Mount(z=1.8))
    sequence = SimulatedSequence(build_scene("mountain", 925, 1.0), Rig.of(scanner), 1, 925)
    scan, truth = sequence.frame(0)
    found = non_ground_points(scan, scan.T_vehicle_sensor, VisibilityModel())
    assert found[truth.is_ground].mean() < 0.01
    few = non_ground_points(scan, scan.T_vehicle_sensor, VisibilityModel(beams=8))
    assert few[truth.is_ground].mean() > 0.05


@pytest.mark.parametrize("columns", [160, 680])
def test_four_layers_are_a_few_however_many_columns_they_have(columns):
    sequence = SimulatedSequence(build_scene("city", 925, 1.0), lux4().changed(columns=columns), 1, 925)
    scan, truth = sequence.frame(0)
    found = non_ground_points(scan, scan.T_vehicle_sensor, VisibilityModel())
    assert found[~truth.is_ground].mean() > 0.8


@pytest.mark.parametrize("name", BACKENDS)
def test_a_facade_on_rising_beams_is_no_plateau(name):
    """Eleven rows of a facade 29 m away, two of them on falling beams, in one scan of a VLP-16 on a level road."""
    azimuth, slope = (
        a.ravel() for a in np.meshgrid(np.radians(np.arange(0, 360, 0.2)), np.tan(np.radians(range(-15, 16, 2))))
    )
    ahead = (np.cos(azimuth) > 0) & (np.abs(np.tan(azimuth)) < 12 / 29)
    wall = np.where(ahead & (slope < 0.5), 29 / np.cos(azimuth), np.inf)
    r = np.minimum(np.where(slope < 0, 1.8 / np.maximum(-slope, 1e-6), np.inf), wall)
    r += np.random.default_rng(0).normal(0, 0.01, r.size)
    seen = r < 100
    points = np.stack([r * np.cos(azimuth), r * np.sin(azimuth), r * slope], axis=1)[seen]
    frame = GroundFilter(backend=backend(name))(Scan(points, T_vehicle_sensor=Pose.from_euler(z=1.8)))
    assert not frame.is_ground[points[:, 2] > -1].any()
    assert np.nanmax(np.abs(frame.elevation)) < 0.02


def test_what_stands_beside_a_row_of_standing_returns_stands_too():
    """Eight pairs of a door seen in two layers, and beside it returns of one layer: of its height, far off, lower."""
    y = np.linspace(-0.3, 0.3, 8)
    door = [np.column_stack([np.full(8, 6.0), y, np.full(8, z)]) for z in (-0.4, -0.3)]
    alone = np.array([[6.0, 0.55, -0.35], [6.0, 1.2, -0.35], [6.0, -0.55, -0.6]])
    scan = Scan(np.concatenate([*door, alone]))
    assert non_ground_points(scan, LEVEL, VisibilityModel()).tolist() == [True] * 16 + [True, False, False]


@pytest.mark.parametrize(("before", "around", "stands"), [(0.1, 8, False), (0.1, 7, True), (0.0, 8, True)])
def test_the_road_that_ends_at_a_wall_does_not_stand(before, around, stands):
    """A return at the foot of a wall: before it or not, with enough road of its height around or not; in any order."""
    stack = [(10 - before, 0.02, -0.5), (10, 0.02, -0.4), (10, 0.02, -0.3)]
    road = [(9.9, 1.0 + 0.1 * k, -0.48) for k in range(around)]
    points, expected = np.array([*stack, *road, (9.9, 1.2, -0.44)]), [stands, True, True] + [False] * (around + 1)
    for first in range(len(points)):
        found = non_ground_points(Scan(np.roll(points, first, axis=0)), LEVEL, VisibilityModel())
        assert np.roll(found, -first).tolist() == expected


def test_a_tilted_sensor_sees_the_same():
    upright = in_one_direction((8, -0.4), (8.05, -0.2), (20, -1.0))
    T_vehicle_sensor = Pose.from_euler(z=1.0, pitch=0.3, roll=-0.2)
    tilted = Scan(upright.points @ T_vehicle_sensor.rotation)
    assert non_ground_points(tilted, T_vehicle_sensor, VisibilityModel()).tolist() == [True, True, False]


def test_only_sparse_scans_are_asked():
    angle = np.radians(np.arange(0, 60, 0.05))  # eleven per direction and layer
    layers = [np.column_stack([r * np.cos(angle), r * np.sin(angle), np.full(angle.size, -1.0)]) for r in (5, 9, 14)]
    assert non_ground_points(Scan(layers[0]), LEVEL, VisibilityModel()) is not None
    assert non_ground_points(Scan(np.concatenate(layers)), LEVEL, VisibilityModel(layered=32)) is None
    assert non_ground_points(Scan(np.concatenate(layers * 4)), LEVEL, VisibilityModel()) is None
    assert non_ground_points(Scan(layers[0]), LEVEL, None) is None
    assert non_ground_points(Scan(np.zeros((0, 3))), LEVEL, VisibilityModel()) is None
    missing = Scan(np.array([[0, 0, 0], [np.nan, 1, 1], [np.inf, 0, 0]]))
    assert not non_ground_points(missing, LEVEL, VisibilityModel()).any()


def test_every_sensor_of_a_rig_may_hold_as_many():
    """Four sensors that look the same way see four times as much and are as sparse as each of them."""
    angle = np.radians(np.arange(0, 360, 0.5))
    ring = np.column_stack([5 * np.cos(angle), 5 * np.sin(angle), np.full(angle.size, -1.0)])
    mounts = tuple(SensorMount(name, LEVEL) for name in "abcd")
    points, index = np.tile(ring, (8, 1)), np.tile(np.repeat(np.arange(4), len(ring)), 2)
    rig = Scan(points, channels={"sensor_index": index}, mounts=mounts)
    few = VisibilityModel(layered=4)
    assert non_ground_points(rig, LEVEL, few) is not None
    assert non_ground_points(Scan(points), LEVEL, few) is None


def test_a_sensor_that_is_not_mounted_is_named():
    scan = Scan(np.ones((2, 3)), channels={"sensor_index": np.array([0, 1])}, mounts=(SensorMount("front", LEVEL),))
    with pytest.raises(InputError, match=r"sensor_index: found 0 to 1, expected 0 to 0"):
        non_ground_points(scan, LEVEL, VisibilityModel())


@pytest.mark.parametrize("name", BACKENDS)
def test_what_stands_neither_shapes_the_surface_nor_is_ground(name):
    """Doors over a road of which little is seen, and a lone standing return that lies on the road itself."""
    config = Config().with_changes(ground={"stcrf": {"length": 40, "width": 40}})
    x, y = (a.ravel() for a in np.meshgrid(np.arange(-10, 10, 0.5), np.arange(-3, 3, 0.5)))
    road = np.column_stack([x, y, np.zeros(x.size)])
    x, y = (a.ravel() for a in np.meshgrid(np.arange(-8, 8, 0.25), np.arange(5, 8, 0.25)))
    doors = np.column_stack([x, y, np.full(x.size, 0.4)])
    given = engines.given(config, np.concatenate([road, doors]))
    standing = np.r_[np.zeros(len(road), bool), np.ones(len(doors), bool)]
    standing[7] = True
    free, held = (
        engines.engine(name, config).frame(g) for g in (given, replace(given, exclude=Exclusion(non_ground=standing)))
    )
    assert (free.label[len(road) :] == Label.GROUND).mean() > 0.5
    assert (held.label[standing] == Label.OBSTACLE).all()
    assert (held.label[: len(road)] == Label.GROUND).sum() >= len(road) - 2  # that return, and one that it outvotes
    known = np.isfinite(held.elevation)
    assert np.abs(held.elevation[known]).max() < 0.02


@pytest.mark.parametrize("name", BACKENDS[1:])
def test_a_sparse_scan_agrees_with_the_cpu(lux, name):
    scan, _ = lux
    expected, found = (GroundFilter(backend=backend(n))(scan) for n in ("cpu", name))
    assert np.count_nonzero(found.label != expected.label) <= 2
    assert np.nanmax(np.abs(found.elevation - expected.elevation)) < 2e-3


@pytest.mark.parametrize("layers", [4, 16])
def test_threads_find_the_same_points_as_one_alone(monkeypatch, layers):
    rng = np.random.default_rng(layers)
    slopes = np.linspace(-0.2, 0.02, 4) if layers == 4 else np.linspace(-0.27, 0.27, layers)
    azimuth, slope = np.repeat(np.linspace(-3, 3, 1500), layers), np.tile(slopes, 1500)
    r = np.where(np.sin(9 * azimuth) > 0.3, 12 + np.sin(40 * azimuth), np.minimum(1.8 / np.maximum(-slope, 0.02), 40))
    r = r + rng.normal(0, 0.01, r.size)
    scan = Scan(np.stack([r * np.cos(azimuth), r * np.sin(azimuth), r * slope], axis=1))
    found = []
    for points in (0, 10**6):
        monkeypatch.setattr(cpu, "_FEW_POINTS", points)
        found.append(non_ground_points(scan, LEVEL, VisibilityModel()))
    assert 0 < found[0].sum() < len(scan)
    np.testing.assert_array_equal(*found)
