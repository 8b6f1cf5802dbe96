# SPDX-License-Identifier: Apache-2.0
"""Engine of the grid-variance method on the CPU."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from roadbed.config.ground import VarianceConfig
from roadbed.core.device_arrays import to_host
from roadbed.core.memory import check_memory
from roadbed.core.timing import timed
from roadbed.core.variance_cells import OccupiedCells, VarianceCells
from roadbed.ground.engine import FrameOutput
from roadbed.ground.variance.model import lattice_of
from roadbed.ground.variance.variance_cpu import (
    CLASSIFY,
    DESCRIBE,
    LABEL,
    PHASES,
    SORT_PHASES,
    GridRules,
    SortBuffers,
    classify,
    sort_heights,
)
from roadbed.kernels.parallel import parallel_region, thread_count
from roadbed.kernels.progress import announce

F = np.float32
_BYTES_PER_CELL = 60  # counts per thread, and the layers of a frame where they are read
_ONE_CALL = {"classify": (DESCRIBE, PHASES)}  # phases of one call, which wakes the other threads once
_CALL_PER_STEP = {"describe": (DESCRIBE, CLASSIFY), "classify": (CLASSIFY, LABEL), "label_points": (LABEL, PHASES)}
_FEW_POINTS = 8192  # below, waking a second thread takes longer than it saves


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
        self._buffers = self._new_buffers(0)

    def _new_buffers(self, points: int) -> SortBuffers:
        slices, cells = thread_count(), self.grid.size
        return SortBuffers(
            count=np.zeros((slices, cells), np.int32),
            touched=np.empty((slices, points), np.int32),
            touched_count=np.zeros(slices, np.int32),
            number=np.full(cells, -1, np.int32),
            variance=np.full(cells, -1, F),
            occupied=np.empty(points, np.int32),
            start=np.zeros(points + 1, np.int32),
            z=np.empty(points, F),
            place=np.empty(points, np.int32),
            occupied_count=np.zeros(1, np.int32),
        )

    def frame(self, points: Any, steps: Mapping[str, tuple[int, int]] = _ONE_CALL) -> FrameOutput:
        points = to_host(points)
        count, timings = len(points), dict[str, float]()
        if count > len(self._buffers.place):
            self._buffers = self._new_buffers(count + count // 4)
        buffers, single_thread = self._buffers, count < _FEW_POINTS
        with timed(timings, "sort"):
            parallel_region(sort_heights, SORT_PHASES, points, self._rules, buffers, single_thread=single_thread)
        occupied = int(buffers.occupied_count[0])
        cell, counts = buffers.occupied[:occupied].copy(), np.empty(occupied, np.int32)
        mean, variance, lowest, highest = np.empty((4, occupied), F)
        is_ground = np.empty(occupied, np.bool_)
        cells = partial(OccupiedCells, cell, counts, mean, variance, lowest, highest, is_ground)
        labels = np.empty(count, np.uint8), np.empty(count, F), np.empty(count, F)
        given = points, buffers, self._rules, cells(), labels
        for name, (begin, end) in steps.items():
            with timed(timings, name):
                parallel_region(classify, PHASES, begin, end, *given, single_thread=single_thread)
        return FrameOutput(*labels, timings=timings, cells=VarianceCells(self.grid, cells))

    def profile(self, points: Any) -> dict[str, float]:
        """Seconds of the report's four steps: assigning points to cells, statistics, ground cells, labels."""
        return self.frame(points, _CALL_PER_STEP).timings
