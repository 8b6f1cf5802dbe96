# SPDX-License-Identifier: Apache-2.0
"""Multi-sensor fusion: the grids of all sensors become one observation grid at the filter's time.

Evidence is used once: a grid's probabilities enter at the first step after its scan. Until the sensor reports again
only its observedness stays, fading with age, so that between two scans its cells still count as observed.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.config.occupancy import FusionConfig
from roadbed.core.geometry import Float32
from roadbed.kernels.parallel import parallel_for
from roadbed.occupancy.arrays import CHUNK, Observation, Reports
from roadbed.occupancy.fusion.fuse_cpu import fuse_cells, unite
from roadbed.occupancy.fusion.model import DEMPSTER, INDEPENDENT, LINEAR, LOGARITHMIC
from roadbed.occupancy.fusion.observed_grids import ObservedGrid, ObservedGrids
from roadbed.occupancy.hsbof.priors_cpu import interpolate_layers, roll_layers

RULES = {"linear": LINEAR, "independent": INDEPENDENT, "logarithmic": LOGARITHMIC, "dempster": DEMPSTER}


def fuse(
    probability: ArrayLike,
    observedness: ArrayLike,
    reliability: ArrayLike | None = None,
    rule: str = "linear",
    clip: float = 1e-3,
) -> tuple[Float32, Float32]:
    """FusionStep (sensors, ...) probabilities and observedness; `reliability` is per sensor."""
    p, seen = (np.ascontiguousarray(grids, np.float32) for grids in (probability, observedness))
    sensors = p.shape[0]
    weights = np.ones(sensors) if reliability is None else np.asarray(reliability, np.float64)
    fused_p, fused_seen = np.empty(p[0].size, np.float32), np.empty(p[0].size, np.float32)
    given = (RULES[rule], p.reshape(sensors, -1), seen.reshape(sensors, -1), weights, clip)
    parallel_for(fuse_cells, fused_p.size, *given, fused_p, fused_seen, grain=CHUNK)
    return fused_p.reshape(p.shape[1:]), fused_seen.reshape(p.shape[1:])


def _united(surface: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """The subcells that any sensor hit, of (sensors, rows, columns)."""
    if len(surface) == 1:
        return surface[0]
    together = np.empty_like(surface[0])
    parallel_for(unite, together.size, surface.reshape(len(surface), -1), together.reshape(-1), grain=CHUNK)
    return together


class Fusion(ObservedGrids[Float32]):
    """Fuses the reports of a step with the last observedness of silent sensors."""

    def __init__(self, spacing: float, config: FusionConfig | None = None, clip: float = 0.05) -> None:
        super().__init__(config or FusionConfig())
        self.spacing, self.clip = spacing, clip

    def __call__(self, time: float, reports: Reports) -> Observation:
        """All sensors together: those that report now, and the silent ones."""
        reliability = [self.reliability(sensor) for sensor in reports.sensors]
        layers = reports.probability, reports.observedness
        probability, observedness = fuse(*layers, reliability, self.config.rule, self.clip)
        for factor, item in self.silent(time, reports.sensors):
            observedness = 1 - (1 - observedness) * (1 - np.float32(factor) * self._moved(item))
        for sensor, grid in zip(reports.sensors, reports.observedness):
            self.store(time, sensor, grid)
        return Observation(probability, observedness, _united(reports.surface))

    def _moved(self, item: ObservedGrid[Float32]) -> Float32:
        """A sensor's last observedness on the present grid, from the report itself: many small moves would blur it."""
        layers, motion = item.grid[None], item.motion
        moved = np.empty_like(layers)
        if motion.cells is not None:
            parallel_for(roll_layers, layers.shape[1], layers, *motion.cells, moved)
        else:
            parallel_for(interpolate_layers, layers.shape[1], layers, *motion.between_centres(self.spacing), moved)
        return moved[0]
