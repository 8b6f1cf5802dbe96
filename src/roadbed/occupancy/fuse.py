# SPDX-License-Identifier: Apache-2.0
"""Multi-sensor fusion: the grids of all sensors become one observation grid at the filter's time.

Evidence is used once: a grid's probabilities enter at the first step after its scan. Until the sensor reports again
only its observedness stays, fading with age, so that between two scans its cells still count as watched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.config.occupancy import FusionConfig
from roadbed.errors import ConfigError, InputError
from roadbed.geometry import Float32, Lattice
from roadbed.occupancy import fuse_cpu as cpu
from roadbed.occupancy import model
from roadbed.occupancy.observe import SensorGrid

_RULES = {
    "linear": model.LINEAR,
    "independent": model.INDEPENDENT,
    "logarithmic": model.LOGARITHMIC,
    "dempster": model.DEMPSTER,
}


def fuse(
    probability: ArrayLike,
    observedness: ArrayLike,
    reliability: ArrayLike | None = None,
    age: ArrayLike | None = None,
    rule: str = "linear",
    age_constant: float = 0.2,
    clip: float = 1e-3,
) -> tuple[Float32, Float32]:
    """Pool (sensors, ...) probabilities and observedness; `reliability` and `age` (s) are per sensor."""
    if rule not in _RULES:
        raise ConfigError(f"fusion rule {rule!r}: expected one of {', '.join(_RULES)}")
    p = np.ascontiguousarray(probability, np.float32)
    seen = np.ascontiguousarray(observedness, np.float32)
    if p.shape != seen.shape or p.ndim < 1:
        raise InputError(f"fusion: probabilities have shape {p.shape}, observedness {seen.shape}, expected the same")
    sensors = p.shape[0]
    trust = np.ones(sensors) if reliability is None else np.asarray(reliability, np.float64)
    ages = np.zeros(sensors) if age is None else np.asarray(age, np.float64)
    if trust.shape != (sensors,) or ages.shape != (sensors,):
        raise InputError(f"fusion: expected one reliability and one age for each of the {sensors} sensors")
    trust = trust * np.exp(-np.maximum(ages, 0) / age_constant)
    fused_p, fused_seen = np.empty(p[0].size, np.float32), np.empty(p[0].size, np.float32)
    cpu.pool(
        _RULES[rule], p.reshape(sensors, -1), seen.reshape(sensors, -1), trust, clip, fused_p, fused_seen
    )  # fmt: skip
    return fused_p.reshape(p.shape[1:]), fused_seen.reshape(p.shape[1:])


@dataclass(frozen=True, eq=False)
class FusedGrid:
    """What all sensors say together; the layers of SensorGrid."""

    probability: Float32
    observedness: Float32
    surface: NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class _Remembered:
    grid: SensorGrid
    lattice: Lattice
    fresh: bool


class Fusion:
    """Remembers each sensor's last grid and pools what is new with what still counts as watched."""

    def __init__(self, config: FusionConfig | None = None, clip: float = 0.05) -> None:
        self.config = config or FusionConfig()
        self.clip = clip
        self._sensors: dict[str, _Remembered] = {}

    def reset(self) -> None:
        self._sensors.clear()

    def time_of(self, sensor: str) -> float | None:
        """When a sensor last reported, None if it never did."""
        found = self._sensors.get(sensor)
        return found.grid.time if found else None

    def add(self, grids: Sequence[SensorGrid], lattice: Lattice) -> None:
        """Take new grids; each sensor's older one is replaced."""
        names = [grid.sensor for grid in grids]
        if len(set(names)) < len(names):
            raise InputError(f"fusion: expected one grid per sensor, found sensors {', '.join(names)}")
        for grid in grids:
            self._sensors[grid.sensor] = _Remembered(grid, lattice, True)

    def fused(self, time: float, lattice: Lattice) -> FusedGrid:
        """All sensors on `lattice` at `time`; new grids are used up by this call."""
        fresh = [item for item in self._sensors.values() if item.fresh]
        stale = [item for item in self._sensors.values() if not item.fresh]
        if fresh:
            probability, observedness = fuse(
                [_on(item.grid.probability, item.lattice, lattice, 0.5) for item in fresh],
                [_on(item.grid.observedness, item.lattice, lattice, 0.0) for item in fresh],
                [self._trust(item) for item in fresh],
                [time - item.grid.time for item in fresh],
                self.config.rule,
                self.config.age_constant,
                self.clip,
            )
            surface = np.bitwise_or.reduce([_on(item.grid.surface, item.lattice, lattice, 0) for item in fresh])
        else:
            surface = np.zeros(lattice.shape, np.uint16)
            probability = np.full(lattice.shape, 0.5, np.float32)
            observedness = np.zeros(lattice.shape, np.float32)
        for item in stale:
            age = time - item.grid.time
            if age > self.config.forget or not _aligned(item.lattice, lattice):
                del self._sensors[item.grid.sensor]
                continue
            watched = _on(item.grid.observedness, item.lattice, lattice, 0.0)
            factor = np.float32(self._trust(item) * math.exp(-age / self.config.age_constant))
            observedness = 1 - (1 - observedness) * (1 - factor * watched)
        for item in fresh:
            self._sensors[item.grid.sensor] = replace(item, fresh=False)
        return FusedGrid(probability, observedness, surface)

    def _trust(self, item: _Remembered) -> float:
        return self.config.reliability.get(item.grid.sensor, 1.0)


def _offset(old: Lattice, new: Lattice) -> tuple[float, float]:
    return (new.x0 - old.x0) / old.spacing, (new.y0 - old.y0) / old.spacing


def _aligned(old: Lattice, new: Lattice) -> bool:
    columns, rows = _offset(old, new)
    return (
        old.spacing == new.spacing and abs(columns - round(columns)) < 1e-3 and abs(rows - round(rows)) < 1e-3
    )  # fmt: skip


def _on(layer: NDArray, old: Lattice, new: Lattice, fill: float) -> NDArray:
    """A layer brought to a lattice that differs by whole cells."""
    if old == new:
        return layer
    columns, rows = (round(cells) for cells in _offset(old, new))
    return shifted(layer, columns, rows, fill)


def shifted(layer: NDArray, columns: int, rows: int, fill: float) -> NDArray:
    """The layer as seen from a grid moved by whole cells; cells that enter get `fill`."""
    out = np.full_like(layer, fill)
    height, width = layer.shape
    if abs(columns) < width and abs(rows) < height:
        out[max(0, -rows) : height - max(0, rows), max(0, -columns) : width - max(0, columns)] = layer[
            max(0, rows) : height - max(0, -rows), max(0, columns) : width - max(0, -columns)
        ]
    return out
