# SPDX-License-Identifier: Apache-2.0
"""A Velodyne sensor on the wire: `velodyne:2368`, or `velodyne:192.168.1.100:2368` to listen beyond this machine."""

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
from roadbed.sources.sensors.pcap import decoder_config
from roadbed.sources.sensors.udp import UdpSource, listening_address

_DATA_PACKET, _TELEMETRY_PACKET = 1206, 512  # bytes
_STAMP = slice(1200, 1204)  # microseconds since the full hour
_HOUR = 3_600_000_000
_LONGEST_SILENCE_S = 1.0  # after which, or when the sensor's clock was set, it is followed anew
_CATCH_UP = 1e-3  # more than clocks differ in speed


class PacketClock:
    """When packets were sent, in this computer's time (s) by the sensor's clock.

    A busy computer reads them late and in bursts, and a turn with a gap in its time would be taken for two.
    """

    def __init__(self) -> None:
        self._microseconds, self._time = 0, -math.inf

    def stamp(self, packet: bytes, now: float) -> float:
        """`now`: when it is read, which is never before it was sent."""
        microseconds = int.from_bytes(packet[_STAMP], "little")
        elapsed = 1e-6 * ((microseconds - self._microseconds) % _HOUR)
        self._microseconds = microseconds
        followed = self._time + elapsed * (1 + _CATCH_UP)
        self._time = min(followed, now) if elapsed < _LONGEST_SILENCE_S and math.isfinite(followed) else now
        return self._time


class VelodyneSource(UdpSource):
    """Scans of a Velodyne sensor, put together from its packets."""

    name = "velodyne"

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        try:
            import velodyne_decoder
        except ImportError:
            raise missing_extra("velodyne-decoder", "io", self.path) from None
        self._decoder = velodyne_decoder.StreamDecoder(decoder_config())
        self._clock = PacketClock()
        self.listen(*listening_address(self.path, self.name))

    def __iter__(self) -> Iterator[Scan]:
        for number, (stamp, points) in enumerate(self._turns()):
            fields = {name: points[name].copy() for name in points.dtype.names}
            yield scan_from_fields(fields, self.path, time=stamp, name=f"velodyne_{number:06d}", sensor="velodyne")

    def _turns(self) -> Iterator[tuple[float, Any]]:
        """Stamp of this computer (s) and points of each turn."""
        for packet in self._packets:
            if len(packet) != _DATA_PACKET:
                self.foreign_packets += len(packet) != _TELEMETRY_PACKET
                continue
            with suppress(InputError), foreign_errors(self.path, "Velodyne packet"):
                turn = self._decoder.decode(self._clock.stamp(packet, time.time()), packet, as_pcl_structs=True)
                if turn is not None:
                    yield turn[0].host, turn[1]
