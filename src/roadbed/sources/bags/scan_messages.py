# SPDX-License-Identifier: Apache-2.0
"""Scans of messages: PointCloud2, Livox CustomMsg and the packets of a revolution (Velodyne, Hesai) hold one each;
Ouster packets come one per message.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadbed.core.errors import InputError, foreign_errors
from roadbed.core.frames import Scan
from roadbed.sources.bags.livox import POINT_FIELDS, LivoxMessage
from roadbed.sources.bags.pointcloud2 import cloud_fields
from roadbed.sources.bags.transforms import frame_name, stamp_seconds
from roadbed.sources.bags.type_names import HESAI_TYPE, OUSTER_TYPES, SCAN_TYPES
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.sensors import hesai, ouster
from roadbed.sources.sensors.velodyne import scan_of_packets
from roadbed.sources.source import InOrder

if TYPE_CHECKING:
    from roadbed.sources.bags.reader import BagReader

_LIDAR = "lidar"  # name of a sensor whose messages name no frame
_OUSTER = "os_sensor"  # the frame of Ouster's driver; packets have no header
_TEXT_TYPE = "std_msgs/msg/String"


def scan_of_message(message: Any, where: str, recorded_ns: int = 0, calibration: Any = None) -> Scan:
    """A scan with every field of the message; its sensor is the frame, its time the stamp or that of the packets."""
    sensor = _sensor(message)
    # Drivers without a clock write zero; then the recording time is used.
    time = stamp_seconds(message.header.stamp) or recorded_ns * 1e-9
    if hasattr(message, "packets"):
        packets = [(stamp_seconds(packet.stamp) or time, _data(packet)) for packet in message.packets]
        if message.__msgtype__ == HESAI_TYPE:
            return replace(hesai.scan_of_packets(packets, where, calibration), sensor=sensor)
        return scan_of_packets(packets, where, sensor=sensor)
    if isinstance(message, LivoxMessage):
        fields = {name: message.points[name].copy() for name in POINT_FIELDS}
        fields["offset_time"] = 1e-9 * fields["offset_time"]  # always nanoseconds
    else:
        fields = cloud_fields(message, where)
    return scan_from_fields(fields, where, time=time, sensor=sensor)


def _data(packet: Any) -> bytes:
    """Some drivers keep a packet in an array of greater size."""
    return packet.data.tobytes()[: getattr(packet, "size", None)]


def _sensor(message: Any) -> str:
    return frame_name(str(message.header.frame_id)) or _LIDAR


class ScanMessages:
    """The scans of one or several topics, with the time of recording (ns), in its order."""

    def __init__(self, reader: "BagReader", topics: tuple[str, ...], calibration: Any = None) -> None:
        self._calibration, self._reader, self._where = calibration, reader, f"{reader.path}: {','.join(topics)}"
        self._topics = {
            topic: [link for link in reader.connections if link.topic == topic and link.msgtype in SCAN_TYPES]
            for topic in topics
        }
        self._links = [link for links in self._topics.values() for link in links]

    def __len__(self) -> int:
        return sum(link.msgcount for link in self._links)

    def __iter__(self) -> Iterator[tuple[int, Scan]]:
        for index, (recorded, message) in enumerate(self._reader.messages(self._links)):
            yield recorded, self._scan(message, index, recorded)

    def __getitem__(self, index: int) -> tuple[int, Scan]:
        return self.recorded_at(index), self._scan(self._message(index), index, self.recorded_at(index))

    def recorded_at(self, index: int) -> int:
        """Recording time (ns) of scan `index`."""
        if index >= len(self._stamps):
            raise InputError(f"{self._where}: found {len(self._stamps)} messages, expected {len(self)}")
        return self._stamps[index]

    def cloud(self, index: int) -> Any:
        """The PointCloud2 of scan `index`; None where the scan came in another message."""
        message = self._message(index)
        return message if hasattr(message, "point_step") else None

    def frames(self) -> list[str]:
        """The frame of the first message of each topic."""
        firsts = [next(self._reader.messages(links), (0, None))[1] for links in self._topics.values()]
        return [_LIDAR if message is None else _sensor(message) for message in firsts]

    def _message(self, index: int) -> Any:
        stamp = self.recorded_at(index)
        earlier_with_same_stamp = index - bisect_left(self._stamps, stamp)
        found = islice(self._reader.messages(self._links, stamp, stamp + 1), earlier_with_same_stamp, None)
        for _, message in found:
            return message
        raise InputError(f"{self._where}: message {index} is gone, expected {len(self)} messages")

    def _scan(self, message: Any, index: int, recorded: int) -> Scan:
        where = f"{self._where} message {index}"
        with foreign_errors(where, type(message).__name__.split("__")[-1]):
            return scan_of_message(message, where, recorded, self._calibration)

    @cached_property
    def _stamps(self) -> list[int]:
        return sorted(stamp for _, stamp, _ in self._reader.raw_messages(self._links))


class OusterMessages(InOrder[tuple[int, Scan]]):
    """The scans of an Ouster, each with the recording time (ns) of the packet after which it was complete."""

    def __init__(self, reader: "BagReader", topic: str, metadata: Any = None) -> None:
        """`metadata`: the JSON file; None looks for a topic /NAMESPACE/metadata, then for a file next to the bag."""
        super().__init__(self._decode, f"{reader.path}: {topic}")
        self._reader = reader
        self._links = [link for link in reader.connections if link.topic == topic and link.msgtype in OUSTER_TYPES]
        self._sensor = self._find_metadata(topic, metadata)

    def _find_metadata(self, topic: str, given: Any) -> ouster.Ouster:
        name = f"{topic.rpartition('/')[0]}/metadata"
        links = [link for link in self._reader.connections if link.topic == name and link.msgtype == _TEXT_TYPE]
        for _, message in self._reader.messages(links) if given is None else ():
            return ouster.read_metadata(str(message.data), f"{self._reader.path}: {name}")
        found = ouster.metadata_file(self._reader.path, given)
        if found is None:
            beside = Path(self._reader.path).with_suffix(".json")
            raise InputError(
                f"{self._where}: found no metadata of the Ouster, expected a topic {name}, {beside.name} next to the "
                f"bag, or ?metadata=FILE.json"
            )
        return found

    def recorded_at(self, index: int) -> int:
        return self[index][0]

    def cloud(self, index: int) -> None:
        """No PointCloud2."""

    def frames(self) -> list[str]:
        return [_OUSTER]

    def _decode(self) -> Iterator[tuple[int, Scan]]:
        packets = ((1e-9 * recorded, message.buf.tobytes()) for recorded, message in self._reader.messages(self._links))
        for scan in ouster.scans_of_packets(self._sensor, packets, self._where):
            yield round(1e9 * (scan.time or 0.0)), replace(scan, sensor=_OUSTER)
