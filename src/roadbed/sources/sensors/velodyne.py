# SPDX-License-Identifier: Apache-2.0
"""Velodyne packets by velodyne-decoder: from a capture (`drive.pcap`) or from the wire (`velodyne:2368`)."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from roadbed.core.errors import InputError, missing_extra
from roadbed.core.frames import Scan
from roadbed.io.files import open_regular
from roadbed.io.foreign import foreign_errors
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.poses import read_poses
from roadbed.sources.sensors.udp import UdpSource, listening_address
from roadbed.sources.source import Source

_PCAP_MAGIC = {b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d"}
_FARTHEST_RETURN_M = 1000.0  # the decoder drops returns beyond the sensor's specified range by default
_DATA_PACKET, _TELEMETRY_PACKET = 1206, 512  # bytes
_BLOCKS, _LASERS = range(0, 1200, 100), (0xFF, 0xDD, 0xCC, 0xBB)
_MODEL = 1205  # the byte that names the sensor model
_VOTES = 32  # packets, of which more than half decide on the model: 42 ms of a VLP-16
_STAMP = slice(1200, 1204)  # microseconds since the full hour
_HOUR = 3_600_000_000
_LONGEST_SILENCE_S = 1.0  # after a longer gap, or when the sensor's clock was set, the clock estimate restarts
_CATCH_UP = 1e-3  # more than clocks differ in speed


def _decoder(reason: str) -> tuple[Any, Any]:
    """The velodyne_decoder module and its configuration, which keeps every return."""
    try:
        import velodyne_decoder
    except ImportError:
        raise missing_extra("velodyne-decoder", "io", reason) from None
    return velodyne_decoder, velodyne_decoder.Config(min_range=0.0, max_range=_FARTHEST_RETURN_M)


def _scan(points: Any, where: str, **more: Any) -> Scan:
    return scan_from_fields({name: points[name].copy() for name in points.dtype.names}, where, **more)


class PcapSource(Source):
    """A capture is decoded from its start: reading in order is cheap, going back starts over."""

    name = "pcap"
    accepts: ClassVar[tuple[str, ...]] = ("poses",)

    @classmethod
    def matches(cls, location: str) -> bool:
        path = Path(location)
        return path.suffix.lower() == ".pcap" and path.is_file()

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self.file = Path(self.path)
        with open_regular(self.file) as stream:
            start = stream.read(4)
        if start not in _PCAP_MAGIC:
            found = f"bytes {start.hex()}" if start else "an empty file"
            raise InputError(f"{self.file}: found {found}, expected a pcap capture")
        poses = self.options.get("poses")
        self.trajectory = None if poses is None else read_poses(poses)
        self.sequential = self.trajectory is not None
        if self.trajectory is not None:
            self.trajectory.check_count(len(self))
        self._cursor: Iterator[Scan] = iter(())
        self._next_index = -1

    @cached_property
    def _length(self) -> int:
        return sum(1 for _ in self._revolutions())

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Scan:
        index = range(len(self))[index]
        if self._next_index < 0 or index < self._next_index:
            self._cursor, self._next_index = iter(self), 0
        for scan in self._cursor:
            self._next_index += 1
            if self._next_index == index + 1:
                return scan
        raise InputError(f"{self.file}: scan {index}: the file ends before it, expected {len(self)} scans")

    def __iter__(self) -> Iterator[Scan]:
        for index, (stamp, points) in enumerate(self._revolutions()):
            scan = _scan(points, str(self.file), time=stamp, name=f"{self.file.stem}_{index:06d}")
            if self.trajectory is not None:
                scan = replace(scan, T_world_sensor=self.trajectory.of_scan(index, len(self), scan.time))
            yield scan

    def _revolutions(self) -> Iterator[tuple[float, Any]]:
        """Time by the recording computer (s) and points of each revolution."""
        decoder, config = _decoder(f"reading {self.file}")
        count = 0
        with foreign_errors(self.file, "Velodyne capture"), open_regular(self.file) as capture:
            for turn in decoder.read_pcap(capture, config, as_pcl_structs=True):
                count += 1
                yield turn.stamp.host, turn.points
        if not count:
            raise InputError(f"{self.file}: found no Velodyne data packets, expected packets of {_DATA_PACKET} bytes")


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


class ModelVote:
    """The sensor model that most of the last packets name; packets of other models are not decoded.

    The decoder keeps the model of its first packet, so one foreign packet would silence it.
    """

    def __init__(self) -> None:
        self.model = -1
        self._recent = deque[int](maxlen=_VOTES)

    def add(self, packet: bytes) -> bool:
        """Whether the model has changed by this packet; no model is chosen before the first full count."""
        self._recent.append(packet[_MODEL])
        model, votes = Counter(self._recent).most_common(1)[0]
        if len(self._recent) < _VOTES or model == self.model or 2 * votes <= _VOTES:
            return False
        self.model = model
        return True


def is_data_packet(packet: bytes) -> bool:
    """Twelve blocks of 100 bytes, each with a mark that names its lasers."""
    return len(packet) == _DATA_PACKET and all(packet[k] in _LASERS and packet[k + 1] == 0xEE for k in _BLOCKS)


class VelodyneSource(UdpSource):
    """Scans of a Velodyne sensor on the wire; `velodyne:192.168.1.100:2368` listens on that interface."""

    name = "velodyne"

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        decoder, config = _decoder(self.path)
        self._new_decoder = partial(decoder.StreamDecoder, config)
        self.listen(*listening_address(self.path, self.name))

    def __iter__(self) -> Iterator[Scan]:
        for number, (stamp, points) in enumerate(self._revolutions()):
            yield _scan(points, self.path, time=stamp, name=f"velodyne_{number:06d}", sensor="velodyne")

    def _revolutions(self) -> Iterator[tuple[float, Any]]:
        clock, vote, decoder = PacketClock(), ModelVote(), None
        waiting = deque[tuple[float, bytes]](maxlen=_VOTES)  # until the model is known
        for packet in self._packets:
            if not is_data_packet(packet):
                if len(packet) != _TELEMETRY_PACKET:
                    self.ignore(f"{len(packet)} bytes that are no Velodyne packet")
                continue
            waiting.append((clock.stamp(packet, time.time()), packet))
            if vote.add(packet):
                decoder = self._new_decoder()
            while decoder is not None and waiting:
                stamp, oldest = waiting.popleft()
                if oldest[_MODEL] != vote.model:
                    self.ignore(f"from sensor model 0x{oldest[_MODEL]:02x}, most are from 0x{vote.model:02x}")
                    continue
                turn = None
                try:
                    with foreign_errors(self.path, "Velodyne packet"):
                        turn = decoder.decode(stamp, oldest, as_pcl_structs=True)
                except InputError as error:
                    self.ignore(str(error))
                if turn is not None:
                    yield turn[0].host, turn[1]
