# SPDX-License-Identifier: Apache-2.0
"""An unknown mounting is found from the scan itself."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import roadbed
from benchmarks.indoor import cast, deck
from roadbed import Config, GroundFilter, Pose, Scan
from roadbed.ground.mounting.estimator import _FIRST_SCANS, MountingEstimator
from roadbed.ground.mounting.level_surfaces import floor_and_table, level_surfaces
from roadbed.simulate.motion import Fixed
from roadbed.simulate.objects import truck

pytestmark = pytest.mark.long(15)


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


@pytest.mark.parametrize(("known", "notes"), [({"height": 1.5}, 1), ({"pitch": 2.0}, 1), ({}, 0)])
def test_a_scan_with_a_mounting_says_once_that_given_values_are_not_used(known, notes):
    scan = Scan(street() - [0, 0, 1.8], T_vehicle_sensor=Pose.from_euler(z=1.8))
    ground = GroundFilter(Config.parse({"ground": {"mounting": known}}))
    one_by_one = [ground(scan), ground(scan)]
    ground.reset()
    for frames in (one_by_one, [*ground.batch([scan, scan])]):
        said = ["ground.mounting (--height) is not used" in "".join(frame.diagnostics) for frame in frames]
        assert said == [bool(notes), False]
        assert frames[0].mounting.height == 1.8


def test_tops_of_walls_below_a_hanging_sensor_are_announced_as_doubtful():
    """They are taken for the ground at this height; the note names the level of the road, which is above the sensor."""
    hanging = Pose.from_euler(z=1.125, roll=np.pi)
    frame = GroundFilter()(Scan((hanging.inverse() @ street()).astype(np.float32), has_origin=True))
    assert "doubtful" in frame.diagnostics[0]
    assert "1.12 m above" in frame.diagnostics[0]


@settings(max_examples=20)
@given(st.floats(0.1, 10), st.floats(-45, 45), st.sampled_from([0, 180]))
@example(0.25, 0.5, 0)
def test_any_height_and_tilt_up_to_45_degrees_upright_or_hanging(height, pitch, roll):
    mounted = Pose.from_euler(z=height, pitch=np.radians(pitch), roll=np.radians(roll))
    points = (mounted.inverse() @ street()).astype(np.float32)
    frame = GroundFilter()(Scan(points, has_origin=True))  # its density is that of a map
    assert frame.mounting.height == pytest.approx(height, abs=0.05)
    up = frame.mounting.T_vehicle_sensor.rotation[2] @ mounted.rotation[2]
    assert np.degrees(np.arccos(np.clip(up, -1, 1))) < 0.6
    assert any("upside down" in note for note in frame.diagnostics) == (roll == 180)
    level = GroundFilter()(Scan(mounted.inverse() @ street(), T_vehicle_sensor=mounted))
    assert (frame.label != level.label).mean() < 0.02


def test_a_kept_mounting_may_be_unusual_too():
    mounted = Pose.from_euler(z=5.0, pitch=np.radians(30))
    ground = GroundFilter()
    for k in range(8):
        points = (mounted.inverse() @ street(k, 4000)).astype(np.float32)
        frame = ground(Scan(points, time=0.1 * k, T_world_sensor=mounted))
    assert frame.mounting.height == pytest.approx(5.0, abs=0.05)
    assert frame.used_prior


@pytest.mark.parametrize(("sensor", "distance"), [("hdl32e", 9.0), ("vlp16", 7.0)])
def test_a_poor_plane_through_points_beside_the_sensor_is_doubtful(sensor, distance):
    """A lorry alone: a plane through it puts the vehicle beside the sensor, as in a cloud far from its origin."""
    seen = cast("lorry", sensor, [truck(Fixed(distance, 2.0, 2.0))], 1.5)
    frame = GroundFilter()(seen.scan.points[~seen.truth.is_ground])
    assert 0.25 < frame.mounting.quality < 0.4
    assert frame.confidence.surface > 0.45
    assert "far from their origin" in frame.confidence.doubts[0]


@pytest.mark.parametrize("offset", [(0, 0, 100), (4500, -800, 212), (0, 300, -40)])
def test_a_tile_far_from_its_origin_is_understood(offset):
    frame = GroundFilter()((street() + offset).astype(np.float32))
    here = frame.mounting.T_vehicle_sensor @ np.array(offset, float)
    assert abs(here[2]) < 0.05
    assert np.abs(here[:2]).max() < 10
    assert "far from their origin" in frame.diagnostics[0]
    assert 0.5 < frame.is_ground.mean() < 0.75


def test_what_is_not_a_scan_in_metres_with_z_up_is_named():
    points = street() - [0, 0, 1.8]
    camera = np.stack([-points[:, 1], -points[:, 2], points[:, 0]], axis=1).astype(np.float32)
    frame = GroundFilter()(camera)
    assert "--mounting 0 0 1.8 -90 0 -90" in frame.diagnostics[0]
    given = Pose.from_euler(z=1.8, roll=-np.pi / 2, yaw=-np.pi / 2)
    assert GroundFilter()(Scan(camera, T_vehicle_sensor=given)).is_ground.mean() > 0.5
    assert "millimetres" in GroundFilter()((1000 * points).astype(np.float32)).diagnostics[0]


@pytest.mark.parametrize("points", [np.zeros((0, 3)), np.random.default_rng(0).uniform(-1, 1, (5000, 3))])
def test_nothing_to_see_falls_back_and_says_so(points):
    frame = GroundFilter()(points.astype(np.float32))
    assert frame.mounting.quality == 0
    assert frame.mounting.height == 1.8
    assert "1.8 m over level ground is assumed" in frame.diagnostics[0]
    assert "--height" in frame.diagnostics[0]
    assert "T_vehicle_sensor" in frame.diagnostics[0]


def test_sensor_that_is_moved_during_a_drive_is_noticed():
    ground = GroundFilter()
    diagnostics = []
    for k in range(220):
        height = 1.8 if k < 60 else 1.6
        points = (street(k % 5, 3000) - [0, 0, height]).astype(np.float32)
        frame = ground(Scan(points, time=0.1 * k, T_world_sensor=Pose.from_euler(z=height)))
        diagnostics += [note for note in frame.diagnostics if "mounting" in note]
    assert len(diagnostics) == 1
    assert frame.mounting.height == pytest.approx(1.6, abs=0.05)


def room(height, floor=True, ceiling=2.5, seed=0):
    """A room of 6 x 5 m around a sensor `height` m over the floor: floor, walls, ceiling, in the sensor frame."""
    random = np.random.default_rng(seed)
    x, y, z = random.uniform([-3, -2.5, 0], [3, 2.5, ceiling], (24000, 3)).T
    side = random.integers(0, 3, len(x))
    x = np.where((side == 0) & (random.random(len(x)) < 0.5), np.sign(x) * 3, x)
    y = np.where((side == 0) & (np.abs(x) < 3), np.sign(y) * 2.5, y)
    z = np.where(side == 1, 0.0, np.where(side == 2, ceiling, z)) + random.normal(0, 0.01, len(x))
    points = np.stack([x, y, z - height], axis=1)
    return points[(side != 1) | floor].astype(np.float32)


def test_a_room_with_a_ceiling_is_not_upside_down():
    for height in (0.35, 0.8, 1.2):
        frame = GroundFilter()(room(height))
        assert frame.mounting.height == pytest.approx(height, abs=0.05)
        assert abs(np.degrees(frame.mounting.T_vehicle_sensor.roll)) < 2


def test_a_sensor_that_hangs_close_to_a_roof_is_upside_down():
    """The roof looks like ground close below the sensor, but most returns lie on its other side."""
    random = np.random.default_rng(0)
    road = np.column_stack([random.uniform(-12, 12, (30_000, 2)), random.normal(-2.5, 0.01, 30_000)])
    roof = np.column_stack([random.uniform(-12, 12, (3_000, 2)), random.normal(0.8, 0.01, 3_000)])
    hanging = (np.concatenate([road, roof]) * [1, -1, -1]).astype(np.float32)
    frame = GroundFilter()(Scan(hanging, has_origin=True))
    assert frame.mounting.height == pytest.approx(2.5, abs=0.05)
    assert any("upside down" in note for note in frame.diagnostics)


def test_a_room_with_y_up_is_doubtful():
    random = np.random.default_rng(0)
    side = random.integers(0, 6, 20_000)
    points = random.uniform(-1, 1, (len(side), 3))
    points[np.arange(len(side)), side // 2] = np.where(side % 2, 1, -1)
    points = points * [2, 2.5, 1.25] + random.normal(0, 0.01, points.shape)
    assert GroundFilter()(points.astype(np.float32)).confidence.is_sure
    y_up = GroundFilter()((points[:, [0, 2, 1]] * [1, 1, -1]).astype(np.float32))
    assert "if y points up" in y_up.confidence.doubts[0]
    open_above = points[points[:, 2] < 1.2]
    assert GroundFilter()(open_above.astype(np.float32)).confidence.is_sure
    y_up = GroundFilter()((open_above[:, [0, 2, 1]] * [1, 1, -1]).astype(np.float32))
    assert "if y points up" in y_up.confidence.doubts[0]


def test_a_slope_that_is_seen_ahead_only_is_doubtful():
    """Level around the sensor and rising by 0.2 from 5 m on; a sensor that looks ahead sees the slope, mostly."""
    x, y = np.random.default_rng(0).uniform([-15, -15], [15, 15], (40_000, 2)).T
    points = np.stack([x, y, 0.2 * np.maximum(x - 5, 0) - 1.6], axis=1)
    estimator = MountingEstimator(Config().ground.mounting)
    assert estimator.estimate(points.astype(np.float32)).note == ""
    ahead = points[x > np.maximum(3, np.abs(y))]
    assert "on one side of the sensor only" in estimator.estimate(ahead.astype(np.float32)).note
    level = ahead * [1, 1, 0] - [0, 0, 1.6]
    assert estimator.estimate(level.astype(np.float32)).note == ""


def test_uneven_ground_that_four_layers_see_ahead_is_doubtful_sooner():
    """A plane fits a few rows of points anywhere."""
    x, y = np.random.default_rng(4).uniform(-15, 15, (2, 60_000))
    for wave, doubtful in ((0.12, True), (0.06, False)):
        points = np.stack([x, y, wave * np.sin(x / 1.5) * np.cos(y / 2) - 0.6], axis=1).astype(np.float32)
        ahead = points[x > np.maximum(3, np.abs(y))]
        rows = np.abs(np.hypot(*ahead[:, :2].T)[:, None] - [4.5, 6, 8.5, 12]).min(axis=1) < 0.1
        many, few = (MountingEstimator(Config().ground.mounting).estimate(seen) for seen in (ahead, ahead[rows]))
        assert many.note == ""
        assert bool(few.note) == doubtful
        assert few.mounting.quality > 0.88


@pytest.mark.parametrize(("height", "note"), [(4.5, ""), (6.0, "in feet")])
def test_a_sensor_higher_than_on_any_vehicle_is_doubtful(height, note):
    points = (street() - [0, 0, height]).astype(np.float32)
    found = MountingEstimator(Config().ground.mounting).estimate(points)
    assert found.mounting.height == pytest.approx(height, abs=0.05)
    assert note in found.note
    assert bool(note) == bool(found.note)


def test_a_given_height_without_ground_there_says_so():
    config = Config.parse({"ground": {"mounting": {"height": 1.5}}})
    note = GroundFilter(config)(room(0.5)).diagnostics[0]
    assert note.startswith("no ground 1.10 to 1.90 m below lidar (given height 1.5 m)")
    assert re.search(r"around the sensor: 0\.48 m below \(3\d\.\d m2\), 1\.98 m above \(3\d\.\d m2\)$", note)
    assert GroundFilter(Config.parse({"ground": {"mounting": {"height": 0.5}}}))(room(0.5)).diagnostics == ()


@pytest.mark.parametrize("name", ["hesai_40p", "hesai_xt32", "hesai_qt128"])
def test_a_sensor_on_a_desk_is_doubtful_and_the_level_surfaces_are_named(real_data, name):
    frame = GroundFilter()(roadbed.open(str(real_data / "recordings" / f"{name}.pcd"))[0])
    assert any(note.startswith("mounting of lidar is doubtful") for note in frame.diagnostics)
    assert frame.mounting.T_vehicle_sensor.rotation[2, 2] > 0.9  # upright, although a ceiling is in view


@pytest.mark.parametrize("name", ["velo_vlp32", "autoware_test"])
def test_a_sure_mounting_is_not_doubted(real_data, name):
    assert GroundFilter()(roadbed.open(str(real_data / "recordings" / f"{name}.pcd"))[0]).diagnostics == ()


@given(st.floats(-1.4, -0.2), st.floats(0.3, 2.5))
def test_level_surfaces_are_found_between_walls(floor, ceiling):
    heights, areas = zip(*level_surfaces(room(-floor, ceiling=ceiling - floor)))
    assert np.abs(np.subtract.outer([floor, ceiling], heights)).min(axis=1).max() <= 0.06
    assert max(areas) == pytest.approx(30, rel=0.15)


@pytest.mark.parametrize(("name", "floor", "ground"), [("hesai_40p", 0.75, 0.02), ("hesai_xt32", 0.75, 0.05)])
def test_the_floor_is_preferred_to_the_desk_that_the_sensor_stands_on(real_data, name, floor, ground):
    scan = roadbed.open(str(real_data / "recordings" / f"{name}.pcd"))[0]
    frame = GroundFilter()(scan)
    assert frame.mounting.height == pytest.approx(floor, abs=0.06)
    assert 0 < frame.is_ground.mean() < ground  # little floor is in view
    chosen, other = re.search(
        r"give --height (\S+) for it or --height (\S+) for the upper one", *frame.diagnostics
    ).groups()
    assert float(chosen) == pytest.approx(frame.mounting.height, abs=0.01)
    assert float(other) == pytest.approx(0.05, abs=0.04)
    given = GroundFilter(Config.parse({"ground": {"mounting": {"height": float(chosen)}}}))(scan)
    assert given.diagnostics == ()
    assert (given.label != frame.label).mean() < 0.002  # a rounded height
    followed = GroundFilter()
    frames = [followed(Scan(scan.points, T_world_sensor=Pose.identity(), time=0.1 * k)) for k in range(3)]
    assert np.mean([frame.is_ground.mean() for frame in frames]) < ground


@pytest.mark.parametrize("sensor", ["hdl32e", "vlp16"])
def test_a_dock_is_ground_although_a_yard_lies_below_it(sensor):
    seen = deck(sensor, (8, 6), level=1.2, height=0.5)
    frame = GroundFilter()(seen.scan)
    assert frame.mounting.height == pytest.approx(0.5, abs=0.05)
    assert frame.mounting.table == 0


def test_the_roof_of_a_vehicle_is_no_table():
    random = np.random.default_rng(0)
    roof = random.uniform([-1.2, -0.7, -0.25], [1.2, 0.7, -0.24], (3000, 3))
    road, desk_floor = (random.uniform([-9, -9, z], [9, 9, z], (6000, 3)) for z in (-1.75, -0.95))
    road, desk_floor = (points[np.hypot(*points[:, :2].T) > 2] for points in (road, desk_floor))
    assert floor_and_table(np.concatenate([roof, road]).astype(np.float32)) is None
    floor, table = floor_and_table(np.concatenate([roof, desk_floor]).astype(np.float32))
    assert (floor.height, table.height) == pytest.approx((-0.95, -0.245), abs=0.01)
    assert table.area == pytest.approx(2.4 * 1.4, rel=0.3)


def test_points_in_the_vehicle_frame_are_announced(real_data):
    frame = GroundFilter()(roadbed.open(str(real_data / "formats" / "os128.pcd"))[0])
    assert frame.mounting.height < 0.05
    assert "points in the vehicle frame, or a sensor on a table" in frame.diagnostics[0]


@pytest.mark.parametrize(("pitches", "heights"), [((0, 3, 6), (1.5, 1.5, 1.5)), ((0, 0, 0), (1.4, 1.5, 1.6))])
def test_a_kept_mounting_is_doubtful_where_the_first_scans_differ(pitches, heights):
    estimator = MountingEstimator(Config().ground.mounting)
    mountings = []
    for pitch, height in zip(pitches, heights, strict=True):
        on_bump = Pose.from_euler(z=height, pitch=np.radians(pitch)).inverse()
        mountings.append(estimator.track((on_bump @ street(n=5000)).astype(np.float32)).mounting)
    assert mountings[0].doubt == ""
    assert "differ by" in mountings[-1].doubt
    steady = MountingEstimator(Config().ground.mounting)
    scans = [(street(k, 5000) - [0, 0, 1.5]).astype(np.float32) for k in range(5)]
    assert [steady.track(points).mounting.doubt for points in scans] == [""] * 5


def test_the_median_of_the_first_scans_is_kept_and_the_next_scan_does_not_count():
    estimator = MountingEstimator(Config().ground.mounting)
    heights = [*np.linspace(1.60, 1.60 + 0.02 * (_FIRST_SCANS - 1), _FIRST_SCANS), 1.90]
    found = [estimator.track((street(n=5000) - [0, 0, height]).astype(np.float32))[0].height for height in heights]
    assert found[-2] == pytest.approx(np.median(heights[:-1]), abs=0.01)
    assert found[-1] == found[-2]
