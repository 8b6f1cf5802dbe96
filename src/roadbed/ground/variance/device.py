# SPDX-License-Identifier: Apache-2.0
"""Engine of the grid-variance method on an accelerator: one kernel per phase of the report. Labels equal the CPU's."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config.ground import VarianceConfig
from roadbed.core.geometry import Float32
from roadbed.core.timing import timed
from roadbed.core.variance_cells import OccupiedCells, VarianceCells
from roadbed.ground.engine import FrameOutput
from roadbed.ground.variance.model import FRAME, GROUP, SIZE_CLASSES, TILE, lattice_of, program
from roadbed.runtime.backend import Backend
from roadbed.runtime.device_errors import check_points
from roadbed.runtime.graphs import Launch

_BYTES_PER_POINT = 12 + 8 + 4 + 8 + 9


class VarianceDevice:
    """All phases run on the device; nothing is allocated while scans keep their size."""

    def __init__(self, backend: Backend, config: VarianceConfig) -> None:
        self.backend, self.grid = backend, lattice_of(config)
        self._program = backend.build(program(config))
        zeros, cells = backend.zeros, self.grid.size
        self._counts, self._segments = zeros(cells, np.int32), zeros(2 * cells, np.int32)
        self._cursors, self._lists = zeros(SIZE_CLASSES + 2, np.int32), zeros(SIZE_CLASSES * cells, np.int32)
        self._statistics, self._ground = zeros(4 * cells, np.float32), zeros(cells, np.uint8)
        self._frames = backend.staging_buffer(FRAME.itemsize)
        self._occupied = backend.output((1, 1), np.int32)
        self._frame = np.zeros(1, FRAME)
        self.capacity = 0
        self._reserve(4096)

    def _reserve(self, points: int) -> None:
        if points <= self.capacity:
            return
        capacity = -(-max(points + points // 4, 4096) // 4) * 4
        check_points(self.backend.device, points, capacity * _BYTES_PER_POINT)
        zeros, output = self.backend.zeros, self.backend.output
        self._input_buffer = self.backend.input_buffer((capacity, 3), np.float32)
        self._cell_and_rank, self._heights = zeros(2 * capacity, np.int32), zeros(capacity, np.float32)
        self._grouped = zeros(2 * capacity, np.float32)  # padded to powers of two: less than twice the points
        # Label, probability and height.
        self._per_point = [output((1, capacity), kind) for kind in (np.uint8, np.float32, np.float32)]
        listed = min(capacity, self.grid.size)
        self._cells, self._cell_statistics = output((1, listed, 2), np.int32), output((1, listed, 4), np.float32)
        self.capacity = capacity
        self._graph = self.backend.graph(self._program, self._launches())

    def _launches(self) -> list[Launch]:
        """The report's phases in order."""
        device, grid = self.backend.device, self.grid
        spread = (4 if device.lanes > 1 else 16) * device.units  # work-groups that keep the device busy
        over_points = max(1, min(-(-self.capacity // GROUP), spread))
        over_cells = over_tiles = spread
        if device.lanes > 1:
            over_cells, over_tiles = -(-grid.size // GROUP), -(-grid.columns // TILE) * -(-grid.rows // TILE)
        points, results = (self._cell_and_rank, self._heights), (self._statistics, self._ground)
        grouping = (self._segments, self._cursors, self._lists)
        cells = (self._cursors, self._cells.buffer, self._cell_statistics.buffer)
        outputs = (*(output.buffer for output in self._per_point), self._occupied.buffer)
        phases = (
            ("assign", over_points, (self._frames, self._input_buffer, *points, self._counts, self._cursors)),
            ("group_cells", over_cells, (self._counts, *grouping)),
            ("scatter", over_points, (self._frames, *points, self._segments, self._grouped)),
            ("reduce", spread, (self._grouped, *grouping, self._statistics)),
            ("classify", over_tiles, (self._frames, self._segments, *results, *cells)),
            ("label_points", over_points, (self._frames, *points, *results, self._cursors, *outputs)),
        )
        return [Launch(kernel, groups, GROUP, arguments) for kernel, groups, arguments in phases]

    def queue(self, points: Any) -> None:
        self._enqueue_arguments(points)
        self._graph.run()

    def profile(self, points: Any) -> dict[str, float]:
        """Seconds of the transfers and of each kernel; `group_cells` includes the report's prefix sum."""
        timings: dict[str, float] = {}
        with timed(timings, "upload"):
            self._enqueue_arguments(points)
            self.backend.finish()
        timings |= self._graph.timed()
        with timed(timings, "download"):
            self.fetch()
        return timings

    def _enqueue_arguments(self, points: Any) -> None:
        count = int(points.shape[0])
        self._reserve(count)
        frame = self._frame
        frame["points"] = self.backend.bind(points, self._input_buffer)
        frame["count"] = count
        outputs = *self._per_point, self._cells, self._cell_statistics, self._occupied
        for name, output in zip(("label", "probability", "height", "cells", "statistics", "occupied"), outputs):
            frame[name] = output.addresses
        self.backend.enqueue(frame, self._frames)

    def fetch(self) -> None:
        """Wait for the last scan's outputs."""
        fetch, count = self.backend.fetch, int(self._frame["count"][0])
        for output in self._per_point:
            fetch(output, 0, count)
        fetch(self._occupied, 0, 1)
        self.backend.finish()
        occupied = int(self._occupied.host[0, 0])
        fetch(self._cells, 0, 2 * occupied)
        fetch(self._cell_statistics, 0, 4 * occupied)
        self.backend.finish()

    def frame(self, points: Any) -> FrameOutput:
        timings: dict[str, float] = {}
        with timed(timings, "upload"):
            # New host arrays for the results: the caller owns those of the last frame.
            new = self.backend.reallocated([*self._per_point, self._cell_statistics, self._cells])
            *self._per_point, self._cell_statistics, self._cells = new
            self.queue(points)
        with timed(timings, "device"):
            self.fetch()
        label, probability, height = (output.host[0, : int(points.shape[0])] for output in self._per_point)
        listed = slice(int(self._occupied.host[0, 0]))
        found = partial(_unpacked, self._cells.host[0, listed], self._cell_statistics.host[0, listed])
        return FrameOutput(label, probability, height, timings=timings, cells=VarianceCells(self.grid, found))


def _unpacked(cells: NDArray[np.int32], statistics: Float32) -> OccupiedCells:
    """What `classify` lists: the cell, twice its number of points plus whether it is ground, and its heights."""
    cell, counts = cells.T
    mean, variance, lowest, highest = statistics.T
    return OccupiedCells(cell, counts >> 1, mean, variance, lowest, highest, (counts & 1).astype(np.bool_))
