# SPDX-License-Identifier: Apache-2.0
"""Stray returns below the ground, from reflections and multipath: they shape neither mounting nor surface."""

from dataclasses import replace

import numpy as np
import pytest

import roadbed
from benchmarks.multipath import recorded
from benchmarks.strays import Scene, f1, real_scenes, with_strays
from roadbed import Config, GroundFilter, Label, Scan
from roadbed.ground.engine import Exclusion
from tests.devices import BACKENDS, backend
from tests.ground import engines

LARGEST_LOSS = {"solid state C": 1.3}  # of F1; 0.4 on every other set


@pytest.fixture(scope="module")
def ground():
    return GroundFilter(Config())


@pytest.fixture(scope="module")
def scenes(real_data):
    return dict(real_scenes(real_data))


@pytest.mark.parametrize("mounting", ["known", "estimated"])
@pytest.mark.parametrize("name", ["SemanticKITTI 08", "nuScenes", "solid state B", "solid state C"])
def test_strays_cost_little_on_real_scans(ground, scenes, name, mounting):
    losses, low = [], []
    for number, scene in enumerate(scenes[name][:2]):
        clean = ground(scene.scan)
        changed, stray = with_strays(scene, 0.05, seed=40 + number)
        pose = clean.mounting.T_vehicle_sensor if mounting == "known" else None
        frame = ground(replace(changed.scan, T_vehicle_sensor=pose))
        losses.append(f1(scene, clean.is_ground) - f1(changed, frame.is_ground))
        low.append(np.mean(frame.label[stray] == Label.LOW_OUTLIER))
        height = frame.mounting.T_vehicle_sensor.xyz[2] - clean.mounting.T_vehicle_sensor.xyz[2]
        assert abs(height) < 0.05
        assert any("below the ground" in line for line in frame.diagnostics)
        assert not any("below the ground" in line for line in clean.diagnostics)
    assert np.mean(losses) < LARGEST_LOSS.get(name, 0.4)
    assert np.mean(low) > 0.95


def test_the_rule_is_what_protects_the_ground(scenes):
    scene = scenes["SemanticKITTI 08"][0]
    changed, _ = with_strays(scene, 0.05, seed=40)
    without = GroundFilter(Config().with_changes(ground={"without": ["isolated_returns"]}))
    assert f1(changed, without(changed.scan).is_ground) < 60


def test_scans_without_strays_are_as_before(ground, scenes):
    without = GroundFilter(Config().with_changes(ground={"without": ["isolated_returns"]}))
    for name in ("SemanticKITTI 08", "solid state C"):
        scan = scenes[name][0].scan
        np.testing.assert_array_equal(ground(scan).label, without(scan).label)


def test_multipath_in_a_city(ground):
    source = roadbed.open("sim:city?frames=12&seed=77&multipath=0.05")
    scan, truth = replace(source[11], T_world_sensor=None), source.truth(11)
    frame = ground(scan)
    scene = Scene(scan, truth.is_ground & ~truth.spurious, np.ones(len(scan), np.bool_))
    assert f1(scene, frame.is_ground) > 98.5
    assert np.mean(frame.label[truth.spurious] == Label.LOW_OUTLIER) > 0.9
    off = frame.height_above_ground[scene.is_ground]
    assert abs(np.nanmedian(off)) < 0.03


@pytest.mark.parametrize(("sensor", "largest_loss"), [("vlp16", 1.0), ("lux4", 1.5)])
def test_strays_cost_little_on_mountains(ground, sensor, largest_loss):
    """On slopes the ground beside a stray is as low as the stray; with few layers its beam passes below the road."""
    losses = []
    for seed in (603, 604):
        source = roadbed.open(f"sim:mountain?sensor={sensor}&frames=11&seed={seed}")
        scan, truth = replace(source[10], T_world_sensor=None), source.truth(10)
        scene = Scene(scan, truth.is_ground, np.ones(len(scan), np.bool_))
        changed, _ = with_strays(scene, 0.05, seed)
        losses.append(f1(scene, ground(scan).is_ground) - f1(changed, ground(changed.scan).is_ground))
    assert np.mean(losses) < largest_loss


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    ("where", "frame", "largest_loss"),
    [
        ("city?sensor=solid_state&seed=901", 24, 0.5),  # strays so dense that each has others at its height
        ("city?sensor=vlp16&seed=912", 0, 1.0),  # so few returns that an eighth of them shows no stray
        ("mountain?sensor=vlp16&seed=901", 5, 1.0),  # a bank higher than the sensor, through which rays would pass
    ],
)
def test_strays_along_the_beam_cost_little_more_than_missing_returns(name, where, frame, largest_loss):
    source = roadbed.open(f"sim:{where}&frames={frame + 1}&multipath=0.05")
    scan, truth = replace(source[frame], T_world_sensor=None), source.truth(frame)
    ground = GroundFilter(Config(), backend=backend(name))
    points = np.where(truth.spurious[:, None], np.float32(np.nan), scan.points)
    scored = Scene(scan, truth.is_ground, ~truth.spurious)
    assert f1(scored, ground(scan).is_ground) > f1(scored, ground(scan.with_points(points)).is_ground) - largest_loss


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    ("rig", "scene", "least_low"),
    [
        ("two of 16 layers tilted outwards", "highway", 0.9),
        ("16 layers on a bumper, 32 on a roof", "mountain", 0.8),
        ("lux4", "parking", 0.3),  # so few returns that none lies above a stray: rays alone tell
    ],
)
def test_strays_of_a_rig_are_found_by_the_rays_from_all_its_sensors(name, rig, scene, least_low):
    scan, is_ground, stray = recorded(scene, rig, 923, 0.05)[3]
    scan, ground = replace(scan, T_world_sensor=None), GroundFilter(backend=backend(name))
    frame = ground(scan)
    assert np.mean(frame.label[stray] == Label.LOW_OUTLIER) > least_low
    points = np.where(stray[:, None], np.float32(np.nan), scan.points)
    scored = Scene(scan, is_ground, ~stray)
    assert f1(scored, frame.is_ground) > f1(scored, ground(scan.with_points(points)).is_ground) - 1
    expected = GroundFilter()(scan).label
    assert np.count_nonzero(frame.label != expected) <= 5


def beyond_the_road(rng):
    """A level road that ends 8 m ahead, 5 % strays below it, and one return 2 m beyond it and 0.8 m below."""
    x, y = rng.uniform((-15, -15), (8, 15), (40_000, 2)).T
    z = rng.normal(0, 0.02, len(x))
    stray = rng.random(len(x)) < 0.05
    z[stray] -= rng.uniform(0.5, 3, np.count_nonzero(stray))
    return np.append(np.stack([x, y, z], 1), [[10, 0, -0.8]], axis=0).astype(np.float32)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    ("origins", "is_stray"),
    [
        ([[0, 0, 1.8]], True),  # its ray passed below the road
        ([[0, 0, 1.8], [-2, 1, 1.6]], True),
        ([[0, 0, 1.8], [10, 0, 4]], False),  # the second sensor looks down beyond the road
        ([[10, 0, 4], [0, 0, 1.8]], False),
        (np.zeros((0, 3)), False),  # a map
    ],
)
def test_the_ray_from_each_sensor_must_have_passed_below_ground(name, origins, is_stray):
    config = Config().with_changes(ground={"stcrf": {"length": 40, "width": 40}})
    given = engines.given(config, beyond_the_road(np.random.default_rng(5)))
    frame = engines.engine(name, config).frame(replace(given, origins=np.array(origins, float).reshape(-1, 3)))
    assert (frame.label[-1] == Label.LOW_OUTLIER) == is_stray


def flat_with_pit(rng, depth=1.5):
    """A level road with a pit of 4 x 4 m below it, seen in both: an extended surface, and 5 % strays elsewhere."""
    x, y = rng.uniform(-20, 20, (2, 60_000))
    near = np.hypot(x, y) > 2.5
    x, y = x[near], y[near]
    pit = (np.abs(x - 8) < 2) & (np.abs(y - 4) < 2)
    z = np.where(pit, -1.8 - depth, -1.8) + rng.normal(0, 0.02, len(x))
    stray = ~pit & (rng.random(len(x)) < 0.05)
    z[stray] -= rng.uniform(0.5, 3, np.count_nonzero(stray))
    return np.stack([x, y, z], 1).astype(np.float32), pit, stray


def test_a_pit_keeps_its_ground_among_strays(ground):
    points, pit, stray = flat_with_pit(np.random.default_rng(3))
    frame = ground(Scan(points))
    inner = (np.abs(points[:, 0] - 8) < 1.5) & (np.abs(points[:, 1] - 4) < 1.5)
    assert np.mean(frame.label[inner & pit] == Label.GROUND) > 0.95
    assert np.mean(frame.label[stray] == Label.LOW_OUTLIER) > 0.97
    assert np.mean(frame.label[~pit & ~stray] == Label.GROUND) > 0.97


@pytest.mark.parametrize("name", BACKENDS)
def test_backends_agree_on_isolated_returns(name):
    points, _, stray = flat_with_pit(np.random.default_rng(5))
    config = Config().with_changes(ground={"stcrf": {"length": 40, "width": 40}})
    given = engines.given(config, points + np.float32([0, 0, 1.8]))
    expected = engines.engine("cpu", config).frame(given)
    found = engines.engine(name, config).frame(given)
    assert np.count_nonzero(found.label != expected.label) <= 3
    assert np.mean(found.label[stray] == Label.LOW_OUTLIER) > 0.97
    np.testing.assert_allclose(found.elevation, expected.elevation, atol=1e-3)


@pytest.mark.parametrize("without", [(), ("isolated_returns",)], ids=["with", "without"])
@pytest.mark.parametrize("name", BACKENDS)
def test_what_was_no_ground_in_one_scan_may_be_in_the_next(name, without):
    """Where isolated returns are not marked, the marks of a scan stay in memory."""
    points, _, _ = flat_with_pit(np.random.default_rng(5))
    config = Config().with_changes(ground={"stcrf": {"length": 40, "width": 40}, "without": without})
    given = engines.given(config, points + np.float32([0, 0, 1.8]))
    engine = engines.engine(name, config)
    expected = engine.frame(given).label.copy()
    assert np.mean(expected == Label.GROUND) > 0.8
    masked = engine.frame(replace(given, exclude=Exclusion(non_ground=np.ones(len(points), bool)))).label.copy()
    assert not np.any(masked == Label.GROUND)
    np.testing.assert_array_equal(engine.frame(given).label, expected)
