# SPDX-License-Identifier: Apache-2.0
"""Poses are rigid motions, lattices index what they cover, scans lose nothing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan, SensorMount
from roadbed.core.geometry import Grid, Pose
from roadbed.odometry.deskew import Motion, deskew
from roadbed.outputs.pcd import write_pcd

angles = st.floats(-3.1, 3.1)
small = st.floats(-1.5, 1.5)
metres = st.floats(-1e3, 1e3)
poses = st.builds(
    lambda x, y, z, yaw, pitch, roll: Pose.from_euler(x, y, z, yaw=yaw, pitch=pitch, roll=roll),
    metres, metres, metres, angles, small, angles,
)  # fmt: skip


@given(poses, poses)
def test_chaining_equals_mapping_twice(T_a_b, T_b_c):
    points_c = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose((T_a_b @ T_b_c) @ points_c, T_a_b @ (T_b_c @ points_c), atol=1e-9)


@given(poses)
def test_inverse_undoes_a_pose(pose):
    identity = pose @ pose.inverse()
    np.testing.assert_allclose(identity.matrix, np.eye(4), atol=1e-9)
    assert identity.angle_to(Pose.identity()) < 1e-6


def test_a_pose_is_one_line():
    pose = Pose.from_euler(1.0, -2.5, 0.25, yaw=np.pi / 2, pitch=np.radians(-3), roll=np.radians(1.5))
    assert repr(pose) == "Pose(x 1.000, y -2.500, z 0.250 m; roll 1.50, pitch -3.00, yaw 90.00 degrees)"


@given(angles, small, angles)
def test_euler_angles_come_back(yaw, pitch, roll):
    pose = Pose.from_euler(yaw=yaw, pitch=pitch, roll=roll)
    np.testing.assert_allclose((pose.yaw, pose.pitch, pose.roll), (yaw, pitch, roll), atol=1e-9)


@given(poses, st.sampled_from([1.0, -1.0, 2.5]))
def test_quaternion_of_any_length_and_sign_gives_the_rotation(pose, scale):
    from scipy.spatial.transform import Rotation

    quaternion = Rotation.from_matrix(pose.rotation).as_quat() * scale
    again = Pose.from_quaternion(pose.translation, quaternion)
    np.testing.assert_allclose(again.matrix, pose.matrix, atol=1e-9)


def test_positive_pitch_lowers_what_lies_ahead():
    assert (Pose.from_euler(pitch=0.1) @ np.array([[1.0, 0, 0]]))[0, 2] < 0


@pytest.mark.parametrize(
    ("matrix", "message"),
    [(np.eye(3), "3x4 or 4x4"), (np.diag([2.0, 1, 1, 1]), "not a rotation"), (np.full((4, 4), np.nan), "finite")],
)
def test_what_is_no_pose_is_refused(matrix, message):
    with pytest.raises(InputError, match=message):
        Pose.from_matrix(matrix)


@given(st.floats(-500, 500), st.floats(-500, 500), st.floats(0.1, 3), st.integers(1, 60), st.integers(1, 60), st.data())
def test_every_point_on_the_grid_belongs_to_the_nearest_node(x0, y0, spacing, columns, rows, data):
    grid = Grid(x0, y0, spacing, columns, rows)
    node = data.draw(st.integers(0, grid.size - 1))
    offset = data.draw(st.tuples(st.floats(-0.49, 0.49), st.floats(-0.49, 0.49)))
    x = grid.x[node % columns] + offset[0] * spacing
    y = grid.y[node // columns] + offset[1] * spacing
    assert grid.index(x, y) == node


def test_outside_the_grid_and_nan_have_no_node():
    grid = Grid.centred(10, 4, 1)
    assert grid.shape == (4, 10)
    assert grid.extent == (-5, 5, -2, 2)
    x_min, x_max, y_min, y_max = grid.extent
    x = np.array([x_min - 0.01, x_max + 0.01, 0, 0, np.nan, 1e30])
    y = np.array([0, 0, y_min - 0.01, y_max + 0.01, 0, 0])
    assert (grid.index(x, y) == -1).all()


def test_scan_refuses_channels_of_another_length():
    with pytest.raises(InputError, match="intensity has 2 values, expected 3"):
        Scan(np.zeros((3, 3)), intensity=np.zeros(2))
    with pytest.raises(InputError, match=r"expected points of shape \(N, 3\)"):
        Scan(np.zeros((3, 4)))


def test_three_rows_of_more_values_than_a_point_has_are_called_transposed():
    with pytest.raises(InputError, match=r"found \(3, 7\): it looks transposed"):
        Scan.of(np.zeros((3, 7)))
    assert len(Scan.of(np.zeros((3, 6)))) == 3


def test_merging_scans_keeps_every_point_and_splits_again():
    rng = np.random.default_rng(1)
    mounts = {"front": Pose.from_euler(2, 0, 0.5), "rear": Pose.from_euler(-2, 0, 0.5, yaw=np.pi)}
    T_world_vehicle = Pose.from_euler(100, 50, 3, yaw=0.7)
    scans = [
        Scan(
            rng.normal(size=(n, 3)),
            time=1.0,
            sensor=name,
            T_vehicle_sensor=mount,
            T_world_sensor=T_world_vehicle @ mount,
            ring=np.arange(n),
            channels={"echo": np.arange(n)},
        )
        for n, (name, mount) in zip((5, 7), mounts.items())
    ]
    merged = Scan.merged(scans)
    assert len(merged) == 12
    assert set(merged.channels) == {"echo", "sensor_index"}
    np.testing.assert_allclose(merged.T_world_sensor.matrix, T_world_vehicle.matrix, atol=1e-9)
    for (mount, index), scan in zip(merged.split(), scans):
        assert mount.name == scan.sensor
        np.testing.assert_allclose(mount.T_vehicle_sensor.inverse() @ merged.points[index], scan.points, atol=1e-5)
        np.testing.assert_array_equal(merged.ring[index], scan.ring)


def test_merging_needs_mountings_and_distinct_sensors():
    scan = Scan(np.zeros((1, 3)), sensor="front", T_vehicle_sensor=Pose.identity())
    with pytest.raises(InputError, match="one scan per sensor"):
        Scan.merged([scan, scan])
    with pytest.raises(InputError, match="mounting of sensor 'rear' is unknown"):
        Scan.merged([scan, Scan(np.zeros((1, 3)), sensor="rear")])


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1, 2, 3], [4, 5]], "points: expected rows of one length, found a ragged list"),
        ([[1, 2, 3], "abc"], "points: expected rows of one length, found a ragged list"),
        ([["1", "2", "3"]], "points: expected numbers, found <U1"),
        ([[1j, 2, 3]], "points: expected numbers, found complex128"),
        ([[None, 2, 3]], "points: expected numbers, found object"),
        (np.zeros((2, 3), "M8[s]"), "points: expected numbers, found datetime64"),
    ],
)
def test_points_that_are_no_numbers_are_refused(points, message):
    with pytest.raises(InputError, match=message):
        Scan(points)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"ring": np.full(2, "7")}, "channel ring: expected numbers, found <U1"),
        ({"classes": [[1], [1, 2]]}, "channel classes: expected rows of one length"),
        ({"channels": {"colour": [[1], [1, 2]]}}, "channel colour: expected rows of one length"),
        ({"intensity": np.float32(3)}, "channel intensity has single values, expected 2"),
        ({"point_time": np.zeros((2, 1))}, r"channel point_time: expected one number per point, found shape \(2, 1\)"),
        ({"time": "1.5"}, "time: expected a finite number of seconds, found 1.5"),
        ({"time": np.zeros(1)}, "time: expected a finite number of seconds, found"),
        ({"T_world_sensor": [0, 0, 0, 0, 0, 0, 1]}, r"pose: expected a 3x4 or 4x4 matrix, found shape \(7,\)"),
        ({"time": 1_700_000_000_000_000_000}, "time: expected a finite number of seconds, found 17000"),
        ({"time": np.nan}, "time: expected a finite number of seconds, found nan"),
        ({"mounts": (SensorMount("front", Pose.identity()),)}, "mounts: expected a channel sensor_index"),
        (
            {"mounts": (SensorMount("front", Pose.identity()),), "channels": {"sensor_index": np.zeros((2, 2))}},
            "mounts: expected a channel sensor_index",
        ),
    ],
)
def test_parts_of_a_scan_that_do_not_fit_are_refused(part, message):
    with pytest.raises(InputError, match=message):
        Scan(np.zeros((2, 3)), **part)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "matrix",
    [
        np.full((4, 4), 1e300),
        np.full((4, 4), 0x7F800001, np.uint32).view(np.float32),  # NaN of a kind that warns when it is converted
        np.full((4, 4), np.longdouble("1e400")),
    ],
)
def test_matrices_without_sense_are_refused_without_a_warning(matrix):
    with pytest.raises(InputError):
        Pose.from_matrix(matrix)


@pytest.mark.parametrize("metres", [1e10, -1e30, 1e300])
def test_points_beyond_any_world_are_refused(metres):
    with pytest.raises(InputError, match=r"expected a place within 1e\+09 m of the origin, found 1e\+"):
        Pose.from_euler(0, metres)


def test_poses_may_be_matrices():
    pose = Pose.from_euler(3, 2, 1, yaw=0.5)
    matrix = pose.matrix.tolist()
    scan = Scan(
        np.eye(3), T_world_sensor=matrix, T_vehicle_sensor=matrix[:3], intensity=[1, 2, 3], channels={"a": [4, 5, 6]}
    )
    assert scan.T_world_sensor.numbers == scan.T_vehicle_sensor.numbers == pose.numbers


def test_a_part_of_a_scan_with_lists_has_their_chosen_values():
    scan = Scan(np.eye(3), intensity=[1, 2, 3], channels={"name": ["a", "b", "c"]}).part(np.array([2, 0]))
    assert scan.intensity.tolist() == [3, 1]
    assert scan.channels["name"].tolist() == ["c", "a"]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (np.ones(2, bool), r"part of scan a: found a mask of 2 values, expected 3 \(one per point\)"),
        ([0, 3], "part of scan a: found indices from 0 to 3, expected them below 3"),
        ([-4], "part of scan a: found indices from -4 to -4"),
        (np.ones((3, 3), bool), r"found bool of shape \(3, 3\), expected a mask or indices of points"),
        (1, r"found int64 of shape \(\), expected a mask"),
    ],
)
def test_selections_that_do_not_fit_are_refused(chosen, message, tmp_path):
    with pytest.raises(InputError, match=message):
        Scan(np.eye(3), name="a").part(chosen)
    with pytest.raises(InputError, match=message.replace("part of scan a", r"a\.pcd: keep")):
        write_pcd(tmp_path / "a.pcd", Scan(np.eye(3)), keep=chosen)
    assert len(Scan(np.eye(3)).part([])) == 0
    assert Scan(np.eye(3)).part([True, False, True]).points.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_read_only_and_unaligned_points_are_copied():
    """CPU kernels are compiled for one type of points; another would compile them again."""
    points = np.eye(3, dtype=np.float32)
    unaligned = np.frombuffer(b"0" + points.tobytes(), np.float32, offset=1).reshape(3, 3)
    frozen = points.copy()
    frozen.flags.writeable = False
    for other in (frozen, unaligned):
        found = Scan(other).points
        assert found.flags.carray
        np.testing.assert_array_equal(found, points)
    assert Scan(points).points is points


def test_masked_points_are_no_points():
    points = np.ma.masked_array(np.ones((3, 3)), [[False] * 3, [True] * 3, [False, True, False]])
    for values in (Scan(points).points, Scan.of(points).points, Scan(np.eye(3), channels={"c": points}).channels["c"]):
        np.testing.assert_array_equal(np.isnan(values), points.mask)
    assert np.isfinite(points.data).all()  # the caller's array is as it was
    with pytest.raises(InputError, match="ring: found masked values of int64, expected floats"):
        Scan(np.eye(3), ring=np.ma.masked_equal([1, 2, 3], 2))
    assert Scan(np.eye(3), ring=np.ma.masked_array([1, 2, 3])).ring.tolist() == [1, 2, 3]


def test_whole_numbers_of_32_bits_are_kept():
    points = np.random.default_rng(0).integers(-500, 500, (2000, 3)) + np.array([691_000_001, 0, 0])
    for kind in (np.int32, np.int64):
        scan = Scan(points.astype(kind))
        np.testing.assert_array_equal(scan.T_world_sensor @ scan.points.astype(float), points)
    assert Scan(points.astype(np.int32) - [691_000_001, 0, 0]).T_world_sensor is None


def test_map_coordinates_keep_their_centimetres():
    points = np.random.default_rng(2).uniform(-50, 50, (2000, 3))
    place = np.array([691000.0, 5336000.0, 520.0])
    scan = Scan(points + place)
    found = scan.points + scan.T_world_sensor.translation
    np.testing.assert_allclose(found, points + place, atol=1e-4)
    assert scan.has_origin is False
    assert Scan(points + 1000).T_world_sensor is None
    with pytest.raises(InputError, match="found map coordinates, expected the sensor frame with a pose"):
        Scan(points + place, T_world_sensor=Pose.identity())


def test_merging_a_merged_scan_keeps_the_place_of_every_sensor():
    scans = [
        Scan(
            np.full((2, 3), k),
            sensor=name,
            T_vehicle_sensor=Pose.from_euler(k),
            diagnostics=(f"note of {name}", "both"),
        )
        for k, name in enumerate("abc")
    ]
    merged = Scan.merged(iter([Scan.merged(scans[:2]), scans[2]]))
    assert [(mount.name, mount.T_vehicle_sensor.xyz[0]) for mount in merged.mounts] == [("a", 0), ("b", 1), ("c", 2)]
    assert merged.channels["sensor_index"].tolist() == [0, 0, 1, 1, 2, 2]
    assert merged.diagnostics == ("note of a", "both", "note of b", "note of c")


def test_times_of_points_of_a_merged_scan_count_from_its_time():
    one, other = (
        Scan(np.eye(3), sensor=name, T_vehicle_sensor=Pose.identity(), time=time, point_time=[0, 0.1, 0.2])
        for name, time in (("a", 7.0), ("b", 7.05))
    )
    merged = Scan.merged([one, other])
    np.testing.assert_allclose(merged.time + merged.point_time, [7, 7.1, 7.2, 7.05, 7.15, 7.25])
    done = [replace(scan, point_time=None, channels={"deskewed_time": scan.point_time}) for scan in (one, other)]
    times = Scan.merged(done).channels["deskewed_time"]  # of movers, which deskewing leaves where they were
    np.testing.assert_allclose(merged.time + times, [7, 7.1, 7.2, 7.05, 7.15, 7.25])


def moving_sensors(**more):
    """Two sensors of a vehicle at 10 m/s that see the same place 0.05 s apart."""
    mounts = {"front": Pose.from_euler(2, 0, 1, yaw=0.5), "rear": Pose.from_euler(-2, 0, 1, yaw=3)}
    for (name, mount), time in zip(mounts.items(), (7.0, 7.05)):
        T_world_sensor = Pose.from_euler(10 * (time - 7)) @ mount
        points = T_world_sensor.inverse() @ np.array([[10.0, 1, 0]])
        yield Scan(points, time=time, sensor=name, T_vehicle_sensor=mount, T_world_sensor=T_world_sensor, **more)


def test_merged_scans_of_different_times_lie_where_the_first_is():
    front, rear = moving_sensors()
    np.testing.assert_allclose(Scan.merged([front, rear]).points, [[10, 1, 0]] * 2, atol=1e-5)
    late = Scan.merged([rear, front])
    np.testing.assert_allclose(late.T_world_sensor @ late.points, [[10, 1, 0]] * 2, atol=1e-5)
    assert late.diagnostics == ()
    blind = Scan.merged([front, rear.at(None)])
    np.testing.assert_allclose(blind.points, [[10, 1, 0], [9.5, 1, 0]], atol=1e-5)
    assert blind.diagnostics == ("time of rear: +0.050 s from front; the motion is unknown without poses",)
    assert Scan.merged([front, rear.at(None, 7.01)]).diagnostics == ()


def test_deskewing_moves_merged_scans_whose_points_have_times():
    merged = Scan.merged(moving_sensors(point_time=[0.0]))
    moved = deskew(merged, Motion(np.array([10.0, 0, 0]), np.zeros(3)))
    np.testing.assert_allclose(moved.points, [[10, 1, 0]] * 2, atol=1e-5)


def test_channels_of_other_shapes_are_not_merged():
    one = Scan(np.eye(3), sensor="a", T_vehicle_sensor=Pose.identity(), ring=[1, 2, 3], channels={"echo": np.zeros(3)})
    merged = Scan.merged([one, replace(one, sensor="b", channels={"echo": np.zeros((3, 2))})])
    assert set(merged.channels) == {"sensor_index"}
    assert merged.ring.tolist() == [1, 2, 3] * 2
