# SPDX-License-Identifier: Apache-2.0
"""True elevation to hold the estimated surface against: the simulator's, or arrays from a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.errors import InputError
from roadbed.evaluate.metrics import ElevationScore
from roadbed.frames import GroundFrame
from roadbed.geometry import Float64, Lattice
from roadbed.reading.arrays import check_numbers, read_array
from roadbed.sources import Source

# Scores the surface of frame number `index`; None where that frame has no truth.
ElevationJudge = Callable[[int, GroundFrame], ElevationScore | None]


@dataclass(frozen=True)
class ReferenceElevation:
    """A folder of .npy arrays indexed [y][x], one per scan in order; 0 or NaN where the reference knows nothing.

    Only nodes that the scan supports are scored: at least `support` points within `reach` metres of the reference.
    """

    folder: Path
    x0: float
    y0: float
    spacing: float = 1.0
    support: int = 5
    reach: float = 0.2

    def __call__(self, index: int, frame: GroundFrame) -> ElevationScore | None:
        files = sorted(self.folder.glob("*.npy"))
        if not files:
            raise InputError(f"{self.folder}: expected .npy files with true elevation, found none")
        if index >= len(files):
            return None
        truth = check_numbers(read_array(files[index]), str(files[index])).astype(np.float64)
        if truth.ndim != 2:
            raise InputError(f"{files[index]}: expected an array [y][x], found shape {truth.shape}")
        truth[truth == 0] = np.nan
        lattice = Lattice(self.x0, self.y0, self.spacing, truth.shape[1], truth.shape[0])
        x, y = lattice.mesh()
        height, variance = surface_at(frame, x, y)
        return ElevationScore.of(height, variance, truth, self._supported(frame, lattice, truth))

    def _supported(self, frame: GroundFrame, lattice: Lattice, truth: Float64) -> NDArray[np.bool_]:
        points = frame.points_lattice
        node = lattice.index(points[:, 0], points[:, 1])
        inside = node >= 0
        close = np.abs(points[inside, 2] - truth.ravel()[node[inside]]) < self.reach
        count = np.bincount(node[inside][close], minlength=lattice.size)
        return (count >= self.support).reshape(lattice.shape)


@dataclass(frozen=True)
class SimulatedElevation:
    """The simulator's exact terrain at every node within `range_m` of the sensor."""

    source: Any
    range_m: float

    def __call__(self, index: int, frame: GroundFrame) -> ElevationScore | None:
        x, y = frame.lattice.mesh()
        truth = self.source.truth(index).elevation(frame.lattice, frame.T_lattice_sensor)
        centre = frame.T_lattice_sensor.translation
        near = np.hypot(x - centre[0], y - centre[1]) <= self.range_m
        return ElevationScore.of(frame.elevation, frame.variance, truth, near)


def elevation_judge(
    source: Source, folder: Path | None, origin: tuple[float, float], range_m: float
) -> ElevationJudge | None:
    """What elevation can be held against: a folder if given, else the simulator's truth, else nothing."""
    if folder is not None:
        return ReferenceElevation(folder, *origin)
    return SimulatedElevation(source, range_m) if hasattr(source, "truth") else None


def surface_at(frame: GroundFrame, x: NDArray, y: NDArray) -> tuple[Float64, Float64]:
    """Height and variance at any places of the lattice frame, by the plane of the nearest node; NaN outside."""
    lattice = frame.lattice
    node = lattice.index(x, y)
    inside = node >= 0
    node = np.where(inside, node, 0)
    dx = x - lattice.x[node % lattice.columns]
    dy = y - lattice.y[node // lattice.columns]
    slope = frame.slope.reshape(-1, 2)[node]
    height = frame.elevation.ravel()[node] + slope[..., 0] * dx + slope[..., 1] * dy
    variance = frame.variance.ravel()[node]
    return np.where(inside, height, np.nan), np.where(inside, variance, np.nan)
