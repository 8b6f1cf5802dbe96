# SPDX-License-Identifier: Apache-2.0
"""Low objects around a low sensor on an even floor are obstacles; rough ground is labelled as by any other sensor."""

import numpy as np
import pytest

import roadbed
from benchmarks.indoor import low_objects, low_points
from roadbed import Config, GroundFilter, Pose, Scan
from roadbed.ground.visibility.applies import Floor, even_floor, fit_floor, tops_beside
from roadbed.ground.visibility.cpu import steep_faces
from tests.devices import DRIVERS, accelerator

HIGHEST = Config().ground.labels.highest


@pytest.fixture(scope="module")
def hall():
    return low_objects("vlp32c", 0.31, seed=1)


def test_boxes_legs_and_a_parapet_are_obstacles_and_the_floor_is_ground(hall):
    frame, low = GroundFilter()(hall.scan), low_points(hall)
    assert frame.mounting.height == pytest.approx(0.31, abs=0.02)
    assert (frame.label[np.any(list(low.values()), axis=0)] != roadbed.Label.GROUND).mean() >= 0.9
    assert all((frame.label[points] != roadbed.Label.GROUND).mean() >= 0.85 for points in low.values())
    assert frame.is_ground[hall.truth.is_ground].mean() >= 0.99


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("name", [name for name in DRIVERS if name != "cpu"])
def test_accelerators_give_the_same_labels(hall, name):
    config = Config.parse({"backend": name})
    scans = [Scan(hall.scan.points, T_vehicle_sensor=Pose.from_euler(z=0.31))] * 2
    on_device = GroundFilter(config, accelerator(name))
    expected = GroundFilter()(scans[0]).label
    for frame in (on_device(scans[0]), *on_device.batch(scans)):
        assert np.count_nonzero(frame.label != expected) == 0


def in_one_direction(*returns):
    return np.array([(r, 0.001, z) for r, z in returns], np.float32)


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        (((2.0, -0.3), (2.3, -0.3), (2.7, -0.3)), [False, False, False]),  # a floor
        (((2.0, -0.3), (2.3, -0.3), (2.6, -0.28), (2.61, -0.23), (2.6, -0.18)), [False, False, False, True, True]),
        (((2.4, -0.3), (2.6, -0.25), (2.61, -0.2)), [False, True, True]),  # its foot lies over the floor in front
        (((2.0, -0.3), (2.3, -0.27), (2.6, -0.24)), [False, False, False]),  # a ramp
        (((2.0, -0.3), (2.05, -0.27)), [False, False]),  # a sill of 3 cm
        (((2.0, -0.3), (2.2, -0.1)), [False, False]),  # a bank of slope 1
    ],
)
def test_returns_above_each_other_are_on_a_face(returns, expected):
    assert steep_faces(in_one_direction(*returns), np.eye(3)).tolist() == expected


def test_missing_returns_are_on_no_face():
    points = np.concatenate([in_one_direction((2, -0.3), (2, 0.0)), np.zeros((2, 3)), np.full((2, 3), np.nan)])
    assert steep_faces(points.astype(np.float32), np.eye(3)).tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize("sigma", [0.002, 0.02])
def test_unevenness_is_measured_on_a_slope_between_objects(sigma):
    random = np.random.default_rng(0)
    x, y = random.uniform(-5, 5, (2, 20_000))
    cell = np.floor(x * 4), np.floor(y * 4)
    z = 0.01 * x + sigma * np.sin(cell[0] * 12.9 + cell[1] * 78.2) * np.sqrt(2)  # one height per column
    z[random.random(len(z)) < 0.1] += 0.15
    floor = fit_floor(np.stack([x, y, z], axis=1).astype(np.float32))
    assert floor.unevenness == pytest.approx(sigma, rel=0.6, abs=0.002)
    assert floor.plane == pytest.approx([0.01, 0, 0], abs=0.005)


def test_only_a_low_sensor_on_an_even_floor_resolves_faces(hall, real_data):
    scan = Scan(hall.scan.points)
    assert even_floor(scan, Pose.from_euler(z=0.31), HIGHEST) is not None
    assert even_floor(scan, Pose.from_euler(z=0.0), HIGHEST) is None  # the origin is not the sensor
    assert even_floor(scan, Pose.from_euler(z=1.0), HIGHEST) is None
    assert even_floor(Scan(np.zeros((0, 3))), Pose.from_euler(z=0.31), HIGHEST) is None
    for frame in (4, 5):  # a low sensor on a car, with grass at the roadside
        road = roadbed.open(str(real_data / "solid-state" / "velodyne" / f"00000{frame}.bin"))[0]
        mounting = GroundFilter()(Scan(road.points)).mounting
        assert mounting.height < HIGHEST
        assert even_floor(Scan(road.points), mounting.T_vehicle_sensor, HIGHEST) is None
    room = roadbed.open(str(real_data / "recordings" / "velo_vlp32.pcd"))[0]
    assert even_floor(room, GroundFilter()(room).mounting.T_vehicle_sensor, HIGHEST) is not None


@pytest.mark.parametrize("height", [0.31, 0.5])
def test_sixteen_layers_see_the_tops_of_objects_whose_faces_they_miss(height):
    hall = low_objects("vlp16", height, seed=3)
    frame, low = GroundFilter()(hall.scan), np.any(list(low_points(hall).values()), axis=0)
    assert (frame.label[low] != roadbed.Label.GROUND).mean() >= 0.9  # without tops 0.85 and 0.77
    assert frame.is_ground[hall.truth.is_ground].mean() >= 0.99


def test_tops_lie_beside_seen_floor_and_a_ramp_is_no_top():
    floor = Floor(np.array([0.1, 0.0, 0.2]), 0.0)  # a slope
    along = np.arange(-5, 5, 0.1)
    x, y = (a.ravel() for a in np.meshgrid(along, along))
    over = np.where(x > 2, 0.08 * (x - 2), 0.0)  # a ramp
    box = (np.abs(x + 2) < 0.3) & (np.abs(y) < 0.3)
    over[box] = 0.1
    deck = y > 3
    over[deck] = 0.3
    points = np.stack([x, y, 0.1 * x + 0.2 + over], axis=1).astype(np.float32)
    tops = tops_beside(points, floor)
    assert tops[box].all()
    assert not tops[deck & (y > 3.8)].any()  # no floor beside it
    assert not tops[~box & ~deck].any()
    assert not tops_beside(points * [1, 1, np.nan], floor).any()


def test_labels_by_height_alone_lose_the_objects(hall):
    frame = GroundFilter(Config.parse({"ground": {"without": ["visibility"]}}))(hall.scan)
    low = np.any(list(low_points(hall).values()), axis=0)
    assert (frame.label[low] != roadbed.Label.GROUND).mean() < 0.4
