# SPDX-License-Identifier: Apache-2.0
"""Messages that hold one scan each: PointCloud2, Livox CustomMsg, and the packets of a revolution (Velodyne, Hesai)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.io.foreign import foreign_errors
from roadbed.sources.bags.livox import POINT_FIELDS, LivoxMessage
from roadbed.sources.bags.pointcloud2 import cloud_fields
from roadbed.sources.bags.transforms import (
    CLOUD_TYPE,
    HESAI_TYPE,
    LIVOX_TYPES,
    VELODYNE_TYPE,
    frame_name,
    stamp_seconds,
)
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.sensors import hesai
from roadbed.sources.sensors.velodyne import scan_of_packets

if TYPE_CHECKING:
    from roadbed.sources.bags.reader import BagReader

SCAN_TYPES = (CLOUD_TYPE, *LIVOX_TYPES, VELODYNE_TYPE, HESAI_TYPE)
_LIDAR = "lidar"  # name of a sensor whose messages name no frame


def scan_of_message(message: Any, where: str, recorded_ns: int, calibration: Any = None) -> Scan:
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

    def __init__(self, reader: BagReader, topics: tuple[str, ...], calibration: Any = None) -> None:
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
        with foreign_errors(self._reader.path, "ROS bag"):
            return sorted(self._reader.stamps(self._links))
