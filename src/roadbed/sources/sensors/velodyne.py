# SPDX-License-Identifier: Apache-2.0
"""Velodyne packets by velodyne-decoder: from the wire (`velodyne:2368`), or from a capture (pcap.py)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from roadbed.core.errors import InputError, missing_extra
from roadbed.core.frames import Scan
from roadbed.io.foreign import foreign_errors
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.sensors.udp import UdpSource, listening_address

_FARTHEST_RETURN_M = 1000.0  # the decoder drops returns beyond the sensor's specified range by default
DATA_PACKET, _TELEMETRY_PACKET = 1206, 512  # bytes
_STAMP = slice(1200, 1204)  # microseconds since the full hour
_HOUR = 3_600_000_000
_LONGEST_SILENCE_S = 1.0  # after a longer gap, or when the sensor's clock was set, the clock estimate restarts
_CATCH_UP = 1e-3  # more than clocks differ in speed


def velodyne_decoder(reason: str) -> tuple[Any, Any]:
    """The velodyne_decoder package and its configuration, which keeps every return."""
    try:
        import velodyne_decoder
    except ImportError:
        raise missing_extra("velodyne-decoder", "io", reason) from None
    return velodyne_decoder, velodyne_decoder.Config(min_range=0.0, max_range=_FARTHEST_RETURN_M)


def velodyne_scan(points: Any, where: str, **more: Any) -> Scan:
    return scan_from_fields({name: points[name].copy() for name in points.dtype.names}, where, **more)


class PacketClock:
    """The time at which packets were sent, in this computer's time (s), by the sensor's clock.

    A busy computer reads packets late and in bursts; arrival times would split one revolution in two.
    """

    def __init__(self) -> None:
        self._microseconds, self._time = 0, -math.inf

    def stamp(self, packet: bytes, now: float) -> float:
        """`now`: the time of reading, which is never before the time of sending."""
        microseconds = int.from_bytes(packet[_STAMP], "little")
        elapsed = 1e-6 * ((microseconds - self._microseconds) % _HOUR)
        self._microseconds = microseconds
        expected = self._time + elapsed * (1 + _CATCH_UP)
        self._time = min(expected, now) if elapsed < _LONGEST_SILENCE_S and math.isfinite(expected) else now
        return self._time


class VelodyneSource(UdpSource):
    """Scans of a Velodyne sensor on the wire; `velodyne:192.168.1.100:2368` listens on that interface."""

    name = "velodyne"

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        decoder, config = velodyne_decoder(self.path)
        self._decoder, self._clock = decoder.StreamDecoder(config), PacketClock()
        self.listen(*listening_address(self.path, self.name))

    def __iter__(self) -> Iterator[Scan]:
        number = 0
        for packet in self._packets:
            if len(packet) != DATA_PACKET:
                self.foreign_packets += len(packet) != _TELEMETRY_PACKET
                continue
            turn = None
            with suppress(InputError), foreign_errors(self.path, "Velodyne packet"):
                turn = self._decoder.decode(self._clock.stamp(packet, time.time()), packet, as_pcl_structs=True)
            if turn is not None:
                yield velodyne_scan(
                    turn[1], self.path, time=turn[0].host, name=f"velodyne_{number:06d}", sensor="velodyne"
                )
                number += 1
