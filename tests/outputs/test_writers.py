# SPDX-License-Identifier: Apache-2.0
"""Every writer read back by its reader gives the same scan."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.spatial.transform import Rotation

from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, Label, Mounting, OccupancyFrame, Scan
from roadbed.core.geometry import Grid, Pose
from roadbed.evaluate.protocols import protocol
from roadbed.outputs.label import semantickitti_classes, write_label
from roadbed.outputs.npz import write_npz
from roadbed.outputs.pcd import write_pcd
from roadbed.sources.formats.bin import read_labels
from roadbed.sources.formats.npy import read_npz
from roadbed.sources.formats.pcd import read_pcd

DTYPES = ("i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
NAMES = ("azimuth", "return_type", "near_ir", "velocity", "Reflectivity", "label", "sensor_index", "größe", "time", "i")


@st.composite
def poses(draw):
    angles = [draw(st.floats(-3.14, 3.14)) for _ in range(3)]
    place = [draw(st.floats(-1e6, 1e6)) for _ in range(3)]
    return Pose(Rotation.from_euler("zyx", angles).as_matrix(), np.array(place))


@st.composite
def scans(draw):
    count = draw(st.integers(0, 30))
    channels = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        width = draw(st.sampled_from([(), (1,), (3,)]))
        # A width of one is the same as none once it is in a file.
        shape = (count, *width) if width != (1,) else (count,)
        channels[name] = draw(npst.arrays(np.dtype(draw(st.sampled_from(DTYPES))), shape))
    ring_dtype = draw(st.sampled_from(("u1", "<u2", "<i4")))
    return Scan(
        draw(npst.arrays(np.float32, (count, 3))),
        intensity=draw(st.none() | npst.arrays(np.dtype(draw(st.sampled_from(DTYPES))), count)),
        ring=draw(st.none() | npst.arrays(np.dtype(ring_dtype), count)),
        point_time=draw(st.none() | npst.arrays(draw(st.sampled_from((np.float32, np.float64))), count)),
        classes=draw(st.none() | npst.arrays(np.uint32, count)),
        T_world_sensor=draw(st.none() | poses()),
        channels=channels,
    )


def same(found, expected):
    assert (found is None) == (expected is None)
    if expected is None:
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def assert_same_scan(found: Scan, expected: Scan):
    same(found.points, expected.points)
    for name in ("intensity", "ring", "classes"):
        same(getattr(found, name), getattr(expected, name))
    if expected.point_time is not None:
        np.testing.assert_array_equal(found.point_time, expected.point_time)
    assert found.channels.keys() == expected.channels.keys()
    for name in expected.channels:
        same(found.channels[name], expected.channels[name])
    pose = expected.T_world_sensor
    assert (pose is None) == (found.T_world_sensor is None)
    if pose is not None:
        np.testing.assert_allclose(found.T_world_sensor.matrix, pose.matrix, atol=1e-9)


WRITERS = pytest.mark.parametrize(
    ("suffix", "write", "read"), [("npz", write_npz, read_npz), ("pcd", write_pcd, read_pcd)]
)


@WRITERS
@settings(max_examples=100, deadline=None)
@given(
    scan=scans(),
    mounting=poses(),
    time=st.none() | st.floats(0, 1e10),
    sensor=st.text(st.characters(exclude_characters="\0"), min_size=1),
)
def test_round_trip(tmp_path_factory, suffix, write, read, scan, mounting, time, sensor):
    file = tmp_path_factory.getbasetemp() / f"round.{suffix}"
    whole = Scan(**{**vars(scan), "T_vehicle_sensor": mounting, "time": time, "sensor": sensor})
    write(file, whole)
    found = read(file)
    assert_same_scan(found, whole)
    assert (found.time, found.sensor, found.name) == (time, sensor, "round")
    np.testing.assert_allclose(found.T_vehicle_sensor.matrix, mounting.matrix, atol=1e-12)


@WRITERS
def test_front_origin_and_an_unmoved_pose_are_kept(tmp_path, suffix, write, read):
    for front, has_origin, pose in ((np.pi / 2, True, None), (0.0, False, Pose.identity()), (0.0, None, None)):
        write(tmp_path / f"a.{suffix}", Scan(np.eye(3), front=front, has_origin=has_origin, T_world_sensor=pose))
        found = read(tmp_path / f"a.{suffix}")
        assert (found.front, found.has_origin, found.T_world_sensor is None) == (front, has_origin, pose is None)


def test_pcd_keeps_times_of_points_in_whole_seconds_and_those_before_deskewing_apart(tmp_path):
    write_pcd(tmp_path / "a.pcd", Scan(np.eye(3), point_time=[0, 1, 2]))
    assert read_pcd(tmp_path / "a.pcd").point_time.tolist() == [0, 1, 2]
    write_pcd(tmp_path / "a.pcd", Scan(np.eye(3), channels={"time": [0, 0.1, 0.2]}))
    assert read_pcd(tmp_path / "a.pcd").point_time is None


def test_a_comment_of_roadbed_that_is_damaged_is_refused_and_viewpoint_comes_first(tmp_path):
    write_pcd(tmp_path / "a.pcd", Scan(np.eye(3), T_world_sensor=Pose.from_euler(x=1)))
    raw = (tmp_path / "a.pcd").read_bytes()
    (tmp_path / "b.pcd").write_bytes(raw.replace(b"VIEWPOINT 1.0 ", b"VIEWPOINT 2.0 "))
    assert read_pcd(tmp_path / "b.pcd").T_world_sensor.xyz == (2, 0, 0)
    (tmp_path / "b.pcd").write_bytes(raw.replace(b"FIELDS x", b"FIELDS a"))
    with pytest.raises(InputError, match="expected x, y and z"):
        read_pcd(tmp_path / "b.pcd")
    for damage in (
        b'# roadbed: {"sensor": 5',
        b"# roadbed: []",
        b'# roadbed: {"fields": {"a": "b"}}',
        b'# roadbed: {"fields": {}, "time": "x"}',
        b'# roadbed: {"fields": {}, "a": [[1], 2]}',
    ):
        (tmp_path / "b.pcd").write_bytes(raw.replace(b"# roadbed: ", damage + b"\n# "))
        with pytest.raises(InputError, match=r"b\.pcd: PCD header.*expected|b\.pcd: PCD header: not a readable"):
            read_pcd(tmp_path / "b.pcd")


@WRITERS
def test_the_mounts_of_a_rig_are_kept(tmp_path, suffix, write, read):
    one = Scan(np.ones((2, 3)), sensor="left", T_vehicle_sensor=Pose.from_euler(0, 1, 2, yaw=0.3))
    two = Scan(np.zeros((3, 3)), sensor="right", T_vehicle_sensor=Pose.from_euler(0, -1, 2))
    merged = Scan.merged([one, two])
    write(tmp_path / f"a.{suffix}", merged)
    found = read(tmp_path / f"a.{suffix}")
    assert [mount.name for mount in found.mounts] == ["left", "right"]
    for (mount, index), (mount_expected, index_expected) in zip(found.split(), merged.split()):
        np.testing.assert_allclose(mount.T_vehicle_sensor.matrix, mount_expected.T_vehicle_sensor.matrix)
        np.testing.assert_array_equal(index, index_expected)


def example_frames(scan: Scan) -> tuple[GroundFrame, OccupancyFrame]:
    grid = Grid.centred(4, 3, 1.0)
    layer = np.arange(12, dtype=np.float32).reshape(grid.shape)
    pair = np.stack([layer, -layer], axis=-1)
    ground = GroundFrame(
        label=np.array([1, 2], np.uint8),
        ground_probability=np.array([1, 0], np.float32),
        height_above_ground=np.array([0, 1], np.float32),
        grid=grid,
        elevation=layer,
        slope=pair,
        variance=layer,
        T_grid_sensor=Pose.from_euler(1, 2, 3),
        mounting=Mounting(T_vehicle_sensor=Pose.from_euler(0, 0, 1.73), estimated=True),
        scan=scan,
        diagnostics=("a note",),
    )
    occupancy = OccupancyFrame(
        grid=grid,
        time=2.5,
        static=layer,
        dynamic=layer,
        free=layer,
        velocity=pair,
        velocity_covariance=np.stack([layer] * 3, axis=-1),
        moving=layer > 3,
    )
    return ground, occupancy


def test_npz_with_ground_and_occupancy_holds_plain_arrays_only(tmp_path):
    scan = Scan(np.eye(3, dtype=np.float32)[:2], time=2.5)
    ground, occupancy = example_frames(scan)
    write_npz(tmp_path / "a.npz", scan, ground, occupancy)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["ground.elevation"], ground.elevation)
        np.testing.assert_array_equal(arrays["ground.label"], ground.label)
        np.testing.assert_array_equal(arrays["ground.grid"], [-1.5, -1, 1, 4, 3])
        np.testing.assert_array_equal(arrays["ground.T_grid_sensor"], ground.T_grid_sensor.matrix)
        assert arrays["ground.T_vehicle_sensor"][2, 3] == 1.73
        np.testing.assert_array_equal(arrays["occupancy.velocity"], occupancy.velocity)
        assert arrays["occupancy.time"] == 2.5
        assert "occupancy.observation" not in arrays
        assert all(not arrays[name].dtype.hasobject for name in arrays)
    assert_same_scan(read_npz(tmp_path / "a.npz"), scan)


def test_pcd_carries_label_and_further_values_and_can_keep_a_part(tmp_path):
    scan = Scan(np.arange(9).reshape(3, 3), intensity=np.array([1, 2, 3], np.uint8), point_time=np.zeros(3))
    height = np.array([0.5, np.nan, 2], np.float32)
    label = np.array([1, 2, 1])
    write_pcd(tmp_path / "a.pcd", scan, label=label, extra={"height_above_ground": height}, keep=label == 1)
    found = read_pcd(tmp_path / "a.pcd")
    np.testing.assert_array_equal(found.points, scan.points[[0, 2]])
    assert found.channels["label"].dtype == np.uint8
    np.testing.assert_array_equal(found.channels["height_above_ground"], height[[0, 2]])
    assert found.intensity.tolist() == [1, 3]
    # A file read back and labelled again holds the new label.
    write_pcd(tmp_path / "b.pcd", found, label=np.array([3, 4]))
    assert read_pcd(tmp_path / "b.pcd").channels["label"].tolist() == [3, 4]


def test_an_independent_reader_understands_our_pcd(tmp_path):
    import pypcd4

    rng = np.random.default_rng(0)
    scan = Scan(rng.normal(size=(100, 3)), intensity=rng.random(100), ring=np.arange(100, dtype=np.uint16))
    write_pcd(tmp_path / "a.pcd", scan, label=np.ones(100, np.uint8))
    theirs = pypcd4.PointCloud.from_path(tmp_path / "a.pcd").pc_data
    assert theirs.dtype.names == ("x", "y", "z", "intensity", "ring", "label")
    np.testing.assert_array_equal(theirs["x"], scan.points[:, 0])
    np.testing.assert_array_equal(theirs["intensity"], scan.intensity)
    np.testing.assert_array_equal(theirs["ring"], scan.ring)


@given(npst.arrays(np.uint32, st.integers(0, 50)))
def test_label_round_trip(tmp_path_factory, labels):
    file = tmp_path_factory.getbasetemp() / "round.label"
    write_label(file, labels)
    np.testing.assert_array_equal(read_labels(file, len(labels)), labels)


def test_labels_mean_in_semantickitti_what_they_mean_here():
    labels = np.array(list(Label), np.uint8)
    classes = semantickitti_classes(labels)
    assert dict(zip(Label, classes.tolist())) == {
        Label.UNKNOWN: 0,  # names of semantic-kitti.yaml: unlabeled
        Label.GROUND: 40,  # road
        Label.OBSTACLE: 99,  # other-object
        Label.OVERHANG: 52,  # other-structure
        Label.LOW_OUTLIER: 1,  # outlier
    }
    # Read back as a truth, our labels score themselves: the road is ground, what is unknown or noise does not count.
    is_ground, is_scored = protocol("patchwork++")(Scan(np.zeros((len(labels), 3)), classes=classes))
    np.testing.assert_array_equal(is_ground, labels == Label.GROUND)
    np.testing.assert_array_equal(is_scored, np.isin(labels, (Label.GROUND, Label.OBSTACLE, Label.OVERHANG)))


def test_types_that_pcd_lacks_are_widened(tmp_path):
    flags, halves = np.array([True, False]), np.array([0.5, np.inf], np.float16)
    write_pcd(tmp_path / "a.pcd", Scan(np.zeros((2, 3)), channels={"flag": flags, "half": halves}))
    found = read_pcd(tmp_path / "a.pcd").channels
    assert (found["flag"].dtype, found["half"].dtype) == (np.uint8, np.float32)
    np.testing.assert_array_equal(found["flag"], flags)
    np.testing.assert_array_equal(found["half"], halves)


def test_writers_refuse_what_they_cannot_hold_and_leave_nothing_behind(tmp_path):
    scan = Scan(np.zeros((2, 3)), channels={"words": np.array(["a", "b"])})
    with pytest.raises(InputError, match="channel words: found <U1, expected numbers"):
        write_pcd(tmp_path / "a.pcd", scan)
    with pytest.raises(InputError, match=r"channel h: found shape \(3,\), expected \(2,\)"):
        write_pcd(tmp_path / "a.pcd", Scan(np.zeros((2, 3))), extra={"h": np.zeros(3)})
    with pytest.raises(InputError, match="expected a name of one printable word"):
        write_pcd(tmp_path / "a.pcd", Scan(np.zeros((2, 3))), extra={"two words": np.zeros(2)})
    with pytest.raises(InputError, match="expected plain numbers"):
        write_npz(tmp_path / "a.npz", Scan(np.zeros((1, 3)), channels={"o": np.array([None])}))
    for labels in (np.array([-1]), np.array([1 << 32]), np.array([0.5]), np.zeros((2, 2), int)):
        with pytest.raises(InputError, match="labels: found"):
            write_label(tmp_path / "a.label", labels)
    assert list(tmp_path.iterdir()) == []
