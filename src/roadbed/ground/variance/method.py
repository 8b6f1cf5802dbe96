# SPDX-License-Identifier: Apache-2.0
"""Grid variance: cells whose heights vary little are ground, and so are their points near the mean height."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roadbed.compute.compilation import announce
from roadbed.config.ground import VarianceConfig
from roadbed.geometry import Float32, Lattice, Pose
from roadbed.ground.variance.variance_cpu import classify, sort_heights

F = np.float32


@dataclass(frozen=True, eq=False)
class VarianceCells:
    """Statistics of the cells, arrays of shape (rows, columns); heights in m, NaN where a cell is empty."""

    lattice: Lattice
    count: NDArray[np.int32]
    mean: Float32
    variance: Float32
    lowest: Float32
    highest: Float32
    ground: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class VarianceResult:
    label: NDArray[np.uint8]
    ground_probability: Float32
    height_above_ground: Float32
    cells: VarianceCells
    timings: dict[str, float]


class GridVariance:
    """The method of the report, in its axes: x right, y front, z up."""

    def __init__(self, config: VarianceConfig) -> None:
        import numba

        announce((sort_heights, classify))
        self.config = config
        limits, resolution = config.pointcloud_limits, config.grid_resolution
        # Counted in float32, as the points are: 100 m / 0.3 m is 333.33 cells, so 334.
        self.columns = math.ceil((limits.x_max - limits.x_min) / resolution)
        self.rows = math.ceil((limits.y_max - limits.y_min) / resolution)
        half = resolution / 2
        self.lattice = Lattice(limits.x_min + half, limits.y_min + half, resolution, self.columns, self.rows)
        self._limits = np.array([limits.x_min, limits.x_max, limits.y_min, limits.y_max], F)
        cells = self.columns * self.rows
        self._count = np.zeros((numba.get_num_threads(), cells), np.int32)
        self._start = np.zeros(cells + 1, np.int32)
        self._cell = np.empty(0, np.int32)
        self._heights = np.empty(0, F)

    @property
    def T_lattice_sensor(self) -> Pose:
        """From the axes of the given points to the report's."""
        if self.config.axes == "right-front":
            return Pose.identity()
        return Pose(np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), np.zeros(3))

    def __call__(self, points: Float32) -> VarianceResult:
        config = self.config
        if len(points) > len(self._cell):
            self._cell = np.empty(int(len(points) * 1.25) + 1, np.int32)
            self._heights = np.empty(len(self._cell), F)
        label = np.empty(len(points), np.uint8)
        probability, height = np.empty(len(points), F), np.empty(len(points), F)
        shape = self.lattice.shape
        mean, variance, lowest, highest = (np.empty(shape, F) for _ in range(4))
        ground = np.empty(shape, np.bool_)
        begin = time.perf_counter()
        sort_heights(
            points,
            config.axes == "forward-left",
            self._limits,
            F(config.grid_resolution),
            np.int32(self.columns),
            self._cell[: len(points)],
            self._count,
            self._start,
            self._heights,
        )
        sorted_ = time.perf_counter()
        classify(
            points,
            self._cell[: len(points)],
            self._start,
            self._heights,
            self.columns,
            self.rows,
            config.point_number_threshold,
            config.min_variance_threshold,
            F(config.height_threshold.ground),
            mean.reshape(-1),
            variance.reshape(-1),
            lowest.reshape(-1),
            highest.reshape(-1),
            ground.reshape(-1),
            label,
            probability,
            height,
        )
        end = time.perf_counter()
        count = np.diff(self._start).reshape(shape)
        cells = VarianceCells(self.lattice, count, mean, variance, lowest, highest, ground)
        return VarianceResult(label, probability, height, cells, {"sort": sorted_ - begin, "classify": end - sorted_})
