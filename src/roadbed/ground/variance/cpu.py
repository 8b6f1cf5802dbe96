# SPDX-License-Identifier: Apache-2.0
"""Engine of the grid-variance method on the CPU."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from roadbed.config.ground import VarianceConfig
from roadbed.core.device_arrays import to_host
from roadbed.core.frames import VarianceCells
from roadbed.core.memory import check_memory
from roadbed.core.timing import timed
from roadbed.ground.engine import FrameOutput
from roadbed.ground.variance.model import lattice_of, output_of
from roadbed.ground.variance.variance_cpu import (
    PHASES,
    SORT_PHASES,
    Cells,
    GridRules,
    SortedHeights,
    classify,
    sort_heights,
)
from roadbed.kernels.parallel import parallel_region
from roadbed.kernels.progress import announce

F = np.float32
_BYTES_PER_CELL = 60  # counts per thread, statistics, the arrays of one returned frame


class VarianceCpu:
    """Buffers that grow with the scans, and calls of the two kernels."""

    def __init__(self, config: VarianceConfig) -> None:
        self.grid = lattice_of(config)
        check_memory(f"ground.variance: {self.grid.size:,} cells", self.grid.size * _BYTES_PER_CELL)
        announce("roadbed.ground.variance")
        limits = config.pointcloud_limits
        self._rules = GridRules(
            np.int32(self.grid.rows),
            np.int32(self.grid.columns),
            F(1 / config.spacing),
            np.array([limits.x_min, limits.x_max, limits.y_min, limits.y_max], F),
            config.point_number_threshold,
            F(config.min_variance_threshold),
            F(config.height_threshold.ground),
        )
        self._count = np.zeros((numba.get_num_threads(), self.grid.size), np.int32)
        self._start = np.zeros(self.grid.size + 1, np.int32)
        self._cell = np.empty(0, np.int32)
        self._heights = np.empty(0, F)

    def frame(self, points: Any) -> FrameOutput:
        points = to_host(points)
        count = len(points)
        if count > len(self._cell):
            self._cell = np.empty(int(count * 1.25) + 1, np.int32)
            self._heights = np.empty(len(self._cell), F)
        label, probability, height = np.empty(count, np.uint8), np.empty(count, F), np.empty(count, F)
        shape, size = self.grid.shape, self.grid.size
        mean, variance, lowest, highest = (np.empty(size, F) for _ in range(4))
        cells = Cells(mean, variance, lowest, highest, np.empty(size, np.bool_))
        heights = SortedHeights(self._start, self._heights, self._cell[:count])
        timings: dict[str, float] = {}
        with timed(timings, "sort"):
            parallel_region(sort_heights, SORT_PHASES, points, self._rules, self._count, heights)
        with timed(timings, "classify"):
            parallel_region(classify, PHASES, points, heights, self._rules, cells, (label, probability, height))
        layers = (layer.reshape(shape) for layer in cells)
        statistics = VarianceCells(self.grid, np.diff(self._start).reshape(shape), *layers)
        return output_of(statistics, (label, probability, height), timings)

    def profile(self, points: Any) -> dict[str, float]:
        return self.frame(points).timings
