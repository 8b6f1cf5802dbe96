# SPDX-License-Identifier: Apache-2.0
"""Topics with the packets of an Ouster, one per message (`/ouster/lidar_packets`), and its metadata in the bag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.sources.bags.transforms import OUSTER_TYPES
from roadbed.sources.in_order import InOrder
from roadbed.sources.sensors.ouster import Ouster, metadata_file, read_metadata, scans_of_packets

if TYPE_CHECKING:
    from roadbed.sources.bags.reader import BagReader

_TEXT_TYPE = "std_msgs/msg/String"
_FRAME = "os_sensor"  # of the driver; packets have no header


class OusterMessages:
    """The scans of an Ouster, each with the recording time (ns) of the packet after which it was complete."""

    def __init__(self, reader: BagReader, topic: str, metadata: Any = None) -> None:
        """`metadata`: the JSON file; None looks for a topic /NAMESPACE/metadata, then for a file next to the bag."""
        self._reader, self._where = reader, f"{reader.path}: {topic}"
        self._links = [link for link in reader.connections if link.topic == topic and link.msgtype in OUSTER_TYPES]
        self._sensor = self._find_metadata(topic, metadata)
        self._scans = InOrder(self._decode, self._where)

    def _find_metadata(self, topic: str, given: Any) -> Ouster:
        name = f"{topic.rpartition('/')[0]}/metadata"
        links = [link for link in self._reader.connections if link.topic == name and link.msgtype == _TEXT_TYPE]
        for _, message in self._reader.messages(links) if given is None else ():
            return read_metadata(str(message.data), f"{self._reader.path}: {name}")
        found = metadata_file(self._reader.path, given)
        if found is None:
            beside = Path(self._reader.path).with_suffix(".json")
            raise InputError(
                f"{self._where}: found no metadata of the Ouster, expected a topic {name}, {beside.name} next to the "
                f"bag, or ?metadata=FILE.json"
            )
        return found

    def __len__(self) -> int:
        return len(self._scans)

    def __iter__(self) -> Iterator[tuple[int, Scan]]:
        return iter(self._scans)

    def __getitem__(self, index: int) -> tuple[int, Scan]:
        return self._scans[index]

    def recorded_at(self, index: int) -> int:
        return self._scans[index][0]

    def cloud(self, index: int) -> None:
        """No PointCloud2."""

    def frames(self) -> list[str]:
        return [_FRAME]

    def _decode(self) -> Iterator[tuple[int, Scan]]:
        packets = ((1e-9 * recorded, message.buf.tobytes()) for recorded, message in self._reader.messages(self._links))
        for scan in scans_of_packets(self._sensor, packets, self._where):
            yield round(1e9 * (scan.time or 0.0)), replace(scan, sensor=_FRAME)
