# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

import roadbed
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.sources.poses import interpolate, make_trajectory, read_poses, read_times

angles = st.floats(-3.1, 3.1)


def pose_of(yaw: float, pitch: float, roll: float, x: float = 0.0) -> Pose:
    return Pose.from_euler(x, 2 * x, -x, yaw=yaw, pitch=pitch, roll=roll)


@given(angles, angles, angles, angles, angles, angles, st.floats(0, 1))
def test_interpolation_is_slerp(a, b, c, d, e, f, fraction):
    first, second = pose_of(a, b, c, 1.0), pose_of(d, e, f, 3.0)
    turn = Rotation.from_matrix(first.rotation.T @ second.rotation).magnitude()
    if turn > 3.1:  # at half a turn either way round is right
        return
    slerp = Slerp([0, 1], Rotation.from_matrix([first.rotation, second.rotation]))
    result = interpolate(first, second, fraction)
    np.testing.assert_allclose(result.rotation, slerp([fraction])[0].as_matrix(), atol=1e-6)
    np.testing.assert_allclose(result.translation, first.translation * (1 - fraction) + second.translation * fraction)


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0.0, 0.8)])
def test_half_a_turn_is_interpolated_through_a_quarter(axis):
    half = Pose(Rotation.from_rotvec(np.pi * np.array(axis)).as_matrix(), np.zeros(3))
    quarter = interpolate(Pose.identity(), half, 0.5)
    assert quarter.angle_to(Pose.identity()) == pytest.approx(np.pi / 2, abs=1e-6)
    assert quarter.angle_to(half) == pytest.approx(np.pi / 2, abs=1e-6)


def test_kitti_and_tum_files_hold_the_same_poses(tmp_path):
    poses = [pose_of(0.1 * k, 0.02 * k, -0.01 * k, k) for k in range(5)]
    kitti, tum = tmp_path / "kitti.txt", tmp_path / "tum.txt"
    np.savetxt(kitti, [pose.matrix[:3].ravel() for pose in poses])
    quaternions = [Rotation.from_matrix(pose.rotation).as_quat() for pose in poses]
    rows = [[100 + 0.1 * k, *pose.translation, *q] for k, (pose, q) in enumerate(zip(poses, quaternions))]
    np.savetxt(tum, rows, header="timestamp x y z qx qy qz qw")
    from_kitti, from_tum = read_poses(kitti), read_poses(tum)
    assert from_kitti.times is None
    np.testing.assert_allclose(from_tum.times, 100 + 0.1 * np.arange(5))
    for a, b, pose in zip(from_kitti.poses, from_tum.poses, poses):
        np.testing.assert_allclose(a.matrix, pose.matrix, atol=1e-12)
        np.testing.assert_allclose(b.matrix, pose.matrix, atol=1e-12)


def test_lookup_by_time_interpolates_reaches_a_little_beyond_and_gives_up_in_gaps():
    poses = [pose_of(0, 0, 0, x) for x in (0.0, 1.0, 2.0, 50.0)]
    trajectory = make_trajectory(poses, [10.0, 10.1, 10.2, 20.0], "test")
    assert trajectory.at(10.05).translation[0] == pytest.approx(0.5)
    assert trajectory.at(9.9).translation[0] == pytest.approx(-1.0)
    assert trajectory.at(9.0) is None
    assert trajectory.at(15.0) is None
    assert trajectory.at(20.0).translation[0] == pytest.approx(50.0)
    assert trajectory.at(25.0) is None


def test_poses_out_of_order_are_sorted_and_doubles_dropped():
    poses = [pose_of(0, 0, 0, x) for x in (2.0, 1.0, 1.0)]
    trajectory = make_trajectory(poses, [0.2, 0.1, 0.1], "test")
    assert [pose.translation[0] for pose in trajectory.poses] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found no rows"),
        ("1 0 0\n", "line 1: found 3 numbers, expected 12 .* or 8"),
        ("1 0 0 0 0 1 0 0 0 0 1 0\n1 0 0 0 0 0 0 1\n", "line 2: found 8 numbers"),
        ("1 0 0 0 0 1 0 0 0 0 1 x\n", "line 1: expected numbers"),
        ("1 0 0 0 0 1 0 0 0 0 1 nan\n", "line 1: expected finite"),
        ("2 0 0 0 0 1 0 0 0 0 1 0\n", "row 1: pose: the 3x3 part is not a rotation"),
        ("1 0 0 0 0 0 0 0\n", "row 1: pose: expected a quaternion"),
        ("1 0 0 0 0 0 0 1\n1 0 0 0 0 0 0 1\n", "row 2: time: found 1.000000, expected later"),
    ],
)
def test_bad_pose_files_name_file_line_and_expectation(tmp_path, text, message):
    file = tmp_path / "poses.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_poses(file)
    assert str(file) in str(caught.value)


def test_binary_and_missing_pose_files(tmp_path):
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="expected text"):
        read_poses(tmp_path / "b")
    with pytest.raises(InputError, match="no such file"):
        read_poses(tmp_path / "missing")


def test_times_of_another_length_are_refused(tmp_path):
    (tmp_path / "times.txt").write_text("0.0\n0.1\n")
    with pytest.raises(InputError, match="times: found 2, expected 3"):
        read_times(tmp_path / "times.txt", 3)


@pytest.mark.parametrize("per_second", [1e9, 1e6, 1e3, 1])
def test_clocks_since_1970_come_in_any_unit(tmp_path, per_second):
    seconds = 1.7e9 + np.array([0, 0.1, 0.2])
    stamps = [f"{time * per_second:.3f}" for time in seconds]
    (tmp_path / "poses.txt").write_text("".join(f"{stamp} 1 2 3 0 0 0 1\r\n" for stamp in stamps))
    (tmp_path / "times.txt").write_text("\n".join(stamps))
    np.testing.assert_allclose(read_poses(tmp_path / "poses.txt").times, seconds, atol=1e-5)
    np.testing.assert_allclose(read_times(tmp_path / "times.txt", 3), seconds, atol=1e-5)


def test_a_scan_far_from_every_pose_says_so():
    trajectory = make_trajectory([Pose.identity(), Pose.identity()], [10.0, 10.1], "poses.tum")
    near, far = (Scan(np.eye(3), time=time, diagnostics=("other",)) for time in (10.05, 12.0))
    assert trajectory.place(near, 0, 2).diagnostics == ("other",)
    placed = trajectory.place(far, 1, 2)
    assert placed.T_world_sensor is None
    assert placed.diagnostics == ("other", "no pose near its time in poses.tum: 10.000 to 10.100 s")


def test_poses_of_another_clock_than_the_scans_are_refused(tmp_path):
    for name in ("0.npy", "1.npy"):
        np.save(tmp_path / name, np.eye(3))
    (tmp_path / "tum").write_text("0 0 0 0 0 0 0 1\n0.1 0 0 0 0 0 0 1\n")
    (tmp_path / "times").write_text("1700000000.0\n1700000000.1\n")
    with pytest.raises(InputError, match="expected the clock of the scans, 1700000000"):
        roadbed.open(tmp_path, poses=tmp_path / "tum", times=tmp_path / "times")


@pytest.mark.parametrize("inverted", [False, True])
def test_inverted_poses_are_noted(tmp_path, inverted):
    rng = np.random.default_rng(0)
    posts = np.repeat(rng.uniform(-60, 60, (300, 2)), 20, axis=0)
    world = np.column_stack([posts, rng.uniform(0, 3, len(posts))])
    poses = [Pose.from_euler(1.2 * k, 0.1 * k, 1.5, yaw=0.3 + 0.05 * k) for k in range(8)]
    for k, pose in enumerate(poses):
        np.save(tmp_path / f"{k}.npy", np.vstack([pose.inverse() @ world, [[np.nan, 1, 1], [3e38, 0, 0]]]))
    given = [pose.inverse() if inverted else pose for pose in poses]
    np.savetxt(tmp_path / "poses.txt", [pose.matrix[:3].ravel() for pose in given])
    scans = list(roadbed.open(tmp_path))
    assert scans[2].diagnostics == ()
    notes = [note for scan in scans for note in scan.diagnostics]
    assert [f"{tmp_path / 'poses.txt'}: poses look inverted" in note for note in notes] == [True] * inverted
