# SPDX-License-Identifier: Apache-2.0
"""Real bags, written here by rosbags: ROS 1, ROS 2 with sqlite3 and with MCAP."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

import roadbed
from roadbed.errors import InputError
from roadbed.frames import Scan
from roadbed.geometry import Pose
from roadbed.sources.pointcloud2 import cloud_fields
from tests.resident import measured
from tests.sources.damage import damaged

KINDS = ("ros1", "sqlite3", "mcap")
LAYOUT = [("x", 7, 1, 0), ("y", 7, 1, 4), ("z", 7, 1, 8), ("intensity", 7, 1, 16), ("ring", 4, 1, 20), ("t", 6, 1, 24)]
POINT_STEP = 32
DATATYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")


class Messages:
    """Message makers of ROS 1 or ROS 2, whose headers differ."""

    def __init__(self, ros1: bool) -> None:
        self.ros1 = ros1
        self.store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
        if ros1:
            self.store.register(
                get_types_from_msg("geometry_msgs/TransformStamped[] transforms", "tf2_msgs/msg/TFMessage")
            )
        self.types = self.store.types

    def header(self, time: float, frame: str):
        seconds = int(time)
        stamp = self.types["builtin_interfaces/msg/Time"](sec=seconds, nanosec=round((time - seconds) * 1e9))
        extra = {"seq": 0} if self.ros1 else {}
        return self.types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame, **extra)

    def cloud(self, time: float, data: bytes, width: int, height=1, layout=LAYOUT, step=POINT_STEP, row=0, big=False):
        field = self.types["sensor_msgs/msg/PointField"]
        return self.types["sensor_msgs/msg/PointCloud2"](
            header=self.header(time, "lidar_top"),
            height=height,
            width=width,
            fields=[field(name=n, datatype=d, count=c, offset=o) for n, d, c, o in layout],
            is_bigendian=big,
            point_step=step,
            row_step=row or width * step,
            data=np.frombuffer(data, np.uint8),
            is_dense=False,
        )

    def pose(self, x: float, yaw: float):
        position = self.types["geometry_msgs/msg/Point"](x=x, y=0.0, z=0.0)
        turn = self.types["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=np.sin(yaw / 2), w=np.cos(yaw / 2))
        return self.types["geometry_msgs/msg/Pose"](position=position, orientation=turn)

    def odometry(self, time: float, x: float, yaw: float = 0.0):
        vector = self.types["geometry_msgs/msg/Vector3"](x=0.0, y=0.0, z=0.0)
        twist = self.types["geometry_msgs/msg/Twist"](linear=vector, angular=vector)
        return self.types["nav_msgs/msg/Odometry"](
            header=self.header(time, "odom"),
            child_frame_id="base_link",
            pose=self.types["geometry_msgs/msg/PoseWithCovariance"](pose=self.pose(x, yaw), covariance=np.zeros(36)),
            twist=self.types["geometry_msgs/msg/TwistWithCovariance"](twist=twist, covariance=np.zeros(36)),
        )

    def pose_stamped(self, time: float, x: float):
        return self.types["geometry_msgs/msg/PoseStamped"](header=self.header(time, "map"), pose=self.pose(x, 0.0))

    def static(self, parent: str, child: str, z: float):
        move = self.types["geometry_msgs/msg/Vector3"](x=0.0, y=0.0, z=z)
        turn = self.types["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=0.0, w=1.0)
        transform = self.types["geometry_msgs/msg/Transform"](translation=move, rotation=turn)
        stamped = self.types["geometry_msgs/msg/TransformStamped"](
            header=self.header(0.0, parent), child_frame_id=child, transform=transform
        )
        return self.types["tf2_msgs/msg/TFMessage"](transforms=[stamped])


def write_bag(folder: Path, kind: str, messages, records) -> Path:
    """`records`: (topic, recording time in s, message); returns the path to open."""
    path = folder / ("drive.bag" if kind == "ros1" else "drive")
    storage = {} if kind == "ros1" else {"version": 9, "storage_plugin": StoragePlugin[kind.upper()]}
    with (Writer1 if kind == "ros1" else Writer2)(path, **storage) as writer:
        links = {}
        for topic, time, message in records:
            if topic not in links:
                links[topic] = writer.add_connection(topic, message.__msgtype__, typestore=messages.store)
            serialize = messages.store.serialize_ros1 if kind == "ros1" else messages.store.serialize_cdr
            writer.write(links[topic], int(time * 1e9), serialize(message, message.__msgtype__))
    return path


def cloud_bytes(number: int, points: int = 4) -> bytes:
    table = np.zeros(
        points,
        {
            "names": ["x", "intensity", "ring", "t"],
            "formats": ["<f4", "<f4", "<u2", "<u4"],
            "offsets": [0, 16, 20, 24],
            "itemsize": POINT_STEP,
        },
    )
    table["x"], table["intensity"], table["ring"] = number, 7.5, np.arange(points)
    table["t"] = np.arange(points) * 25_000_000
    return table.tobytes()


def drive_records(messages: Messages, scans: int = 3):
    """Scans at 100.0, 100.1, ... s; odometry at 50 Hz, 5 m/s along x and turning at 0.2 rad/s."""
    for k in range(scans):
        yield "/points", 100 + 0.1 * k, messages.cloud(100 + 0.1 * k, cloud_bytes(k), 4)
    for k in range(5 * scans + 2):
        time = 99.99 + 0.02 * k
        yield "/odom", time, messages.odometry(time, 5 * (time - 100), 0.2 * (time - 100))


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
        for content in (b"", b"nonsense" * 100):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(InputError, match=rf"{name}: (not a readable ROS bag|found no topic)"):
                roadbed.open(tmp_path / name)
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
    ("old", "new"),
    [
        ("message_count: 3", "message_count: many"),
        ("message_count: 3", "message_count: -1"),
        ("message_count: 3", "message_count: 1.5"),
        ("message_count: 3", "message_count: 99999999999999999999999"),
        ("message_count: 20", "message_count: [20]"),
        ("nanoseconds: 319999999", "nanoseconds: long"),
        ("nanoseconds_since_epoch: 99990000000", "nanoseconds_since_epoch: null"),
        ("- drive.mcap", "- 7"),
        ("- drive.mcap", "- drive.mcap\n  - drive.mcap"),
        ("name: /points", "name: [1]"),
        ("type: sensor_msgs/msg/PointCloud2", "type: {a: b}"),
        ("version: 9", "version: nine"),
        ("storage_identifier: mcap", "storage_identifier: [mcap]"),
        ("compression_mode: ''", "compression_mode: 5"),
        ("offered_qos_profiles: []", "offered_qos_profiles: '&a [*a, *a]'"),
        ("offered_qos_profiles: []", "offered_qos_profiles: [[[1]]]"),
        ("rosbag2_bagfile_information:", "x:"),
    ],
)
def test_metadata_of_the_wrong_types(tmp_path, old, new):
    messages = Messages(False)
    path = write_bag(tmp_path, "mcap", messages, sorted(drive_records(messages), key=lambda r: r[1]))
    metadata = (path / "metadata.yaml").read_text()
    assert old in metadata
    (path / "metadata.yaml").write_text(metadata.replace(old, new))
    with pytest.raises(InputError) as caught:
        list(roadbed.open(path))
    assert "\n" not in str(caught.value)


def test_an_index_that_is_read_over_and_over(tmp_path):
    """Each chunk record may point to the same index: a file of 1 MB would give gigabytes of entries."""
    messages = Messages(True)
    records = [("/points", 1 + 1e-3 * k, messages.cloud(1.0, cloud_bytes(0, 0), 0)) for k in range(1000)]
    raw = write_bag(tmp_path, "ros1", messages, records).read_bytes()
    place = raw.index(b"chunk_count=") + len(b"chunk_count=")
    info = raw.rindex(b"\x04\x00\x00\x00op=\x06") - 200
    start = next(k for k in range(info, len(raw)) if _is_chunk_info(raw, k))
    many = bytearray(raw[:start] + raw[start:] * 1000)
    many[place : place + 4] = (1000).to_bytes(4, "little")
    (tmp_path / "many.bag").write_bytes(many)
    with measured() as peak, pytest.raises(InputError, match=r"index: found .* entries, more than the file has bytes"):
        roadbed.open(tmp_path / "many.bag")
    assert peak.bytes < 100 << 20


def _is_chunk_info(raw: bytes, place: int) -> bool:
    length = int.from_bytes(raw[place : place + 4], "little")
    return b"op=\x06" in raw[place + 4 : place + 4 + length] and length < 200


def test_definitions_in_a_bag_are_not_believed(tmp_path):
    """A bag that redefines a standard message: its own definition would read nonsense, or for ever."""
    messages = Messages(True)
    records = [("/points", 1, messages.cloud(1.0, cloud_bytes(3), 4))]
    raw = write_bag(tmp_path, "ros1", messages, records).read_bytes()
    assert raw.count(b"uint32 height") == 2
    (tmp_path / "own.bag").write_bytes(raw.replace(b"uint32 height", b"string height"))
    assert roadbed.open(tmp_path / "own.bag")[0].points[0, 0] == 3


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


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE topics SET name = NULL WHERE id = 1",
        "UPDATE topics SET name = 7",
        "UPDATE topics SET type = x'00'",
        "UPDATE messages SET timestamp = 'noon'",
        "UPDATE messages SET timestamp = NULL",
        "UPDATE messages SET data = NULL",
        "UPDATE messages SET data = 'text'",
        "UPDATE messages SET topic_id = 'one'",
        "UPDATE topics SET offered_qos_profiles = 7",
        "CREATE VIEW endless AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n",
    ],
)
def test_databases_with_values_of_other_types_give_scans_or_one_line(tmp_path, change):
    messages = Messages(False)
    path = write_bag(tmp_path, "sqlite3", messages, sorted(drive_records(messages), key=lambda r: r[1]))
    (file,) = path.glob("*.db3")
    with sqlite3.connect(file) as database:
        for table in ("topics", "messages"):  # as a damaged file has it: without the constraints of the schema
            rows = database.execute(f"SELECT * FROM {table}").fetchall()
            names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            database.execute(f"DROP TABLE {table}")
            database.execute(f"CREATE TABLE {table} ({', '.join(names)})")
            database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", rows)
        database.execute(change)
    with measured(hang_guard_s=20), suppress(InputError):
        for scan in roadbed.open(file):
            assert isinstance(scan, Scan)
