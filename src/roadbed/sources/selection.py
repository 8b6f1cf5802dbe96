# SPDX-License-Identifier: Apache-2.0
"""A part of a source: from one scan on, every so many-th, at most so many, with a mounting given by the user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.sources.registry import Source, is_live

_PER_SCAN = ("truth", "objects")  # what some sources also give for a scan, by its number


class Selection(Source):
    """Scans `numbers` of another source, as `source[10:20]` gives them; their truth and objects come along."""

    def __init__(self, source: Source, numbers: range, T_vehicle_sensor: Pose | None = None) -> None:
        self.location, self.path, self.options = source.location, source.path, source.options
        self.sequential = source.sequential
        self.source, self._T_vehicle_sensor = source, T_vehicle_sensor
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Scan:
        return self._mounted(self.source[self.numbers[index]])

    def __iter__(self) -> Iterator[Scan]:
        if self.numbers == range(len(self.numbers)):  # from the beginning: bags and captures are fastest in one go
            yield from map(self._mounted, islice(self.source, len(self)))
        else:
            yield from super().__iter__()

    def __getattr__(self, name: str) -> Any:
        if name not in _PER_SCAN:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        of_scan = getattr(self.source, name)
        return lambda index: of_scan(self.numbers[index])

    def _mounted(self, scan: Scan) -> Scan:
        if self._T_vehicle_sensor is None:
            return scan
        if scan.mounts:
            raise InputError(f"{self.location}: mounting: found a rig of {len(scan.mounts)} sensors, expected one")
        return replace(scan, T_vehicle_sensor=self._T_vehicle_sensor)


def part_of(
    source: Source,
    start: int = 0,
    stride: int = 1,
    count: int | None = None,
    T_vehicle_sensor: Pose | None = None,
) -> Selection:
    """From scan `start` on every `stride`-th, at most `count` of them; there must be one."""
    if is_live(source):
        raise InputError(f"{source.location}: a part of it: found a live source, expected a recording")
    length = len(source)
    numbers = range(start, length, stride)[:count]
    if not numbers:
        raise InputError(f"{source.location}: start {start}: found {length} scans, expected more than {start}")
    return Selection(source, numbers, T_vehicle_sensor)
