# SPDX-License-Identifier: Apache-2.0
"""Bags of sensor drivers without PointCloud2: packets of real captures and Livox points, in the drivers' messages."""

import numpy as np
import pytest
from rosbags.typesys import get_types_from_msg

import roadbed
from roadbed.core.errors import InputError
from roadbed.sources.sensors.hesai import scans_of_packets
from roadbed.sources.sensors.pcap import datagrams
from tests.sources.bags.bag_files import Messages, cloud_bytes, write_bag
from tests.sources.bags.test_rosbag import KINDS
from tests.sources.sensors.test_hesai import packet as xt32

# As in the repositories of the drivers, comments left out.
VELODYNE_SCAN = "std_msgs/Header header\nvelodyne_msgs/VelodynePacket[] packets\n"
VELODYNE_PACKET = {True: "time stamp\nuint8[1206] data\n", False: "builtin_interfaces/Time stamp\nuint8[1206] data\n"}
HESAI_PACKET = {
    ros1: text.replace("[1206] data", "[] data") + "uint32 size\n" for ros1, text in VELODYNE_PACKET.items()
}
LIVOX_POINT = (
    "uint32 offset_time\nfloat32 x\nfloat32 y\nfloat32 z\nuint8 reflectivity\nuint8 tag\nuint8 line\n"  # 19 bytes
)
LIVOX = "std_msgs/Header header\nuint64 timebase\nuint32 point_num\nuint8 lidar_id\nuint8[3] rsvd\n"
VLP16, OUSTER = "formats/sample_velodyne_vlp16_gps.pcap", "recordings/OS-2-128-U1_v2.3.0_1024x10.pcap"


class DriverMessages(Messages):
    """With the message types of the drivers, registered from their definitions."""

    def __init__(self, ros1: bool) -> None:
        super().__init__(ros1)
        self.add("velodyne_msgs/msg/VelodynePacket", VELODYNE_PACKET[ros1])
        self.add("velodyne_msgs/msg/VelodyneScan", VELODYNE_SCAN)
        self.add("hesai_lidar/msg/PandarPacket", HESAI_PACKET[ros1])
        self.add("hesai_lidar/msg/PandarScan", "std_msgs/Header header\nhesai_lidar/PandarPacket[] packets\n")
        for package in ("ouster_ros", "ouster_sensor_msgs"):
            self.add(f"{package}/msg/PacketMsg", "uint8[] buf\n")
        for package in ("livox_ros_driver", "livox_ros_driver2"):
            self.add(f"{package}/msg/CustomPoint", LIVOX_POINT)
            self.add(f"{package}/msg/CustomMsg", f"{LIVOX}{package}/CustomPoint[] points\n")

    def add(self, name: str, definition: str) -> None:
        self.store.register(get_types_from_msg(definition, name))

    def velodyne(self, packets, frame="velodyne"):
        packet = self.types["velodyne_msgs/msg/VelodynePacket"]
        made = [packet(stamp=self.header(time, "").stamp, data=np.frombuffer(data, np.uint8)) for time, data in packets]
        header = self.header(packets[-1][0], frame)
        return self.types["velodyne_msgs/msg/VelodyneScan"](header=header, packets=made)

    def hesai(self, packets):
        packet = self.types["hesai_lidar/msg/PandarPacket"]
        made = [
            packet(stamp=self.header(time, "").stamp, data=np.frombuffer(data + bytes(9), np.uint8), size=len(data))
            for time, data in packets
        ]
        return self.types["hesai_lidar/msg/PandarScan"](header=self.header(packets[0][0], "Pandar"), packets=made)

    def ouster(self, data: bytes, package="ouster_ros"):
        return self.types[f"{package}/msg/PacketMsg"](buf=np.frombuffer(data, np.uint8))

    def text(self, data: str):
        return self.types["std_msgs/msg/String"](data=data)

    def livox(self, time: float, points, package="livox_ros_driver"):
        point = self.types[f"{package}/msg/CustomPoint"]
        return self.types[f"{package}/msg/CustomMsg"](
            header=self.header(time, "livox_frame"),
            timebase=int(time * 1e9),
            point_num=len(points),
            lidar_id=1,
            rsvd=np.zeros(3, np.uint8),
            points=[point(*values) for values in points],
        )


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def packets_of(capture, size):
    with open(capture, "rb") as file:
        return [(stamp, data) for stamp, data in datagrams(file) if len(data) == size]


def test_velodyne_packets_give_the_points_of_the_capture(real_data, tmp_path, kind):
    messages = DriverMessages(kind == "ros1")
    packets = packets_of(real_data / VLP16, 1206)
    parts = [packets[k : k + 76] for k in range(0, len(packets), 76)]
    records = [("/velodyne_packets", part[-1][0], messages.velodyne(part)) for part in parts]
    source = roadbed.open(write_bag(tmp_path, kind, messages, records))
    assert (len(source), source.topic, source.sequential) == (len(parts), "/velodyne_packets", False)
    scans, capture = list(source), list(roadbed.open(real_data / VLP16))
    for name in ("points", "intensity", "ring"):
        ours = np.concatenate([getattr(scan, name) for scan in scans])
        np.testing.assert_array_equal(ours, np.concatenate([getattr(scan, name) for scan in capture]))
    for scan, part in zip(scans, parts):
        assert scan.sensor == "velodyne"
        assert scan.time == pytest.approx(part[-1][0], abs=1e-6)  # of the last packet, as in a capture
        assert scan.point_time.min() == pytest.approx(part[0][0] - part[-1][0], abs=0.001)
    np.testing.assert_array_equal(source[1].points, scans[1].points)


@pytest.mark.parametrize("package", ["ouster_ros", "ouster_sensor_msgs"])
def test_ouster_packets_with_metadata_in_the_bag_or_next_to_it(real_data, tmp_path, kind, package):
    messages = DriverMessages(kind == "ros1")
    (scan,) = roadbed.open(real_data / OUSTER)
    text = (real_data / OUSTER).with_suffix(".json").read_text()
    size = max(len(data) for _, data in packets_of_any(real_data / OUSTER))
    packets = packets_of(real_data / OUSTER, size)
    records = [("/ouster/lidar_packets", time, messages.ouster(data, package)) for time, data in packets]
    # The next frame: the same packets with the frame number that follows.
    numbers = {int.from_bytes(data[2:4], "little") for _, data in packets}
    assert len(numbers) == 1
    after = (numbers.pop() + 1).to_bytes(2, "little")
    records += [
        ("/ouster/lidar_packets", time + 0.1, messages.ouster(data[:2] + after + data[4:], package))
        for time, data in packets
    ]
    records.append(("/ouster/imu_packets", packets[0][0], messages.ouster(bytes(48), package)))
    (tmp_path / "inside").mkdir()
    described = [("/ouster/metadata", packets[0][0], messages.text(text)), *records]
    inside = roadbed.open(write_bag(tmp_path / "inside", kind, messages, sorted(described, key=lambda r: r[1])))
    path = write_bag(tmp_path, kind, messages, sorted(records, key=lambda r: r[1]))
    with pytest.raises(
        InputError, match=r"found no metadata of the Ouster, expected a topic /ouster/metadata, drive.json"
    ):
        roadbed.open(path)
    (tmp_path / "named.json").write_text(text)
    named = roadbed.open(path, metadata=tmp_path / "named.json")
    (tmp_path / "drive.json").write_text(text)
    for source in (inside, named, roadbed.open(path)):
        assert (len(source), source.topic) == (2, "/ouster/lidar_packets")
        for k, found in enumerate(source):
            assert (found.sensor, found.name) == ("os_sensor", f"{k:06d}")
            np.testing.assert_array_equal(found.points, scan.points)
            np.testing.assert_array_equal(found.intensity, scan.intensity)
            np.testing.assert_array_equal(found.point_time, scan.point_time)
            assert found.time == pytest.approx(scan.time + 0.1 * k, abs=1e-3)
        np.testing.assert_array_equal(source[-1].points, scan.points)
        assert source.scans.recorded_at(1) == pytest.approx(1e9 * (packets[-1][0] + 0.1), abs=1000)


def test_hesai_packets_give_the_scan_of_a_capture(tmp_path, kind):
    messages = DriverMessages(kind == "ros1")
    distances = np.arange(8 * 32).reshape(8, 32) + 500
    packets = [(100.0 + k, xt32("PandarXT-32", np.arange(8) * 20 + 160 * k, distances, 400 * k)) for k in range(20)]
    path = write_bag(tmp_path, kind, messages, [("/hesai/pandar_packets", 100.5, messages.hesai(packets))])
    (scan,) = roadbed.open(path)
    (expected,) = scans_of_packets(packets, "packets")
    np.testing.assert_array_equal(scan.points, expected.points)
    np.testing.assert_array_equal(scan.point_time, expected.point_time)
    assert (scan.sensor, scan.time, len(scan)) == ("Pandar", 119.0, 20 * 8 * 32)
    angles = "\n".join(f"{k + 1},{15 - k},1.0" for k in range(32))
    (tmp_path / "angles.csv").write_text(angles)
    (turned,) = roadbed.open(path, calibration=tmp_path / "angles.csv")
    bearing = np.arctan2(turned.points[:, 0], turned.points[:, 1]) - np.arctan2(scan.points[:, 0], scan.points[:, 1])
    np.testing.assert_allclose(np.degrees(bearing), 1.0, atol=1e-4)


def packets_of_any(capture):
    with open(capture, "rb") as file:
        return list(datagrams(file))


@pytest.mark.parametrize("package", ["livox_ros_driver", "livox_ros_driver2"])
@pytest.mark.parametrize("frame", ["livox_frame", "livox", "l"])
def test_livox_points_with_their_times(tmp_path, kind, package, frame):
    messages = DriverMessages(kind == "ros1")
    rows = [(1000 * k, 0.5 * k, -0.25 * k, 2.0, k % 256, 16, k % 6) for k in range(301)]
    records = []
    for k in range(2):
        message = messages.livox(100.0 + 0.1 * k, rows[: 301 - k], package)
        message.header.frame_id = frame
        records.append(("/livox/lidar", 100.0 + 0.1 * k, message))
    source = roadbed.open(write_bag(tmp_path, kind, messages, records))
    assert [len(scan) for scan in source] == [301, 300]
    scan, table = source[0], np.array(rows)
    assert (scan.time, scan.sensor) == (100.0, frame)
    np.testing.assert_array_equal(scan.points, table[:, 1:4])
    np.testing.assert_array_equal(scan.intensity, table[:, 4])
    np.testing.assert_array_equal(scan.channels["tag"], table[:, 5])
    np.testing.assert_array_equal(scan.ring, table[:, 6])
    np.testing.assert_allclose(scan.point_time, 1e-9 * table[:, 0])


def test_clouds_come_before_packets_unless_a_topic_is_named(real_data, tmp_path, kind):
    messages = DriverMessages(kind == "ros1")
    packets = packets_of(real_data / VLP16, 1206)[:76]
    records = [
        ("/points", 100.0, messages.cloud(100.0, cloud_bytes(1), 4)),
        ("/velodyne_packets", 101.0, messages.velodyne(packets)),
    ]
    path = write_bag(tmp_path, kind, messages, records)
    assert roadbed.open(path).topic == "/points"
    packed = roadbed.open(path, topic="/velodyne_packets")
    assert len(packed[0]) > 10_000
    both = roadbed.open(path, topic="/points,/velodyne_packets")
    assert [len(scan) for scan in both] == [4, len(packed[0])]
    assert both.scans.cloud(0).width == 4
    assert both.scans.cloud(1) is None


def test_messages_that_are_no_packets_are_refused_with_one_line(tmp_path):
    messages = DriverMessages(True)
    path = write_bag(tmp_path, "ros1", messages, [("/v", 1.0, messages.velodyne([(1.0, bytes(1206))]))])
    with pytest.raises(InputError, match="found 1 packets, none of them Velodyne data packets"):
        roadbed.open(path)[0]
    livox = messages.livox(1.0, [(0, 1.0, 2.0, 3.0, 4, 5, 6)] * 3)
    raw = bytes(messages.store.serialize_ros1(livox, livox.__msgtype__))
    from roadbed.sources.bags.livox import livox_message

    assert len(livox_message(raw, True).points) == 3
    with pytest.raises(InputError, match="CustomMsg: points: found 2, expected 3"):
        livox_message(raw[:-1], True)
    with pytest.raises(InputError, match=r"CustomMsg: frame_id: found .* bytes, expected at most"):
        livox_message(raw[:12] + b"\xff\xff\xff\x7f" + raw[16:], True)
    with pytest.raises(InputError, match="found big-endian CDR"):
        livox_message(b"\0\0" + raw, False)
