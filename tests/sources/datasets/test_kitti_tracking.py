# SPDX-License-Identifier: Apache-2.0
"""Sequences of the KITTI tracking benchmark: boxes lie around the points of their objects, poses follow the packets."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest

import roadbed
from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose
from roadbed.evaluate.occupancy import evaluate_occupancy
from roadbed.sources.datasets.kitti_tracking import read_labels
from roadbed.sources.simulator import SimulatorSource
from tests.fuzz.damage import damage

# The camera looks ahead (z), with x to the right and y down, and is rectified by a small turn.
T_CAMERA_LIDAR = Pose([[0, -1, 0], [0, 0, -1], [1, 0, 0]], [0.05, -0.08, -0.27])
T_RECTIFIED_CAMERA = Pose.from_euler(yaw=0.01, pitch=-0.004, roll=0.007)
T_LIDAR_IMU = Pose.from_euler(-0.81, 0.32, -0.8, yaw=0.02)
FRAMES = (0, 1, 3, 4, 5)  # one scan is missing, as in sequence 0001


def row(pose: Pose) -> str:
    return " ".join(map(repr, np.column_stack([pose.rotation, pose.translation]).ravel().tolist()))


def packet(T_world_imu: Pose) -> str:
    """A GPS/IMU packet near the equator, where degrees are as long to the north as to the east."""
    east, north, up = T_world_imu.translation
    degrees = np.degrees(np.array([north, east]) / 6378137.0).tolist()
    numbers = [*degrees, float(up), T_world_imu.roll, T_world_imu.pitch, T_world_imu.yaw, *[0.0] * 24]
    return " ".join(map(repr, numbers))


def label(frame: int, number: int, kind: str, corners: np.ndarray, height: float) -> str:
    """The line of a box whose bottom has these corners (4, 3) in the frame of the LiDAR: front left, rear left, ..."""
    in_camera = (T_RECTIFIED_CAMERA @ T_CAMERA_LIDAR) @ corners
    length, width = (np.linalg.norm(b - a) for a, b in pairwise(in_camera[:3]))
    x, y, z = in_camera.mean(axis=0)
    ahead = in_camera[0] - in_camera[1]
    turn = np.arctan2(-ahead[2], ahead[0])
    return f"{frame} {number} {kind} 0 0 -1.5 0 0 10 10 {height} {width} {length} {x} {y} {z} {turn}"


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """Five scans of a simulated city with the boxes of its traffic, in the layout of the benchmark."""
    folder, source = tmp_path_factory.mktemp("tracking") / "training", SimulatorSource("sim:city?sensor=vlp16&frames=6")
    scans, packets = folder / "velodyne" / "0007", []
    lines = ["0 -1 DontCare -1 -1 -10 0 0 9 9 -1 -1 -1 -1000 -1000 -1000 -10"]
    scans.mkdir(parents=True)
    for name in ("label_02", "calib", "oxts"):
        (folder / name).mkdir()
    for frame in range(6):
        scan, truth = source[frame], source.truth(frame)
        packets.append(packet(scan.T_world_sensor @ T_LIDAR_IMU))
        if frame in FRAMES:
            points = np.column_stack([scan.points, np.zeros(len(scan), np.float32)])
            points.astype("<f4").tofile(scans / f"{frame:06d}.bin")
        for item in truth.objects():
            corners = item.corners(truth.T_world_sensor.inverse())
            lines.append(label(frame, item.id, item.kind.title(), corners, item.size[2]))
    (folder / "label_02" / "0007.txt").write_text("\n".join(lines))
    (folder / "oxts" / "0007.txt").write_text("\n".join(packets))
    calibration = ("R_rect", T_RECTIFIED_CAMERA), ("Tr_velo_cam", T_CAMERA_LIDAR), ("Tr_imu_velo", T_LIDAR_IMU)
    rows = [f"{name} {row(pose)}" for name, pose in calibration]
    rows[0] = "R_rect " + " ".join(map(repr, T_RECTIFIED_CAMERA.rotation.ravel().tolist()))
    (folder / "calib" / "0007.txt").write_text(
        "\n".join(["P0: 7.2e+02 0 6.1e+02 0 0 7.2e+02 1.7e+02 0 0 0 1 0", *rows])
    )
    return folder


def test_scans_have_the_times_and_poses_of_their_frames(training):
    source, given = roadbed.open(training / "velodyne" / "0007"), SimulatorSource("sim:city?sensor=vlp16&frames=6")
    assert (source.name, len(source), source.sequential) == ("kitti-tracking", 5, True)
    T_first = given[0].T_world_sensor
    for index, frame in enumerate(FRAMES):
        scan = source[index]
        assert scan.time == pytest.approx(0.1 * frame)
        np.testing.assert_array_equal(scan.points, given[frame].points)
        moved = (source[0].T_world_sensor.inverse() @ scan.T_world_sensor).translation
        np.testing.assert_allclose(moved, (T_first.inverse() @ given[frame].T_world_sensor).translation, atol=0.02)


def test_boxes_are_those_of_the_simulator(training):
    source, given = roadbed.open(training / "velodyne" / "0007"), SimulatorSource("sim:city?sensor=vlp16&frames=6")
    for index, frame in enumerate(FRAMES):
        truth = given.truth(frame)
        expected = {str(item.id): item for item in truth.objects()}
        found = {box.id: box for box in source.objects(index)}
        assert set(found) == set(expected)
        for key, item in expected.items():
            assert found[key].kind == item.kind.title()
            corners = item.corners(truth.T_world_sensor.inverse())
            nearest = np.linalg.norm(found[key].footprint[:, None] - corners[:, :2], axis=2).min(axis=1)
            assert nearest.max() < 0.15  # boxes turn about the camera's y, which is not quite upright
            assert np.linalg.norm(found[key].centre - corners[:, :2].mean(axis=0)) < 1e-3
            assert found[key].z == pytest.approx(corners[:, 2].mean(), abs=1e-3)
            assert found[key].height == pytest.approx(item.size[2])


def test_the_occupancy_is_scored_against_them(training):
    out = evaluate_occupancy(roadbed.open(training / "velodyne" / "0007"))
    assert out["against"] == "boxes"
    assert out["movers"] or out["standing"]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("label_02", "0 1 Car 0 0 0 0 0 1 1 1.5 1.6 4.1 1 2", "label_02/0007.txt: line 1: expected 17 words"),
        ("label_02", "0 1 Car 0 0 0 0 0 1 1 1.5 1.6 nan 1 2 3 0", "line 1: expected 17 words .*not within 1e.09"),
        ("calib", "Tr_imu_velo 1 0 0", "calib/0007.txt: Tr_imu_velo: found 3 numbers, expected 9 or 12"),
        ("oxts", " ".join(["0"] * 30), "oxts/0007.txt: packets: found 1, expected 6"),
    ],
)
def test_what_is_wrong_is_named(training, tmp_path, file, text, message):
    for path in training.rglob("*.*"):
        copy = tmp_path / path.relative_to(training)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (tmp_path / file / "0007.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        roadbed.open(tmp_path / "velodyne" / "0007").objects(0)


def test_a_test_sequence_has_no_labels(training, tmp_path):
    for path in training.rglob("*.*"):
        if path.parent.name != "label_02":
            copy = tmp_path / path.relative_to(training)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=r"label_02/0007.txt: found no labels"):
        evaluate_occupancy(roadbed.open(tmp_path / "velodyne" / "0007"))


def test_damaged_labels_are_boxes_or_one_line(training, tmp_path):
    lines, path = (training / "label_02" / "0007.txt").read_bytes().splitlines(keepends=True), tmp_path / "0007.txt"
    read, messages = 0, []
    for seed in range(200):
        path.write_bytes(damage(Random(seed), b"".join(lines[:4]), (b"nan", b"1e999", b"-1", b"\n"), ()))
        try:
            boxes = [box for frame in read_labels(path, Pose.identity()).values() for box in frame]
            assert all(np.isfinite([*box.footprint.ravel(), box.z, box.height]).all() for box in boxes)
            read += 1
        except InputError as error:
            messages.append(str(error))
    assert read > 3
    assert len(messages) > 3
    assert not [message for message in messages if "\n" in message]
