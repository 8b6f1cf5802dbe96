# SPDX-License-Identifier: Apache-2.0
"""Poses are plain numbers that behave as the matrices they stand for."""

import pickle

import numpy as np
import pytest

from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose, rotation_to_level


@pytest.fixture(params=range(4))
def poses(request) -> tuple[Pose, Pose]:
    """Two poses anywhere, turned about all axes."""
    x, y, z, roll, pitch, yaw = np.random.default_rng(request.param).normal(
        0, [[50], [50], [5], [1], [0.5], [2]], (6, 2)
    )
    return tuple(Pose.from_euler(*at, roll=r, pitch=p, yaw=w) for *at, r, p, w in zip(x, y, z, roll, pitch, yaw))


def test_chains_and_inverses_are_those_of_the_matrices(poses):
    one, other = poses
    np.testing.assert_allclose((one @ other).matrix, one.matrix @ other.matrix, atol=1e-13)
    np.testing.assert_allclose(one.inverse().matrix, np.linalg.inv(one.matrix), atol=1e-13)
    assert one.inverse() is one.inverse()


def test_single_points_and_directions_are_mapped_like_arrays(poses):
    pose, place = poses[0], (3.0, -2.0, 0.5)
    np.testing.assert_array_equal(pose.of(*place), pose @ np.array(place))
    np.testing.assert_array_equal(pose @ np.array([place, place]), [pose.of(*place)] * 2)
    np.testing.assert_allclose(pose.turned(*place), pose.rotation @ place, atol=1e-14)
    np.testing.assert_array_equal(pose.xyz, pose.translation)


def test_distances_and_angles_are_those_between_the_poses(poses):
    one, other = poses
    assert one.distance_to(other) == pytest.approx(np.linalg.norm(one.translation - other.translation))
    cosine = (np.trace(one.rotation.T @ other.rotation) - 1) / 2
    assert one.angle_to(other) == pytest.approx(np.arccos(cosine))
    assert (one @ one.inverse()).angle_to(Pose.identity()) < 1e-7


def test_a_pose_survives_another_process(poses):
    again = pickle.loads(pickle.dumps(poses[0] @ poses[1]))
    assert again.numbers == (poses[0] @ poses[1]).numbers
    np.testing.assert_array_equal(again.rotation, (poses[0] @ poses[1]).rotation)


@pytest.mark.parametrize("axis", range(3))
def test_a_place_beyond_the_moon_is_refused(axis):
    place = np.zeros(3)
    place[axis] = -2e9
    with pytest.raises(InputError, match=r"within 1e\+09 m of the origin, found 2e\+09 m"):
        Pose(np.eye(3), place)


def test_a_plane_is_turned_level():
    turn = np.reshape(rotation_to_level(0.3, -0.2), (3, 3))
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-15)
    for along in ([1.0, 0.0, 0.3], [0.0, 1.0, -0.2]):
        assert abs((turn @ along)[2]) < 1e-15


def test_map_coordinates_as_float32_are_refused():
    matrix = Pose.from_euler(691_000, 5_334_000.3, 500).matrix
    assert Pose.from_matrix(matrix).xyz[1] == 5_334_000.3
    assert Pose.from_matrix(Pose.from_euler(100_000).matrix.astype(np.float32)).xyz[0] == 100_000
    with pytest.raises(InputError, match=r"pose: found 5.334e\+06 m as float32, in steps of 0.5 m, expected float64"):
        Pose.from_matrix(matrix.astype(np.float32))


def test_a_transposed_matrix_is_refused(poses):
    with pytest.raises(InputError, match=r"expected 0 0 0 1 as the last row, found .* transposed"):
        Pose.from_matrix(poses[0].matrix.T)
    np.testing.assert_array_equal(Pose.from_matrix(poses[0].matrix.astype(np.float32)[:3]).matrix[3], [0, 0, 0, 1])


@pytest.mark.parametrize("points", [np.ones((5, 4), np.float32), np.eye(4), np.float64(3), np.zeros(0), "points"])
def test_only_points_of_three_numbers_are_mapped(points):
    with pytest.raises(InputError, match=r"expected points of shape \(N, 3\), found"):
        Pose.identity() @ points


def test_left_handed_axes_are_called_so(poses):
    with pytest.raises(InputError, match="the 3x3 part mirrors, expected a rotation: are the axes left-handed"):
        Pose.from_matrix(np.diag([1.0, -1, 1, 1]) @ poses[0].matrix)


def test_what_holds_no_numbers_is_no_pose():
    with pytest.raises(InputError, match="expected numbers, found str"):
        Pose.from_matrix("poses.txt")
    with pytest.raises(InputError, match=r"a quaternion of 4 numbers, found shape \(3,\)"):
        Pose.from_quaternion((0, 0, 0), (0, 0, 1))


def test_equal_poses_are_equal():
    assert Pose.identity() == Pose(np.eye(3), np.zeros(3))
    assert len({Pose.identity(), Pose.from_euler(), Pose.from_euler(x=1)}) == 2
    assert Pose.identity() != 3
