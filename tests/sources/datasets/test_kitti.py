# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

import roadbed
from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose


def write_sequence(folder, scans=3, points=5, labels=True, poses=None):
    """A small sequence in SemanticKITTI's layout; scan k holds the number k in its first intensity."""
    rng = np.random.default_rng(0)
    (folder / "velodyne").mkdir(parents=True)
    (folder / "labels").mkdir()
    for k in range(scans):
        rows = rng.normal(size=(points, 4)).astype(np.float32)
        rows[0, 3] = k
        rows.tofile(folder / "velodyne" / f"{k:06d}.bin")
        if labels:
            np.full(points, (k << 16) | 40, np.uint32).tofile(folder / "labels" / f"{k:06d}.label")
    if poses is not None:
        np.savetxt(folder / "poses.txt", [pose.matrix[:3].ravel() for pose in poses])


def test_a_sequence_has_labels_poses_and_times(tmp_path):
    poses = [Pose.from_euler(k, 0, 0, yaw=0.1 * k) for k in range(3)]
    write_sequence(tmp_path, poses=poses)
    np.savetxt(tmp_path / "times.txt", [10.0, 10.1, 10.2])
    source = roadbed.open(tmp_path)
    assert (source.name, len(source), source.sequential) == ("semantickitti", 3, True)
    for k, scan in enumerate(source):
        assert (scan.name, len(scan)) == (f"{k:06d}", 5)
        assert scan.intensity[0] == k
        assert (scan.classes == ((k << 16) | 40)).all()
        assert scan.time == pytest.approx(10 + 0.1 * k)
        np.testing.assert_allclose(scan.T_world_sensor.matrix, poses[k].matrix, atol=1e-12)
    assert source[-1].name == "000002"
    with pytest.raises(IndexError):
        source[3]


def test_camera_poses_become_lidar_poses_where_the_calibration_has_tr(tmp_path):
    # Camera axes: x right, y down, z forward. A camera that drives 2 m along its z has a LiDAR that drives along x.
    T_camera_lidar = Pose(np.array([[0, -1, 0], [0, 0, -1], [1, 0, 0.0]]), np.array([0.0, -0.08, -0.27]))
    camera = [Pose.identity(), Pose(np.eye(3), np.array([0.0, 0.0, 2.0]))]
    write_sequence(tmp_path, scans=2, poses=camera)
    row = " ".join(map(str, T_camera_lidar.matrix[:3].ravel()))
    (tmp_path / "calib.txt").write_text(f"P0: 1 0 0 0 0 1 0 0 0 0 1 0\nTr: {row}\n")
    scan = roadbed.open(tmp_path)[1]
    np.testing.assert_allclose(scan.T_world_sensor.translation, [2, 0, 0], atol=1e-12)
    np.testing.assert_allclose(scan.T_world_sensor.rotation, np.eye(3), atol=1e-12)


def test_odometry_layout_keeps_poses_beside_the_sequences(tmp_path):
    sequence = tmp_path / "sequences" / "04"
    write_sequence(sequence, labels=False)
    (tmp_path / "poses").mkdir()
    np.savetxt(tmp_path / "poses" / "04.txt", [Pose.from_euler(k).matrix[:3].ravel() for k in range(3)])
    source = roadbed.open(sequence)
    assert source.sequential
    assert source[2].T_world_sensor.translation[0] == 2
    assert source[2].classes is None


def test_without_poses_scans_are_unrelated(tmp_path):
    write_sequence(tmp_path)
    source = roadbed.open(tmp_path)
    assert not source.sequential
    assert source[0].T_world_sensor is None


def test_extra_poses_are_attached(tmp_path):
    write_sequence(tmp_path / "s")
    np.savetxt(tmp_path / "mine.txt", [Pose.from_euler(k).matrix[:3].ravel() for k in range(3)])
    assert roadbed.open(tmp_path / "s", poses=tmp_path / "mine.txt")[1].T_world_sensor.translation[0] == 1
    assert roadbed.open(f"{tmp_path}/s?poses={tmp_path}/mine.txt").sequential


def test_a_single_scan_finds_its_labels(tmp_path):
    write_sequence(tmp_path)
    source = roadbed.open(tmp_path / "velodyne" / "000001.bin")
    assert (len(source), source.sequential) == (1, False)
    assert (source[0].classes >> 16 == 1).all()
    assert len(roadbed.open(tmp_path / "velodyne")) == 3


def test_wrong_pose_count_label_length_and_truncation(tmp_path):
    write_sequence(tmp_path / "a", poses=[Pose.identity()] * 2)
    with pytest.raises(InputError, match=r"poses.txt: poses: found 2, expected 3"):
        roadbed.open(tmp_path / "a")
    write_sequence(tmp_path / "b")
    (tmp_path / "b/labels/000000.label").write_bytes(bytes(16))
    with pytest.raises(InputError, match=r"000000.label: labels: found 4 \(16 bytes\), expected 5"):
        roadbed.open(tmp_path / "b")[0]
    (tmp_path / "b/velodyne/000001.bin").write_bytes(bytes(37))
    with pytest.raises(InputError, match=r"000001.bin: length: found 37 bytes, expected a multiple of 16"):
        roadbed.open(tmp_path / "b")[1]
    (tmp_path / "c/velodyne").mkdir(parents=True)
    with pytest.raises(InputError, match=r"found no \.bin files"):
        roadbed.open(tmp_path / "c")


@pytest.mark.parametrize("points", [0, 1])
def test_empty_and_one_point_scans_read_as_such(tmp_path, points):
    write_sequence(tmp_path, points=max(points, 1))
    if not points:
        (tmp_path / "velodyne/000000.bin").write_bytes(b"")
        (tmp_path / "labels/000000.label").write_bytes(b"")
    assert len(roadbed.open(tmp_path)[0]) == points


def test_numbers_that_are_no_coordinates_stay_in_the_scan(tmp_path):
    rows = np.array([[np.nan, 0, 0, 1], [np.inf, 1e30, -np.inf, 2]], np.float32)
    rows.tofile(tmp_path / "odd.bin")
    np.testing.assert_array_equal(roadbed.open(f"{tmp_path}/odd.bin?columns=x,y,z,intensity")[0].points, rows[:, :3])


def test_boxes_of_a_drive(tmp_path):
    write_sequence(tmp_path)
    box = {"id": "a", "kind": "Van", "footprint": [[0, 0], [0, 2], [4, 2], [4, 0]], "z": -1.7, "height": 2}
    (tmp_path / "objects.jsonl").write_text(json.dumps({"frame": 1, "objects": [box]}) + "\n")
    source = roadbed.open(tmp_path)
    assert source.objects(0) == ()
    (van,) = source.objects(1)
    assert (van.id, van.kind, van.z, van.height) == ("a", "Van", -1.7, 2.0)
    np.testing.assert_array_equal(van.centre, [2, 1])
    for line in ('{"frame": 0}', "[]", "{", '{"frame": 0, "objects": [{"id": 1}]}', '{"frame": 0, "objects": [3]}'):
        (tmp_path / "objects.jsonl").write_text(line)
        with pytest.raises(InputError, match=r"objects.jsonl: line 1: expected frame and objects"):
            roadbed.open(tmp_path)


def write_raw_drive(day, packets):
    """A KITTI raw drive that goes `packets` metres due east."""
    drive = day / "2011_09_26_drive_0001_sync"
    (drive / "velodyne_points/data").mkdir(parents=True)
    (drive / "oxts/data").mkdir(parents=True)
    stamps = [f"2011-09-26 13:02:{25 + 0.1 * k:012.9f}" for k in range(packets)]
    for k in range(packets):
        np.full((3, 4), k, np.float32).tofile(drive / f"velodyne_points/data/{k:010d}.bin")
        longitude = 8.4 + np.degrees(k / (6378137.0 * np.cos(np.radians(49.0))))
        (drive / f"oxts/data/{k:010d}.txt").write_text(f"49.0 {longitude:.14f} 112.5 0 0 0 " + "0 " * 24)
    for part in ("velodyne_points", "oxts"):
        (drive / part / "timestamps.txt").write_text("\n".join(stamps) + "\n")
    return drive


def test_raw_drive_poses_come_from_gps_and_imu(tmp_path):
    drive = write_raw_drive(tmp_path, 4)
    (drive / "velodyne_points/data/0000000001.bin").unlink()  # synchronised drives lack some scans
    (tmp_path / "calib_imu_to_velo.txt").write_text(
        "calib_time: 25-May-2012 16:47:16\nR: 0 1 0 -1 0 0 0 0 1\nT: -0.8 0.3 -0.8\n"
    )
    source = roadbed.open(drive)
    assert (source.name, len(source), source.sequential) == ("kitti-raw", 3, True)
    T_lidar_imu = Pose(np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1.0]]), np.array([-0.8, 0.3, -0.8]))
    for scan, east in zip(source, (0, 2, 3)):
        expected = Pose.from_euler(east) @ T_lidar_imu.inverse()
        np.testing.assert_allclose(scan.T_world_sensor.matrix, expected.matrix, atol=1e-5)
        assert scan.points[0, 0] == east
    assert source[1].time - source[0].time == pytest.approx(0.2, abs=1e-6)


def test_raw_drive_poses_have_altitude_roll_and_pitch(tmp_path):
    """Packets hold latitude, longitude, altitude, roll, pitch, yaw in this order; each is another number here."""
    drive = write_raw_drive(tmp_path, 2)
    packet = drive / "oxts/data/0000000001.txt"
    latitude, longitude, *_ = packet.read_text().split()
    packet.write_text(f"{latitude} {longitude} 115.0 0.1 -0.05 0.7 " + "0 " * 24)
    found = roadbed.open(drive)[1].T_world_sensor
    expected = Pose.from_euler(1.0, 0.0, 2.5, roll=0.1, pitch=-0.05, yaw=0.7)
    np.testing.assert_allclose(found.matrix, expected.matrix, atol=1e-5)


def test_raw_drive_with_bad_parts(tmp_path):
    drive = write_raw_drive(tmp_path / "a", 3)
    (drive / "oxts/data/0000000001.txt").write_text("49 8.4 112\n")
    with pytest.raises(InputError, match=r"0000000001.txt: line 1: found 3 numbers, expected 30"):
        roadbed.open(drive)
    drive = write_raw_drive(tmp_path / "b", 3)
    (drive / "velodyne_points/timestamps.txt").write_text("noon\n")
    with pytest.raises(InputError, match=r"timestamps.txt: line 1: found 'noon', expected a time"):
        roadbed.open(drive)
    drive = write_raw_drive(tmp_path / "c", 3)
    (drive / "velodyne_points/timestamps.txt").write_text("2011-09-26 13:02:25.5\n")
    with pytest.raises(InputError, match=r"timestamps.txt: times: found 1, expected 3"):
        roadbed.open(drive)
    drive = write_raw_drive(tmp_path / "d", 3)
    (drive / "calib_imu_to_velo.txt").write_text("R: 1 0 0\n")
    with pytest.raises(InputError, match="found 3 numbers R and 0 T, expected 9 and 3"):
        roadbed.open(drive)


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("velodyne_points/timestamps.txt", "2011-09-26 13:02:25.1e400\n", "line 1: found .* expected a time"),
        ("velodyne_points/timestamps.txt", "0001-01-01 00:00:00.-5\n", "line 1: found .* expected a time"),
        ("oxts/data/0000000001.txt", "49 8.4 1e30 0 0 0 " + "0 " * 24, "data: pose: expected a place within"),
        ("oxts/data/0000000001.txt", "49 1e300 112 0 0 0 " + "0 " * 24, "data: pose: expected a place within"),
    ],
)
def test_raw_drive_with_absurd_numbers(tmp_path, part, text, message):
    drive = write_raw_drive(tmp_path, 3)
    (drive / part).write_text(text)
    with pytest.raises(InputError, match=message):
        roadbed.open(drive)


def test_raw_drive_with_digits_that_are_no_numbers(tmp_path):
    drive = write_raw_drive(tmp_path, 3)
    (drive / "velodyne_points/data/0000000002.bin").rename(drive / "velodyne_points/data/²²².bin")
    assert len(list(roadbed.open(drive))) == 3


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "9" * 400])
def test_boxes_need_finite_numbers(tmp_path, value):
    write_sequence(tmp_path, scans=1)
    corners = "[[1,0],[3,0],[3,2],[1,2]]"
    for z, footprint in ((value, corners), ("0", corners.replace("3", value))):
        box = f'{{"id": 1, "kind": "Van", "footprint": {footprint}, "z": {z}, "height": 2}}'
        (tmp_path / "objects.jsonl").write_text(f'{{"frame": 0, "objects": [{box}]}}')
        with pytest.raises(InputError, match=r"objects.jsonl: line 1: "):
            roadbed.open(tmp_path)
