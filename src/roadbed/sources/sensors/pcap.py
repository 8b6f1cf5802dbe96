# SPDX-License-Identifier: Apache-2.0
"""Velodyne packet captures (`.pcap`) by velodyne-decoder: one scan per turn of the sensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from roadbed.core.errors import InputError, missing_extra
from roadbed.core.frames import Scan
from roadbed.io.files import open_regular
from roadbed.io.foreign import foreign_errors
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.poses import read_poses
from roadbed.sources.source import Source

_MAGIC = {b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d"}
_FARTHEST_RETURN_M = 1000.0


class PcapSource(Source):
    """A capture is decoded from its start, so reading in order is cheap and going back starts over."""

    name = "pcap"
    accepts: ClassVar[tuple[str, ...]] = ("poses",)

    @classmethod
    def matches(cls, location: str) -> bool:
        path = Path(location)
        return path.suffix.lower() == ".pcap" and path.is_file()

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self.file = Path(self.path)
        _check_capture(self.file)
        poses = self.options.get("poses")
        self.trajectory = None if poses is None else read_poses(poses)
        self.sequential = self.trajectory is not None
        if self.trajectory is not None:
            self.trajectory.check_count(len(self))
        self._cursor: Iterator[Scan] = iter(())
        self._next_index = -1

    @cached_property
    def _length(self) -> int:
        return sum(1 for _ in self._decoded())

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
        for index, (stamp, points) in enumerate(self._decoded()):
            fields = {name: points[name].copy() for name in points.dtype.names}
            scan = scan_from_fields(fields, str(self.file), time=stamp, name=f"{self.file.stem}_{index:06d}")
            if self.trajectory is not None:
                scan = replace(scan, T_world_sensor=self.trajectory.of_scan(index, len(self), scan.time))
            yield scan

    def _decoded(self) -> Iterator[tuple[float, Any]]:
        """Stamp of the computer that recorded (s) and points of each turn; every return is kept."""
        try:
            import velodyne_decoder
        except ImportError:
            raise missing_extra("velodyne-decoder", "io", f"reading {self.file}") from None
        turns = 0
        with foreign_errors(self.file, "Velodyne capture"), open_regular(self.file) as capture:
            for turn in velodyne_decoder.read_pcap(capture, decoder_config(), as_pcl_structs=True):
                turns += 1
                yield turn.stamp.host, turn.points
        if not turns:
            raise InputError(f"{self.file}: found no Velodyne data packets, expected packets of 1206 bytes")


def decoder_config() -> Any:
    """Every return is kept, whatever the sensor says about its range."""
    import velodyne_decoder

    return velodyne_decoder.Config(min_range=0.0, max_range=_FARTHEST_RETURN_M)


def _check_capture(file: Path) -> None:
    with open_regular(file) as stream:
        start = stream.read(4)
    if start not in _MAGIC:
        found = f"bytes {start.hex()}" if start else "an empty file"
        raise InputError(f"{file}: found {found}, expected a pcap capture")
