# SPDX-License-Identifier: Apache-2.0
"""Argoverse 2 logs in their documented layout: columns, times, poses, axes, and what is wrong with a file."""

import numpy as np
import pyarrow as arrow
import pytest
from pyarrow import feather

import roadbed
from roadbed import GroundFilter, InputError

BEGIN = 315968112437425433  # ns
STEP = 100_000_000


def write_table(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    feather.write_feather(arrow.table(columns), str(path))


def sweep(number=0):
    """Rings on a road 0.33 m under the rear axle and a wall to the left, in the data set's own types."""
    ring, angle = np.meshgrid(np.geomspace(4, 35, 40), np.linspace(-np.pi, np.pi, 300, endpoint=False))
    road = np.stack([ring * np.cos(angle), ring * np.sin(angle), np.full_like(ring, -0.33)], axis=-1).reshape(-1, 3)
    wall = np.stack(np.meshgrid(np.linspace(-10, 10, 80), [9.0], np.linspace(-0.3, 2, 20)), axis=-1).reshape(-1, 3)
    points = np.concatenate([road, wall]).astype(np.float16)
    count = len(points)
    return {
        "x": points[:, 0],
        "y": points[:, 1],
        "z": points[:, 2],
        "intensity": np.arange(count, dtype=np.uint8),
        "laser_number": (np.arange(count) % 64).astype(np.uint8),
        "offset_ns": np.linspace(0, 1e8, count).astype(np.int32),
    }


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    stamps = BEGIN + STEP * np.arange(3)
    for stamp in stamps:
        write_table(folder / "sensors" / "lidar" / f"{stamp}.feather", **sweep())
    half = np.full(3, np.sqrt(0.5))
    write_table(
        folder / "city_SE3_egovehicle.feather",
        timestamp_ns=stamps,
        qw=half,
        qx=np.zeros(3),
        qy=np.zeros(3),
        qz=half,
        tx_m=np.full(3, 747.0),
        ty_m=1275.0 + np.arange(3),
        tz_m=np.full(3, -24.0),
    )
    write_table(
        folder / "calibration" / "egovehicle_SE3_sensor.feather",
        sensor_name=["ring_front_center", "up_lidar", "down_lidar"],
        qw=[1.0, 1.0, 0.0],
        qx=[0.0, 0.0, -1.0],
        qy=[0.0] * 3,
        qz=[0.0] * 3,
        tx_m=[1.6, 1.35018, 1.355162],
        ty_m=[0.0, 0.0, 0.000133],
        tz_m=[1.43, 1.64042, 1.565252],
    )
    return folder


def test_a_log_reads_with_its_times_poses_and_sensors(log):
    source = roadbed.open(log)
    assert (source.name, len(source), source.sequential) == ("argoverse", 3, True)
    scan, given = source[1], sweep()
    np.testing.assert_array_equal(scan.points[:, 0], given["x"].astype(np.float32))
    np.testing.assert_array_equal(scan.ring, given["laser_number"])
    np.testing.assert_array_equal(scan.intensity, given["intensity"])
    np.testing.assert_allclose(scan.point_time, given["offset_ns"] * 1e-9)
    assert scan.time == pytest.approx((BEGIN + STEP) * 1e-9, abs=1e-6)
    # The vehicle looks north: its front is the city's y.
    np.testing.assert_allclose(scan.T_world_sensor @ np.array([1.0, 0, 0]), [747, 1277, -24], atol=1e-6)
    assert [mount.name for mount in scan.mounts] == ["up_lidar", "down_lidar"]
    assert set(np.unique(scan.channels["sensor_index"])) == {0, 1}
    assert scan.mounts[0].T_vehicle_sensor.translation[2] == pytest.approx(1.64042)


def test_the_road_and_the_wall_are_told_apart(log):
    scan = roadbed.open(log)[0]
    frame = GroundFilter()(scan)
    road = scan.points[:, 2] < -0.32
    assert frame.is_ground[road].mean() > 0.98
    assert frame.is_ground[scan.points[:, 2] > 0].mean() < 0.02
    assert frame.mounting.height == pytest.approx(0.33, abs=0.05)


def test_sweeps_read_without_their_log(log, tmp_path):
    sweeps = log / "sensors" / "lidar"
    assert len(roadbed.open(sweeps)) == 3
    loose = tmp_path / "one.feather"
    loose.write_bytes(next(sweeps.iterdir()).read_bytes())
    scan = roadbed.open(loose)[0]
    assert (scan.time, scan.mounts, scan.name) == (None, (), "one")


def test_what_is_wrong_is_one_line(tmp_path):
    damaged = tmp_path / "1.feather"
    damaged.write_bytes(b"ARROW1\0\0" + bytes(50))
    with pytest.raises(InputError, match="not a readable feather file"):
        roadbed.open(damaged)[0]
    write_table(tmp_path / "2.feather", x=np.zeros(2), y=np.zeros(2))
    with pytest.raises(InputError, match="column 'z': not found, expected one among x, y"):
        roadbed.open(tmp_path / "2.feather")[0]
    write_table(tmp_path / "3.feather", x=["a"], y=[0.0], z=[0.0])
    with pytest.raises(InputError, match="column 'x': found string, expected numbers"):
        roadbed.open(tmp_path / "3.feather")[0]
    (tmp_path / "empty" / "sensors" / "lidar").mkdir(parents=True)
    with pytest.raises(InputError, match="found no sweeps"):
        roadbed.open(tmp_path / "empty")


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_float32_and_signalling_nan_are_read_without_a_word(tmp_path):
    signalling = np.array([0x7C01], np.uint16).view(np.float16)
    write_table(tmp_path / "1.feather", x=[1e300], y=[0.0], z=signalling, offset_ns=signalling)
    scan = roadbed.open(tmp_path / "1.feather")[0]
    assert np.isinf(scan.points[0, 0])
    assert np.isnan(scan.points[0, 2])
    with pytest.raises(InputError, match="expected a quaternion of length 1, found length inf"):
        roadbed.Pose.from_quaternion((0, 0, 0), (1e200, 0, 0, 1e200))


def annotated(folder, **changes):
    """A log of one sweep with two boxes in it, one of them a bus turned by 30 degrees, and one box of another time."""
    write_table(folder / "sensors" / "lidar" / f"{BEGIN}.feather", **sweep())
    turn = np.radians([30.0, 0.0, 0.0])
    columns = {
        "timestamp_ns": np.array([BEGIN, BEGIN, BEGIN + STEP]),
        "track_uuid": ["bus", "walker", "bus"],
        "category": ["BUS", "PEDESTRIAN", "BUS"],
        "length_m": [12.0, 0.6, 12.0],
        "width_m": [2.8, 0.8, 2.8],
        "height_m": [3.2, 1.7, 3.2],
        **{name: np.zeros(3) for name in ("qx", "qy")},
        "qw": np.cos(turn / 2),
        "qz": np.sin(turn / 2),
        "tx_m": [20.0, 5.0, 21.0],
        "ty_m": [-4.0, 2.0, -4.0],
        "tz_m": [1.3, 0.5, 1.3],
        "num_interior_pts": [100, 3, 90],
    }
    write_table(folder / "annotations.feather", **{**columns, **changes})
    return roadbed.open(folder)


def test_boxes_are_those_of_the_sweep(tmp_path):
    bus, walker = annotated(tmp_path).objects(0)
    assert (bus.id, bus.kind, bus.height) == ("bus", "BUS", 3.2)
    assert (walker.id, walker.kind, walker.height) == ("walker", "PEDESTRIAN", 1.7)
    np.testing.assert_allclose(bus.centre, [20, -4])
    assert bus.z == pytest.approx(1.3 - 1.6)
    front = np.array([20, -4]) + 6 * np.array([np.cos(np.pi / 6), 0.5])
    np.testing.assert_allclose(bus.footprint[:2].mean(axis=0), front)
    np.testing.assert_allclose(sorted(np.ptp(walker.footprint, axis=0)), [0.6, 0.8])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"track_uuid": [1, 2, 3]}, r"annotations.feather: column 'track_uuid': found int64, expected text"),
        ({"length_m": [1.0, np.nan, 1.0]}, r"annotations.feather: sizes: expected finite numbers"),
    ],
)
def test_wrong_annotations_are_named(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        annotated(tmp_path, **changes).objects(0)


def test_a_log_without_annotations_says_so(log):
    with pytest.raises(InputError, match=r"annotations.feather: found no annotations"):
        roadbed.open(log).objects(0)
