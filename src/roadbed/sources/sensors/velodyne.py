# SPDX-License-Identifier: Apache-2.0
"""Velodyne packets by velodyne-decoder: from a capture (pcap.py), a bag or the wire (udp.py)."""

import math
from typing import Any

from roadbed.core.errors import InputError, needs_extra
from roadbed.core.frames import Scan
from roadbed.sources.fields import scan_from_fields

_FARTHEST_RETURN_M = 1000.0  # the decoder drops returns beyond the sensor's specified range by default
DATA_PACKET = 1206  # bytes
_BLOCKS, _LASERS = range(0, 1200, 100), (0xFF, 0xDD, 0xCC, 0xBB)
_MODEL = 1205  # the byte that names the sensor model
_STAMP = slice(1200, 1204)  # microseconds since the full hour
_HOUR = 3_600_000_000
_LONGEST_SILENCE_S = 1.0  # after a longer gap, or when the sensor's clock was set, the clock estimate restarts
_CATCH_UP = 1e-3  # more than clocks differ in speed


def velodyne_decoder(reason: str) -> tuple[Any, Any]:
    """The velodyne_decoder package and its configuration, which keeps every return."""
    with needs_extra("velodyne-decoder", "io", reason):
        import velodyne_decoder
    return velodyne_decoder, velodyne_decoder.Config(min_range=0.0, max_range=_FARTHEST_RETURN_M)


def scan_of_packets(packets: list[tuple[float, bytes]], where: str, **more: Any) -> Scan:
    """The scan of the data packets of one revolution, with their times (s)."""
    decoder, config = velodyne_decoder(f"reading {where}")
    data = [decoder.VelodynePacket(stamp, packet) for stamp, packet in packets if is_data_packet(packet)]
    if not data:
        raise InputError(f"{where}: found {len(packets)} packets, none of them Velodyne data packets")
    stamp, points = decoder.ScanDecoder(config).decode(decoder.PacketVector(data), as_pcl_structs=True)
    return velodyne_scan(points, where, time=stamp.host, **more)


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


def is_data_packet(packet: bytes) -> bool:
    """Twelve blocks of 100 bytes, each with a mark that names its lasers."""
    return len(packet) == DATA_PACKET and all(packet[k] in _LASERS and packet[k + 1] == 0xEE for k in _BLOCKS)


def model_of(packet: bytes) -> str | None:
    """The sensor that sent a data packet; None for other packets."""
    return f"Velodyne 0x{packet[_MODEL]:02x}" if is_data_packet(packet) else None
