# SPDX-License-Identifier: Apache-2.0
"""The last observedness of every sensor, and how the grid has moved since; the same for CPU and devices."""

import math
from collections.abc import Container
from dataclasses import dataclass
from typing import Generic, TypeVar

from roadbed.config.occupancy import FusionConfig
from roadbed.occupancy.engine import GridMotion

Item = TypeVar("Item")


@dataclass(eq=False, slots=True)
class ObservedGrid(Generic[Item]):
    """What a sensor last observed, and how the grid has moved since."""

    time: float
    grid: Item
    motion: GridMotion


class ObservedGrids(Generic[Item]):
    """By sensor: its last report, until it is forgotten."""

    def __init__(self, config: FusionConfig) -> None:
        self.config = config
        self._grids: dict[str, ObservedGrid[Item]] = {}

    def forget(self) -> None:
        self._grids.clear()

    def move(self, motion: GridMotion) -> None:
        """The grid has moved; what was observed stays where it is in the world."""
        for item in self._grids.values():
            item.motion = item.motion.then(motion)

    def silent(self, time: float, reporting: Container[str]) -> list[tuple[float, ObservedGrid[Item]]]:
        """Weight and last observedness of the sensors without a report; those silent for too long are dropped."""
        old = [s for s, item in self._grids.items() if s not in reporting and time - item.time > self.config.forget]
        for sensor in old:
            del self._grids[sensor]
        return [
            (self.reliability(sensor) * math.exp(-(time - item.time) / self.config.age_constant), item)
            for sensor, item in self._grids.items()
            if sensor not in reporting
        ]

    def store(self, time: float, sensor: str, grid: Item) -> None:
        self._grids[sensor] = ObservedGrid(time, grid, GridMotion())

    def grid_of(self, sensor: str) -> Item | None:
        item = self._grids.get(sensor)
        return None if item is None else item.grid

    def grids(self) -> list[Item]:
        return [item.grid for item in self._grids.values()]

    def reliability(self, sensor: str) -> float:
        return self.config.reliability.get(sensor, 1.0)
