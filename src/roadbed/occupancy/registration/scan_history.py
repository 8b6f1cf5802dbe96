# SPDX-License-Identifier: Apache-2.0
"""What stays of earlier scans, and how the grid has moved since; the same for every machine their grids lie on."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from typing import Generic, TypeVar

from roadbed.config.occupancy import FusionConfig
from roadbed.occupancy.engine import GridMotion

Kept = TypeVar("Kept")
STORED = 8  # scans kept per span at most, however often they come


@dataclass(eq=False, slots=True)
class Watched(Generic[Kept]):
    """What a sensor last watched, and how the grid has moved since, which is brought up to date."""

    time: float
    grid: Kept
    motion: GridMotion


class WatchedGrids(Generic[Kept]):
    """By sensor: its last report, until it is forgotten."""

    def __init__(self, config: FusionConfig) -> None:
        self.config = config
        self._watched: dict[str, Watched[Kept]] = {}

    def forget(self) -> None:
        self._watched.clear()

    def move(self, motion: GridMotion) -> None:
        """The grid has moved; what was watched stays where it is."""
        for item in self._watched.values():
            item.motion = item.motion.then(motion)

    def silent(self, time: float, reporting: Container[str]) -> list[tuple[float, Watched[Kept]]]:
        """What sensors without a report still count for, and what they watched."""
        old = [s for s, item in self._watched.items() if s not in reporting and time - item.time > self.config.forget]
        for sensor in old:
            del self._watched[sensor]
        return [
            (self.trust(sensor) * math.exp(-(time - item.time) / self.config.age_constant), item)
            for sensor, item in self._watched.items()
            if sensor not in reporting
        ]

    def remember(self, time: float, sensor: str, grid: Kept) -> None:
        self._watched[sensor] = Watched(time, grid, GridMotion())

    def grid_of(self, sensor: str) -> Kept | None:
        item = self._watched.get(sensor)
        return None if item is None else item.grid

    def grids(self) -> list[Kept]:
        return [item.grid for item in self._watched.values()]

    def trust(self, sensor: str) -> float:
        return self.config.reliability.get(sensor, 1.0)


@dataclass(eq=False, slots=True)
class Stored(Generic[Kept]):
    """The hits of a scan, how long ago that was, and how the grid has moved since: both are brought up to date."""

    hits: Kept
    age: float  # s
    motion: GridMotion


class StoredScans(Generic[Kept]):
    """The scans of the last moments, of which the youngest that is old enough is laid under the new one."""

    def __init__(self, span: float) -> None:
        self._span = span  # s
        self._scans: list[Stored[Kept]] = []  # the oldest first

    def forget(self) -> None:
        self._scans.clear()

    def grids(self) -> list[Kept]:
        return [one.hits for one in self._scans]

    def old_enough(self, dt: float, motion: GridMotion) -> Stored[Kept] | None:
        """`dt` seconds ago the grid lay `motion` before; what is older than needed is dropped."""
        count = 0
        for one in self._scans:
            one.age += dt
            one.motion = one.motion.then(motion)
            count += one.age >= self._span - 1e-6
        del self._scans[: max(count - 1, 0)]
        return self._scans[0] if count else None

    def youngest(self, span: float) -> Stored[Kept] | None:
        """The last stored scan that is at least `span` seconds old."""
        return next((one for one in reversed(self._scans) if one.age >= span - 1e-6), None)

    def store(self, hits: Kept) -> None:
        """The scan of now, unless the one before it is too young to need another."""
        if not self._scans or self._scans[-1].age >= self._span / STORED:
            self._scans.append(Stored(hits, 0.0, GridMotion()))
