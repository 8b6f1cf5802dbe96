# SPDX-License-Identifier: Apache-2.0
"""Multi-sensor fusion: the grids of all sensors become one observation grid at the filter's time.

Evidence is used once: a grid's probabilities enter at the first step after its scan. Until the sensor reports again
only its observedness stays, fading with age, so that between two scans its cells still count as watched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadbed.config.occupancy import FusionConfig
from roadbed.errors import ConfigError, InputError
from roadbed.geometry import Float32
from roadbed.occupancy.arrays import Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.fuse_cpu import pool
from roadbed.occupancy.model import DEMPSTER, INDEPENDENT, LINEAR, LOGARITHMIC
from roadbed.occupancy.priors_cpu import interpolate_layers, roll_layers

_RULES = {"linear": LINEAR, "independent": INDEPENDENT, "logarithmic": LOGARITHMIC, "dempster": DEMPSTER}


def fuse(
    probability: ArrayLike,
    observedness: ArrayLike,
    reliability: ArrayLike | None = None,
    rule: str = "linear",
    clip: float = 1e-3,
) -> tuple[Float32, Float32]:
    """Pool (sensors, ...) probabilities and observedness; `reliability` is per sensor."""
    if rule not in _RULES:
        raise ConfigError(f"fusion rule {rule!r}: expected one of {', '.join(_RULES)}")
    p = np.ascontiguousarray(probability, np.float32)
    seen = np.ascontiguousarray(observedness, np.float32)
    if p.shape != seen.shape or p.ndim < 1:
        raise InputError(f"fusion: probabilities have shape {p.shape}, observedness {seen.shape}, expected the same")
    sensors = p.shape[0]
    trust = np.ones(sensors) if reliability is None else np.asarray(reliability, np.float64)
    if trust.shape != (sensors,):
        raise InputError(f"fusion: expected one reliability for each of the {sensors} sensors")
    fused_p, fused_seen = np.empty(p[0].size, np.float32), np.empty(p[0].size, np.float32)
    pool(_RULES[rule], p.reshape(sensors, -1), seen.reshape(sensors, -1), trust, clip, fused_p, fused_seen)
    return fused_p.reshape(p.shape[1:]), fused_seen.reshape(p.shape[1:])


@dataclass(frozen=True, eq=False)
class _Watched:
    """What a sensor last watched, and how the grid has moved since."""

    time: float
    observedness: Float32
    motion: GridMotion


class Fusion:
    """Pools what sensors report now with what silent ones still count as watched."""

    def __init__(self, spacing: float, config: FusionConfig | None = None, clip: float = 0.05) -> None:
        self.config = config or FusionConfig()
        self.spacing, self.clip = spacing, clip
        self._watched: dict[str, _Watched] = {}

    def forget(self) -> None:
        self._watched.clear()

    def move(self, motion: GridMotion) -> None:
        """The grid has moved; what was watched stays where it is."""
        for sensor, item in self._watched.items():
            self._watched[sensor] = _Watched(item.time, item.observedness, item.motion.then(motion))

    def __call__(self, time: float, reports: Mapping[str, Observation]) -> Observation:
        """All sensors together: those that report now, by name, and the silent ones."""
        grids = list(reports.values())
        probability, observedness = fuse(
            [grid.probability for grid in grids],
            [grid.observedness for grid in grids],
            [self._trust(sensor) for sensor in reports],
            self.config.rule,
            self.clip,
        )
        surface = np.bitwise_or.reduce([grid.surface for grid in grids])
        for sensor, item in list(self._watched.items()):
            age = time - item.time
            if sensor in reports:
                continue
            if age > self.config.forget:
                del self._watched[sensor]
                continue
            factor = np.float32(self._trust(sensor) * math.exp(-age / self.config.age_constant))
            observedness = 1 - (1 - observedness) * (1 - factor * self._carried(item))
        for sensor, grid in reports.items():
            self._watched[sensor] = _Watched(time, grid.observedness, GridMotion())
        return Observation(probability, observedness, surface)

    def _carried(self, item: _Watched) -> Float32:
        """What was watched then on the grid of now; taken from the report itself, or many small moves would blur it."""
        layers, motion = item.observedness[None], item.motion
        carried = np.empty_like(layers)
        if motion.cells is not None:
            roll_layers(layers, *motion.cells, carried)
        else:
            interpolate_layers(layers, *motion.between_centres(self.spacing), carried)
        return carried[0]

    def _trust(self, sensor: str) -> float:
        return self.config.reliability.get(sensor, 1.0)
