# SPDX-License-Identifier: Apache-2.0
"""Bags of every kind: ROS 1 and SQLite ones as rosbags writes them, MCAP ones record by record."""

import struct
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import lz4.frame
import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.rosbag2.storage_mcap import zstd

from tests.fuzz.clouds import odd
from tests.fuzz.damage import damage
from tests.sources.bags.bag_files import Messages, cloud_bytes, drive_records, write_bag
from tests.sources.bags.test_packet_bags import DriverMessages
from tests.sources.sensors import ouster_files
from tests.sources.sensors.test_hesai import capture
from tests.sources.sensors.test_hesai import packet as hesai_packet

_PROFILE = "RNG19_RFL8_SIG16_NIR16"
_MAGIC = b"\x89MCAP0\r\n"
_PACK = {"": lambda data: data, "lz4": lz4.frame.compress, "zstd": zstd.compress, "gzip": lambda data: data}


@cache
def written(kind: str) -> tuple[bytes, bytes]:
    """The storage file and the metadata of a small drive."""
    messages = Messages(kind == "ros1")
    records = sorted(drive_records(messages, 2), key=lambda record: record[1])
    with tempfile.TemporaryDirectory() as folder:
        path = write_bag(Path(folder), kind, messages, records)
        if kind == "ros1":
            return path.read_bytes(), b""
        (storage,) = [*path.glob("*.mcap"), *path.glob("*.db3")]
        return storage.read_bytes(), (path / "metadata.yaml").read_bytes()


@cache
def serialized(version: int = 2) -> tuple[tuple[str, str, bytes], ...]:
    """Topic, type and bytes of a cloud, an odometry message and a fixed transform."""
    messages = Messages(version == 1)
    serialize = messages.store.serialize_ros1 if version == 1 else messages.store.serialize_cdr
    parts = (
        ("/points", messages.cloud(1.0, cloud_bytes(1), 4)),
        ("/odom", messages.odometry(1.0, 2.0)),
        ("/tf_static", messages.static("base_link", "lidar_top", 1.0)),
    )
    kinds = ((topic, message, message.__msgtype__) for topic, message in parts)
    return tuple((topic, kind, bytes(serialize(message, kind))) for topic, message, kind in kinds)


def wire(version: int) -> Callable[[Random], bytes]:
    """One of these messages as a topic brings it, after a byte that says which."""

    def make(rng: Random) -> bytes:
        number = rng.randrange(len(serialized(version)))
        return bytes([number]) + serialized(version)[number][2]

    return make


def mcap(rng: Random) -> bytes:
    """Header, schemas, channels, messages in chunks or not, summary or not; any of it may be wrong."""
    start = _MAGIC + _record(1, _text(odd(rng, "ros2", "ros1", "")) + _text("lib"))
    body, channels = b"", b""
    for number, (topic, kind, _) in enumerate(serialized(), 1):
        schema = struct.pack("<H", number) + _text(kind) + _text(odd(rng, "ros2msg", "jsonschema")) + _text("int8 a")
        qos = odd(rng, "", "[]", "- {history: 1}", "&a [*a]", "[" * 50)
        pairs = _text("offered_qos_profiles") + _text(qos)
        channel = struct.pack("<HH", odd(rng, number, 0, 9, chance=0.02), number)
        channel += _text(topic) + _text("cdr") + struct.pack("<I", len(pairs)) + pairs
        channels += _record(3, schema) + _record(4, channel)
    for number, (_, _, raw) in enumerate(serialized(), 1):
        data = damage(rng, raw) if rng.random() < 0.3 else raw
        time = odd(rng, 10**9, 0, 2**64 - 1, chance=0.05)
        body += _record(5, struct.pack("<HIQQ", number, 0, time, time) + data)
    if rng.random() < 0.7:
        body = _chunk(rng, channels + body)
    else:
        body = channels + body
    summary = b""
    if rng.random() < 0.5:
        counts = b"".join(struct.pack("<HQ", number, odd(rng, 1, 0, 2**63)) for number in (1, 2, 3))
        statistics = struct.pack("<QHIIIIQQ", 3, 3, 3, 0, 0, 1, 0, 2 * 10**9) + struct.pack("<I", len(counts)) + counts
        summary = channels + _record(11, statistics)
    at = len(start) + len(body) if summary else 0
    end = _record(2, struct.pack("<QQI", odd(rng, at, 1, 2**40, chance=0.05), 0, 0)) + _MAGIC
    return start + body + summary + end


def _chunk(rng: Random, records: bytes) -> bytes:
    compression = odd(rng, rng.choice(("", "lz4", "zstd")), "gzip", chance=0.05)
    packed = _PACK[compression](records)
    if rng.random() < 0.1:
        packed = damage(rng, packed)
    claimed = odd(rng, len(records), 0, 2**40, 10**6)
    stored = odd(rng, len(packed), 0, 2**40, chance=0.05)
    return _record(
        6, struct.pack("<QQQI", 0, 2**62, claimed, 0) + _text(compression) + struct.pack("<Q", stored) + packed
    )


def _text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


def _record(kind: int, body: bytes) -> bytes:
    return struct.pack("<BQ", kind, len(body)) + body


def hesai_packets(rng: Random) -> bytes:
    """Packets of a PandarXT-32, one after the other."""
    distances = np.full((8, 32), 500)
    return b"".join(
        hesai_packet(
            "PandarXT-32", np.arange(8) * 2000 + 16000 * (k % 2), distances, 400 * k, mode=rng.choice((55, 57))
        )
        for k in range(rng.choice((1, 2, 5)))
    )


def hesai_capture(rng: Random) -> bytes:
    whole = hesai_packets(rng)
    return capture([whole[k : k + 1080] for k in range(0, len(whole), 1080)])


def hesai_angles(rng: Random) -> bytes:
    return b"Channel,Elevation,Azimuth\n" + b"".join(
        b"%d,%d,0.5\n" % (k + 1, 15 - k) for k in range(rng.choice((1, 32)))
    )


@cache
def _drivers(version: int) -> DriverMessages:
    return DriverMessages(version == 1)


@cache
def driver_messages(version: int) -> tuple[tuple[str, str, bytes], ...]:
    """Topic, type and bytes of messages of sensor drivers."""
    messages = _drivers(version)
    serialize = messages.store.serialize_ros1 if version == 1 else messages.store.serialize_cdr
    laser = (
        b"".join(struct.pack("<HH", 0xEEFF, 40 * k) + b"\x10\x20\x30" * 32 for k in range(12)) + bytes(4) + b"\x37\x22"
    )
    xt32 = hesai_packets(Random(0))[:1080]
    parts = (
        ("/velodyne_packets", messages.velodyne([(1.0, laser)] * 2)),
        ("/hesai/pandar_packets", messages.hesai([(1.0, xt32)] * 2)),
        ("/livox/lidar", messages.livox(1.0, [(0, 1.0, 2.0, 3.0, 4, 5, 6)] * 9)),
        ("/ouster/metadata", messages.text(ouster_files.metadata(_PROFILE))),
        ("/ouster/lidar_packets", messages.ouster(next(ouster_files.packets(_PROFILE, 1)))),
    )
    return tuple((topic, part.__msgtype__, bytes(serialize(part, part.__msgtype__))) for topic, part in parts)


def driver_bag(version: int) -> Callable[[Random], bytes]:
    """A bag with the messages of one driver, of which some are damaged."""

    def make(rng: Random) -> bytes:
        store = _drivers(version).store
        parts = [rng.choice(driver_messages(version)[:3])] if rng.random() < 0.7 else driver_messages(version)[3:]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / ("drive.bag" if version == 1 else "drive")
            kind: dict[str, Any] = {} if version == 1 else {"version": 9, "storage_plugin": StoragePlugin.MCAP}
            with (Writer1 if version == 1 else Writer2)(path, **kind) as writer:
                for topic, name, raw in parts:
                    link = writer.add_connection(topic, name, typestore=store)
                    for time in (1, 2):
                        writer.write(link, time, damage(rng, raw) if rng.random() < 0.5 else raw)
            return (path if version == 1 else next(path.glob("*.mcap"))).read_bytes()

    return make


def velodyne_capture(rng: Random) -> bytes:
    """Packets of a VLP-16 that turns a little over once."""
    raw = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    azimuth = rng.randrange(36000)
    for number in range(rng.choice((1, 3, 12))):
        blocks = b""
        for _ in range(12):
            blocks += struct.pack("<HH", 0xEEFF, odd(rng, azimuth % 36000, 65535, chance=0.01)) + rng.randbytes(96)
            azimuth += rng.choice((40, 40, 40, 4000))
        factory = struct.pack("<BB", 0x37, odd(rng, 0x22, 0x21, 0x28, 0x63, 0xA1, 0xFF))
        payload = blocks + struct.pack("<I", number * 1327) + factory
        address = struct.pack(">BBHHHBBHII", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0, 1, 2)
        packet = bytes(12) + b"\x08\x00" + address + struct.pack(">HHHH", 2368, 2368, 8 + len(payload), 0) + payload
        length = odd(rng, len(packet), 0, 2**31, chance=0.02)
        raw += struct.pack("<IIII", 100 + number, 1000 * number, length, len(packet)) + packet
    return raw
