# SPDX-License-Identifier: Apache-2.0
"""A Hesai sensor on the wire: `hesai:2368?calibration=FILE.csv`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, groupby
from typing import Any, ClassVar

from roadbed.core.frames import Scan
from roadbed.sources.sensors.hesai import GPS_PACKET, model_of, scans_of_packets
from roadbed.sources.sensors.udp import ModelVote, UdpSource, listening_address


class HesaiSource(UdpSource):
    """Scans of a Hesai sensor, cut where its azimuth passes 0."""

    name = "hesai"
    accepts: ClassVar[tuple[str, ...]] = ("calibration",)

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self.listen(*listening_address(self.path, self.name))

    def __iter__(self) -> Iterator[Scan]:
        number = count()
        for _, run in groupby(self._voted_packets(), key=lambda found: found[0]):
            packets = ((stamp, packet) for _, stamp, packet in run)
            for scan in scans_of_packets(packets, self.path, self.options.get("calibration")):
                yield replace(scan, name=f"hesai_{next(number):06d}")

    def _voted_packets(self) -> Iterator[tuple[str, float, bytes]]:
        """Model, time of reading (s) and packet, of the model that most of the last packets have."""
        vote = ModelVote()
        for packet in self._packets:
            model = model_of(packet)
            if model is None:
                if len(packet) != GPS_PACKET:
                    self.ignore(f"{len(packet)} bytes that are no packet of a known Hesai")
                continue
            vote.add(model.name)
            if model.name == vote.model:
                yield model.name, time.time(), packet
            elif vote.model != -1:
                self.ignore(f"from a {model.name}, most are from a {vote.model}")
