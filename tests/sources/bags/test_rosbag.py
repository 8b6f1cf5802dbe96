# SPDX-License-Identifier: Apache-2.0
"""Real bags, written here by rosbags: ROS 1, ROS 2 with sqlite3 and with MCAP."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Writer2

import roadbed
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.sources.bags.pointcloud2 import cloud_fields
from roadbed.sources.bags.transforms import TransformGraph
from tests.sources.bags.bag_files import Messages, cloud_bytes, drive_records, write_bag
from tests.sources.damage import damaged

KINDS = ("ros1", "sqlite3", "mcap")
DATATYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def test_clouds_and_odometry(tmp_path, kind):
    messages = Messages(kind == "ros1")
    source = roadbed.open(write_bag(tmp_path, kind, messages, sorted(drive_records(messages), key=lambda r: r[1])))
    assert (source.name, len(source), source.sequential, source.topic) == ("rosbag", 3, True, "/points")
    in_order = list(source)
    for k, scan in enumerate(in_order):
        assert scan.time == pytest.approx(100 + 0.1 * k, abs=1e-6)
        assert (scan.points[:, 0] == k).all()
        assert (scan.sensor, scan.name) == ("lidar_top", f"{k:06d}")
        np.testing.assert_array_equal(scan.intensity, np.full(4, 7.5, np.float32))
        assert scan.ring.tolist() == [0, 1, 2, 3]
        np.testing.assert_allclose(scan.point_time, [0, 0.025, 0.05, 0.075])
        expected = Pose.from_euler(0.5 * k, yaw=0.02 * k)
        np.testing.assert_allclose(scan.T_world_sensor.matrix, expected.matrix, atol=1e-6)
    for index in (2, 0, 1, -1):
        np.testing.assert_array_equal(source[index].points, in_order[index].points)
        assert source[index].time == in_order[index].time
    source.close()


def test_a_single_storage_file_opens_too(tmp_path):
    for kind, pattern in (("mcap", "*.mcap"), ("sqlite3", "*.db3")):
        messages = Messages(False)
        folder = tmp_path / kind
        folder.mkdir()
        records = sorted(drive_records(messages), key=lambda r: r[1])
        (file,) = write_bag(folder, kind, messages, records).glob(pattern)
        assert [scan.points[0, 0] for scan in roadbed.open(file)] == [0, 1, 2]


def test_several_ros1_bags_in_a_folder_are_one_drive(tmp_path):
    messages = Messages(True)
    for part in range(2):
        records = [
            ("/points", 100 + part + 0.1 * k, messages.cloud(100 + part + 0.1 * k, cloud_bytes(10 * part + k), 4))
            for k in range(2)
        ]
        write_bag(tmp_path, "ros1", messages, records).rename(tmp_path / f"part_{part}.bag")
    source = roadbed.open(tmp_path)
    assert [scan.points[0, 0] for scan in source] == [0, 1, 10, 11]
    assert source[2].points[0, 0] == 10
    assert not source.sequential


def test_several_topics_ask_which(tmp_path, kind):
    messages = Messages(kind == "ros1")
    records = [(topic, 100, messages.cloud(100, cloud_bytes(1), 4)) for topic in ("/front", "/rear")]
    records += [(topic, 100, messages.odometry(100, 1.0)) for topic in ("/odom", "/wheel")]
    path = write_bag(tmp_path, kind, messages, records)
    with pytest.raises(InputError, match=r"several topics of PointCloud2 \(/front, /rear\); choose by \?topic=NAME"):
        roadbed.open(path)
    with pytest.raises(InputError, match=r"several topics of Odometry or .* \(/odom, /wheel\); choose by \?odometry="):
        roadbed.open(f"{path}?topic=/rear")
    with pytest.raises(InputError, match=r"topic '/side': expected a topic of PointCloud2: /front, /rear"):
        roadbed.open(f"{path}?topic=/side")
    with pytest.raises(InputError, match=r"unknown option 'topics', expected one of topic, odometry, poses"):
        roadbed.open(f"{path}?topics=/side")
    assert roadbed.open(f"{path}?topic=/rear&odometry=/odom")[0].T_world_sensor.translation[0] == 1
    assert roadbed.open(path, topic="/rear", odometry="none")[0].T_world_sensor is None


def test_several_sensors_of_a_bag_come_in_order_each_with_its_pose(tmp_path, kind):
    """10 m/s along x; the front LiDAR 1.0 m over the body's frame, the rear one 0.4 m over a mast on it."""
    messages = Messages(kind == "ros1")
    records = [
        ("/tf_static", 99.0, messages.static("base_link", "front", 1.0)),
        ("/tf_static", 99.0, messages.static("base_link", "mast", 1.4)),
        ("/tf_static", 99.0, messages.static("mast", "rear", 0.4)),
    ]
    records += [("/odom", 99.9 + 0.1 * k, messages.odometry(99.9 + 0.1 * k, float(k))) for k in range(6)]
    for k in range(3):
        for topic, frame, time in (("/front", "front", 100 + 0.1 * k), ("/rear", "rear", 100.05 + 0.1 * k)):
            cloud = messages.cloud(time, cloud_bytes(k), 4)
            cloud.header.frame_id = frame
            records.append((topic, time, cloud))
    path = write_bag(tmp_path, kind, messages, sorted(records, key=lambda r: r[1]))
    source = roadbed.open(f"{path}?topic=/rear,/front")
    assert (len(source), source.sequential, source.diagnostics) == (6, True, ())
    assert [scan.sensor for scan in source] == ["front", "rear"] * 3
    places = [scan.T_world_sensor.translation for scan in source]
    np.testing.assert_allclose(places, [[1 + 0.5 * k, 0, (1.0, 1.8)[k % 2]] for k in range(6)], atol=1e-6)
    assert source[3].sensor == "rear"
    with pytest.raises(InputError, match=r"topic '/side': expected a topic of PointCloud2: /front, /rear"):
        roadbed.open(f"{path}?topic=/front,/side")
    results = list(
        roadbed.Pipeline(roadbed.Config.parse({"occupancy": {"grid": {"length": 20, "width": 20}}})).run(source)
    )
    assert [result.scan.sensor for result in results] == ["front", "rear"] * 3


def test_a_bag_without_clouds_lists_its_topics(tmp_path, kind):
    messages = Messages(kind == "ros1")
    path = write_bag(tmp_path, kind, messages, [("/odom", 1, messages.odometry(1, 0.0))])
    with pytest.raises(InputError, match="found no topic of PointCloud2, expected one; its topics: /odom"):
        roadbed.open(path)


def test_static_transforms_place_the_sensor_on_the_body(tmp_path, kind):
    messages = Messages(kind == "ros1")
    records = [
        ("/tf_static", 99.9, messages.static("base_link", "mast", 1.0)),
        ("/tf_static", 99.9, messages.static("mast", "lidar_top", 0.8)),
        *sorted(drive_records(messages), key=lambda r: r[1]),
    ]
    pose = roadbed.open(write_bag(tmp_path, kind, messages, records))[2].T_world_sensor
    np.testing.assert_allclose(pose.matrix, Pose.from_euler(1.0, 0, 1.8, yaw=0.04).matrix, atol=1e-6)


def test_a_chain_of_fixed_transforms_is_gone_in_its_order(kind):
    """Turned parts do not commute: base <- mast <- LiDAR, and back again."""

    def message(parent, child, pose):
        x, y, z = pose.translation
        stamped = SimpleNamespace(
            header=SimpleNamespace(frame_id=parent, stamp=SimpleNamespace(sec=0, nanosec=0)),
            child_frame_id=child,
            transform=SimpleNamespace(
                translation=SimpleNamespace(x=x, y=y, z=z),
                rotation=SimpleNamespace(x=0.0, y=0.0, z=np.sin(pose.yaw / 2), w=np.cos(pose.yaw / 2)),
            ),
        )
        return SimpleNamespace(transforms=[stamped])

    T_base_mast, T_mast_lidar = Pose.from_euler(1.0, 2.0, 0.5, yaw=0.6), Pose.from_euler(0.3, -0.2, 1.0, yaw=-1.1)
    transforms = TransformGraph()
    transforms.add(message("/base" if kind == "ros1" else "base", "mast", T_base_mast))
    transforms.add(message("mast", "lidar", T_mast_lidar))
    expected = T_base_mast @ T_mast_lidar
    np.testing.assert_allclose(transforms.between("base", "lidar").matrix, expected.matrix, atol=1e-9)
    np.testing.assert_allclose(transforms.between("lidar", "base").matrix, expected.inverse().matrix, atol=1e-9)
    assert transforms.between("base", "camera") is None


def test_stamped_poses_and_scans_without_any(tmp_path, kind):
    messages = Messages(kind == "ros1")
    records = [("/points", 100 + k, messages.cloud(100 + k, cloud_bytes(k), 4)) for k in range(3)]
    records += [("/pose", 100 + 0.1 * k, messages.pose_stamped(100 + 0.1 * k, k)) for k in range(11)]
    source = roadbed.open(write_bag(tmp_path, kind, messages, sorted(records, key=lambda r: r[1])))
    assert source[1].T_world_sensor.translation[0] == pytest.approx(10)
    assert source[2].T_world_sensor is None  # a second after the last pose


def test_poses_of_a_file_and_stamps_of_the_recorder(tmp_path):
    messages = Messages(False)
    records = [("/points", 50 + k, messages.cloud(0.0, cloud_bytes(k), 4)) for k in range(2)]
    path = write_bag(tmp_path, "mcap", messages, records)
    np.savetxt(tmp_path / "tum.txt", [[50 + k, 3 * k, 0, 0, 0, 0, 0, 1] for k in range(2)])
    scan = roadbed.open(path, poses=tmp_path / "tum.txt")[1]
    assert scan.time == pytest.approx(51)
    assert scan.T_world_sensor.translation[0] == pytest.approx(3)
    np.savetxt(tmp_path / "kitti.txt", [np.eye(4)[:3].ravel()] * 3)
    with pytest.raises(InputError, match=r"poses: found 3, expected 2"):
        roadbed.open(path, poses=tmp_path / "kitti.txt")


def test_two_messages_of_the_same_time_stay_two(tmp_path, kind):
    messages = Messages(kind == "ros1")
    records = [("/points", 100, messages.cloud(100 + k, cloud_bytes(k), 4)) for k in range(2)]
    source = roadbed.open(write_bag(tmp_path, kind, messages, records))
    assert sorted(source[k].points[0, 0] for k in range(2)) == [0, 1]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_clouds_of_any_layout_and_byte_order(data):
    """Fields in any order with gaps, vectors, rows with padding; the oracle packs byte by byte."""
    width, height = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3))
    big = data.draw(st.booleans())
    names = data.draw(st.permutations(["x", "y", "z", "a", "b"]))
    layout, offset = [], 0
    for name in names:
        offset += data.draw(st.integers(0, 3))
        datatype = data.draw(st.integers(1, 8))
        count = 1 if name in "xyz" else data.draw(st.integers(0, 3))
        layout.append((name, datatype, count, offset))
        offset += max(count, 1) * np.dtype(DATATYPES[datatype - 1]).itemsize
    step = offset + data.draw(st.integers(0, 5))
    row = width * step + data.draw(st.integers(0, 7))
    raw = np.random.default_rng(0).integers(0, 100, height * row).astype(np.uint8)
    message = Messages(False).cloud(0.0, raw.tobytes(), width, height, layout, step, row, big)
    fields = cloud_fields(message, "test")
    assert set(fields) == set(names)
    for name, datatype, count, start in layout:
        dtype = np.dtype((">" if big else "<") + DATATYPES[datatype - 1])
        length = max(count, 1) * dtype.itemsize
        starts = [r * row + c * step + start for r in range(height) for c in range(width)]
        expected = [np.frombuffer(raw[s : s + length].tobytes(), dtype) for s in starts]
        assert len(fields[name]) == width * height
        assert fields[name].dtype == dtype.newbyteorder("=")
        if expected:
            np.testing.assert_array_equal(fields[name].reshape(len(expected), -1), np.stack(expected))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 5}, "found 128 bytes with row_step 160, expected 160 for 5 x 1 points of 32 bytes"),
        ({"width": 2**31, "height": 2**31, "row": 1}, "found 128 bytes with row_step 1, expected"),
        ({"width": 2, "height": 2, "row": 32}, "found 128 bytes with row_step 32, expected 96 for 2 x 2 points"),
        ({"step": 16, "row": 64}, "field intensity: ends at byte 20, expected within point_step 16"),
        ({"layout": [("x", 9, 1, 0)]}, "field x: datatype: found 9, expected 1 to 8"),
        ({"layout": [("x", 7, 1, 0), ("x", 7, 1, 4)]}, "found x twice"),
        ({"layout": [("x", 7, 1, 0)]}, "expected x, y and z of one number per point, found x"),
    ],
)
def test_bad_clouds_say_topic_and_message(tmp_path, change, message):
    messages = Messages(False)
    arguments = {"width": 4, **change}
    records = [("/points", 1, messages.cloud(1.0, cloud_bytes(0), **arguments))]
    source = roadbed.open(write_bag(tmp_path, "mcap", messages, records))
    with pytest.raises(InputError, match=rf"drive: /points message 0: .*{message}"):
        source[0]


def test_empty_and_one_point_clouds(tmp_path, kind):
    messages = Messages(kind == "ros1")
    records = [("/points", 1 + k, messages.cloud(1.0 + k, cloud_bytes(0, k), k)) for k in range(2)]
    assert [len(scan) for scan in roadbed.open(write_bag(tmp_path, kind, messages, records))] == [0, 1]


def test_files_that_are_no_bags(tmp_path):
    for name in ("a.bag", "a.mcap", "a.db3"):
        for content in (b"", b"nonsense" * 100, b"\0\xfb\xfc" * 1000):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(InputError, match=rf"{name}: (not a readable ROS bag|found no topic)"):
                roadbed.open(tmp_path / name)
    with pytest.raises(InputError, match=r"a\.bag: not a readable ROS bag \(found bytes that are no text: b'.xfb"):
        roadbed.open(tmp_path / "a.bag")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/metadata.yaml").write_text("!!python/object/apply:os.system ['true']")
    with pytest.raises(InputError, match=r"metadata\.yaml: .*found the tag .*, expected plain values"):
        roadbed.open(tmp_path / "folder")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_bags_give_scans_or_one_line(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    kind = data.draw(st.sampled_from(["ros1", "mcap"]))
    whole = folder / f"whole_{kind}"
    if not whole.exists():
        whole.mkdir()
        messages = Messages(kind == "ros1")
        write_bag(whole, kind, messages, sorted(drive_records(messages), key=lambda r: r[1]))
    (file,) = [*whole.rglob("*.bag"), *whole.rglob("*.mcap")]
    copy = folder / f"damaged{file.suffix}"
    copy.write_bytes(data.draw(damaged(file.read_bytes())))
    try:
        for scan in roadbed.open(copy):
            assert isinstance(scan, Scan)
    except InputError as error:
        if "\n" in str(error):
            pytest.fail(f"more than one line: {error}")


@pytest.mark.parametrize(
    ("storage", "mode"),
    [("SQLITE3", "FILE"), ("SQLITE3", "MESSAGE"), ("MCAP", "FILE"), ("MCAP", "MESSAGE"), ("MCAP", "STORAGE")],
)
def test_compressed_ros2_bags(tmp_path, storage, mode):
    messages = Messages(False)
    writer = Writer2(tmp_path / "drive", version=9, storage_plugin=StoragePlugin[storage])
    writer.set_compression(CompressionMode[mode], CompressionFormat.ZSTD)
    with writer:
        links = {}
        for topic, time, message in sorted(drive_records(messages), key=lambda r: r[1]):
            if topic not in links:
                links[topic] = writer.add_connection(topic, message.__msgtype__, typestore=messages.store)
            raw = messages.store.serialize_cdr(message, message.__msgtype__)
            writer.write(links[topic], int(time * 1e9), raw)
    source = roadbed.open(tmp_path / "drive")
    assert [scan.points[0, 0] for scan in source] == [0, 1, 2]
    assert source[1].T_world_sensor.translation[0] == pytest.approx(0.5)
    source.close()


@pytest.mark.parametrize("compression", ["BZ2", "LZ4"])
def test_compressed_ros1_bags(tmp_path, compression):
    messages = Messages(True)
    writer = Writer1(tmp_path / "drive.bag")
    writer.set_compression(Writer1.CompressionFormat[compression])
    with writer:
        link = writer.add_connection("/points", "sensor_msgs/msg/PointCloud2", typestore=messages.store)
        for k in range(3):
            cloud = messages.cloud(1.0 + k, cloud_bytes(k), 4)
            writer.write(link, (1 + k) * 10**9, messages.store.serialize_ros1(cloud, cloud.__msgtype__))
    source = roadbed.open(tmp_path / "drive.bag")
    assert [scan.points[0, 0] for scan in source] == [0, 1, 2]
    assert source[2].points[0, 0] == 2
