# SPDX-License-Identifier: Apache-2.0
"""The confidence of a frame in its surface, on surfaces with known faults."""

import numpy as np
import pytest

import roadbed
from roadbed import Config, GroundFilter, Pose, Scan
from roadbed.core.confidence import Mounting, SurfaceLayers, frame_confidence, surface_confidence
from roadbed.core.geometry import Grid
from tests.devices import DRIVERS, backend

GRID = Grid.centred(20, 20, 1.0)


def floor(n=20_000, z=0.0):
    random = np.random.default_rng(0)
    return random.uniform([-8, -8, z - 0.01], [8, 8, z + 0.01], (n, 3)).astype(np.float32)


def confidence(points, elevation=0.0, sigma=0.02, near=False):
    layers = SurfaceLayers(
        GRID,
        np.full(GRID.shape, elevation, np.float32),
        np.zeros((*GRID.shape, 2), np.float32),
        np.full(GRID.shape, sigma**2, np.float32),
    )
    return surface_confidence(points, points[:, 2], np.full(len(points), near), layers)


def test_a_mounting_names_its_confidence_as_the_frame_and_the_commands_do():
    scan = Scan(floor(z=-1.7))
    frame = GroundFilter()(scan)
    assert f"estimated, confidence {frame.confidence.mounting:.2f}" in repr(frame.mounting)


def test_free_ground_is_sure_and_no_points_are_not():
    assert confidence(floor()) == 1
    assert confidence(floor(0)) == 0


def test_a_surface_of_a_few_columns_is_not_sure():
    few = floor()
    few = few[np.abs(few[:, :2] - 2).max(axis=1) < 0.5]  # 16 columns of 0.25 m
    assert confidence(few) == 0
    more = floor()
    assert confidence(more[np.abs(more[:, :2] - 2).max(axis=1) < 1]) == 1


def test_structures_and_returns_below_count_against_the_surface():
    half = floor()
    half = half[half[:, 0] > 0]
    structures, below = half + np.float32([0, 0, 0.4]), half - np.float32([0, 0, 0.5])
    assert confidence(np.concatenate([floor(), structures])) == pytest.approx(0.5, abs=0.02)
    assert confidence(np.concatenate([floor(), below])) == pytest.approx(0.5, abs=0.02)
    assert confidence(np.concatenate([floor(), structures + np.float32([0, 0, 1])])) == 1  # a ceiling


def test_an_unknown_surface_is_not_sure():
    assert confidence(floor(), sigma=0.2) == 0
    assert confidence(floor(), elevation=np.nan) == 0
    assert confidence(floor(), elevation=0.3) == 0  # no return lies on it


def test_the_vehicle_stands_on_the_surface():
    assert confidence(floor(z=0.75), elevation=0.75) == 1
    assert confidence(floor(z=0.75), elevation=0.75, near=True) == 0


@pytest.mark.parametrize(("step", "doubts"), [(0.2, 0), (1.2, 1)])
def test_ground_next_to_the_vehicle_that_is_not_at_the_height_of_the_mounting_is_doubtful(step, doubts):
    """The vehicle stands on a dock, but the mounting was found over the yard around it."""
    points, sensor = floor(60_000), Pose.from_euler(z=2.2)
    on_dock = np.hypot(points[:, 0], points[:, 1]) < 3
    points[on_dock, 2] += step
    x, y = GRID.mesh()
    elevation = np.where(np.hypot(x, y) < 3, step, 0).astype(np.float32)
    layers = SurfaceLayers(
        GRID, elevation, np.zeros((*GRID.shape, 2), np.float32), np.full(GRID.shape, 1e-4, np.float32)
    )
    given = (sensor.inverse() @ points).astype(np.float32), np.ones(len(points), np.bool_), None, sensor
    mounting = Mounting(T_vehicle_sensor=sensor, estimated=True)
    found = frame_confidence(*given, mounting, layers)
    assert [doubt for doubt in found.doubts if "height of the mounting" in doubt] == list(found.doubts)
    assert len(found.doubts) == doubts
    far = given[0], ~on_dock, None, sensor  # what is not called ground may be the vehicle itself
    assert frame_confidence(*far, mounting, layers).is_sure


@pytest.mark.parametrize("name", DRIVERS)
def test_frames_of_every_backend_carry_the_same_confidence(name):
    source = roadbed.open("sim:city?frames=1")
    frame = GroundFilter(Config(), backend(name))(source[0])
    expected = GroundFilter()(source[0]).confidence
    assert expected.is_sure
    assert frame.confidence.mounting == 1  # given
    assert 0.6 < expected.surface < 1
    assert frame.confidence.surface == pytest.approx(expected.surface, abs=0.002)


def test_a_doubtful_mounting_stays_doubtful_over_a_sequence():
    points = np.random.default_rng(0).uniform([5, -8, -1], [5.02, 8, 6], (5000, 3))  # a wall
    ground = GroundFilter()
    for k in range(3):
        frame = ground(Scan(points, time=0.1 * k, T_world_sensor=Pose.identity()))
        assert "not found" in frame.confidence.doubts[0]
        assert not frame.confidence.is_sure


@pytest.mark.parametrize(
    ("height", "where"), [(1.73, ""), (1.4, ""), (-1.73, "3.5 m below"), (2.5, "0.8 m above"), (1.0, "0.7 m below")]
)
def test_a_given_mounting_at_another_height_than_the_ground_is_doubtful(height, where):
    points = floor(z=-1.73)
    points = points[np.hypot(points[:, 0], points[:, 1]) > 4]  # none next to the vehicle
    frame = GroundFilter()(Scan(points, T_vehicle_sensor=Pose.from_euler(z=height)))
    assert frame.is_ground.mean() > 0.9
    found = [doubt for doubt in frame.confidence.doubts if doubt.startswith("mounting: ")]
    expected = f"mounting: ground within 8 m lies {where} the road of the given mounting: is its height right?"
    assert found == [expected] * bool(where)


@pytest.mark.parametrize(
    ("pitch", "roll", "tilt"), [(0, 0, 0), (5, 0, 0), (10, 0, 10), (-10, 0, 10), (0, 10, 10), (0, -10, 10), (7, 7, 10)]
)
def test_a_given_mounting_with_other_angles_than_the_ground_is_doubtful(pitch, roll, tilt):
    points = floor(z=-1.73)
    given = Pose.from_euler(z=1.73, pitch=np.radians(pitch), roll=np.radians(roll))
    expected = [f"mounting: ground within 8 m is tilted by {tilt} degrees against it: are its angles right?"]
    frame = GroundFilter()(Scan(points, T_vehicle_sensor=given))
    assert [doubt for doubt in frame.confidence.doubts if "tilted" in doubt] == expected * bool(tilt)
    ahead = points[points[:, 0] > 0]  # may be a slope ahead of the sensor
    assert "tilted" not in " ".join(GroundFilter()(Scan(ahead, T_vehicle_sensor=given)).confidence.doubts)
    angles = Config.parse({"ground": {"mounting": {"pitch": pitch, "roll": roll}}})  # the height is estimated
    doubts = GroundFilter(angles)(Scan(points)).confidence.doubts
    assert [doubt for doubt in doubts if "tilted" in doubt] == expected * bool(tilt)


def hills(wave, height=0.12):
    """Ground that curves, with waves (m) of 4 m on it."""
    points = floor(60_000)
    points[:, 2] += height * (1 - (points[:, :2] ** 2).sum(axis=1) / 16)
    points[:, 2] += wave * np.sin(points[:, 0] * np.pi / 2) * np.sin(points[:, 1] * np.pi / 2)
    return points[np.hypot(points[:, 0], points[:, 1]) > 3.2]


@pytest.mark.parametrize(("wave", "rough"), [(0.0, ""), (0.05, ""), (0.16, "0.07")])
def test_a_mounting_from_one_scan_of_rough_ground_is_doubtful(wave, rough):
    """The vehicle may stand several degrees off the plane through all of the ground."""
    points, sensor = hills(wave), Pose.from_euler(z=1.7)
    flat = np.zeros(GRID.shape, np.float32)
    layers = SurfaceLayers(GRID, flat, np.zeros((*GRID.shape, 2), np.float32), flat + np.float32(1e-4))
    seen = (sensor.inverse() @ points).astype(np.float32)
    distance = np.hypot(seen[:, 0], seen[:, 1])

    def doubts(chosen=distance > 0, estimated=True, quality=0.5, is_alone=True):
        mounting = Mounting(T_vehicle_sensor=sensor, estimated=estimated, quality=quality)
        given = seen[chosen], np.ones(np.count_nonzero(chosen), np.bool_), None, sensor
        found = frame_confidence(*given, mounting, layers, is_alone).doubts
        return [doubt for doubt in found if doubt.startswith("mounting")]

    expected = f"mounting: on ground so rough ({rough} m) one scan does not tell how the vehicle stands: give poses"
    assert doubts() == [expected] * bool(rough)
    assert not doubts(estimated=False)
    assert not doubts(is_alone=False)  # the median of several places
    assert not doubts(quality=0.7)  # a road between verges
    for part in (seen[:, 0] > 0, (distance > 6.5) & (distance < 7.8)):  # ahead only, and two rings
        assert bool(doubts(part)) == bool(rough)
    assert not doubts(distance < 0)


def test_a_mounting_on_rough_ground_is_known_with_poses():
    points = np.random.default_rng(2).uniform(-15, 15, (60_000, 3))
    points[:, 2] = 0.3 * np.sin(0.9 * points[:, 0]) * np.sin(0.9 * points[:, 1]) - 1.7
    points = points[np.hypot(points[:, 0], points[:, 1]) > 2].astype(np.float32)
    ground = GroundFilter()
    alone, placed = (
        ground(Scan(points, T_world_sensor=pose, has_origin=True)).confidence for pose in (None, Pose.identity())
    )
    assert 0.4 < alone.mounting < 0.62
    assert any("so rough" in doubt for doubt in alone.doubts)
    assert not any("so rough" in doubt for doubt in placed.doubts)
