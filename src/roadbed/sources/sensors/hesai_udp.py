# SPDX-License-Identifier: Apache-2.0
"""A Hesai sensor on the wire: `hesai:2368?calibration=FILE.csv`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from roadbed.core.frames import Scan
from roadbed.sources.sensors.hesai import GPS_PACKET, model_of, scans_of_packets
from roadbed.sources.sensors.udp import UdpSource, listening_address


class HesaiSource(UdpSource):
    """Scans of a Hesai sensor, cut where its azimuth passes 0."""

    name = "hesai"
    accepts: ClassVar[tuple[str, ...]] = ("calibration",)

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self.listen(*listening_address(self.path, self.name))

    def __iter__(self) -> Iterator[Scan]:
        scans = scans_of_packets(self._known_packets(), self.path, self.options.get("calibration"))
        for number, scan in enumerate(scans):
            yield replace(scan, name=f"hesai_{number:06d}")

    def _known_packets(self) -> Iterator[tuple[float, bytes]]:
        for packet in self._packets:
            if model_of(packet) is not None:
                yield time.time(), packet
            elif len(packet) != GPS_PACKET:
                self.ignore(f"{len(packet)} bytes that are no packet of a known Hesai")
