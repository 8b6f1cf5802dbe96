# SPDX-License-Identifier: Apache-2.0
"""Scores the estimated elevation against the simulator's terrain or arrays from a folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame
from roadbed.core.geometry import Float64, Grid
from roadbed.evaluate.metrics import ElevationScore
from roadbed.io.arrays import check_numbers, read_array

# Scores the surface of frame number `index`; None where that frame has no truth.
ElevationScorer = Callable[[int, GroundFrame], ElevationScore | None]


@dataclass(frozen=True)
class ReferenceElevation:
    """A folder of .npy arrays indexed [y][x], one per scan in order; 0 or NaN where it is unknown.

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
        grid = Grid(self.x0, self.y0, self.spacing, truth.shape[1], truth.shape[0])
        x, y = grid.mesh()
        height, variance = surface_at(frame, x, y)
        return ElevationScore.of(height, variance, truth, self._supported(frame, grid, truth))

    def _supported(self, frame: GroundFrame, grid: Grid, truth: Float64) -> NDArray[np.bool_]:
        points = frame.points_grid
        node = grid.index(points[:, 0], points[:, 1])
        inside = node >= 0
        close = np.abs(points[inside, 2] - truth.ravel()[node[inside]]) < self.reach
        count = np.bincount(node[inside][close], minlength=grid.size)
        return (count >= self.support).reshape(grid.shape)


@dataclass(frozen=True)
class SimulatedElevation:
    """The simulator's exact terrain at every node within `range_m` of the sensor."""

    source: Any
    range_m: float

    def __call__(self, index: int, frame: GroundFrame) -> ElevationScore | None:
        x, y = frame.grid.mesh()
        truth = self.source.truth(index).elevation(frame.grid, frame.T_grid_sensor)
        centre = frame.T_grid_sensor.translation
        near = np.hypot(x - centre[0], y - centre[1]) <= self.range_m
        return ElevationScore.of(frame.elevation, frame.variance, truth, near)


def surface_at(frame: GroundFrame, x: NDArray, y: NDArray) -> tuple[Float64, Float64]:
    """Height and variance at points of the grid frame; NaN outside, and where the nearest node is unknown.

    The planes of the four nodes around a point are blended: with the nearest alone the surface would have steps.
    """
    grid = frame.grid
    nearest = grid.index(x, y)
    inside = nearest >= 0
    u, v = (x - grid.x0) / grid.spacing, (y - grid.y0) / grid.spacing
    height, weight = np.zeros(np.shape(x)), np.zeros(np.shape(x))
    for column, row in ((np.floor(u) + i, np.floor(v) + j) for i in (0, 1) for j in (0, 1)):
        share = (1 - np.abs(u - column)) * (1 - np.abs(v - row))
        node = grid.index(grid.x0 + column * grid.spacing, grid.y0 + row * grid.spacing)
        slope = frame.slope.reshape(-1, 2)[node]
        away = (u - column) * slope[..., 0] + (v - row) * slope[..., 1]
        plane = frame.elevation.ravel()[node] + grid.spacing * away
        share = np.where((node >= 0) & np.isfinite(plane), share, 0)
        height, weight = height + share * np.nan_to_num(plane), weight + share
    node = np.where(inside, nearest, 0)
    known = inside & np.isfinite(frame.elevation.ravel()[node])
    height = np.where(known, height / np.where(weight > 0, weight, 1), np.nan)
    return height, np.where(inside, frame.variance.ravel()[node], np.nan)
