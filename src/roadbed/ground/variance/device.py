# SPDX-License-Identifier: Apache-2.0
"""Engine of the grid-variance method on an accelerator: one kernel per phase of the report. Labels equal the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np

from roadbed.config.ground import VarianceConfig
from roadbed.core.errors import DeviceError
from roadbed.core.frames import VarianceCells
from roadbed.core.timing import timed
from roadbed.ground.engine import FrameOutput
from roadbed.ground.variance import model
from roadbed.ground.variance.model import lattice_of, output_of, program
from roadbed.runtime.backend import Backend
from roadbed.runtime.device_errors import check_points
from roadbed.runtime.graphs import Launch

_BYTES_PER_POINT = 12 + 8 + 4 + 8 + 9


class VarianceDevice:
    """All phases run on the device; nothing is allocated while scans keep their size."""

    def __init__(self, backend: Backend, config: VarianceConfig) -> None:
        if not backend.device.has_double:
            raise DeviceError(f"{backend.device.name}: grid variance needs double precision, which this device lacks")
        self.backend, self.grid = backend, lattice_of(config)
        self._program = backend.build(program(config))
        zeros, cells = backend.zeros, self.grid.size
        self._counts, self._segments = zeros(cells, np.int32), zeros(2 * cells, np.int32)
        self._cursors = zeros(model.SIZE_CLASSES + 1, np.int32)
        self._lists = zeros(model.SIZE_CLASSES * cells, np.int32)
        self._statistics, self._ground = zeros(4 * cells, np.float32), zeros(cells, np.uint8)
        self._frames = backend.staging_buffer(model.FRAME.itemsize)
        self._cell_statistics = backend.output((1, 4, cells), np.float32)
        self._cell_counts = backend.output((1, cells), np.int32)
        self._frame = np.zeros(1, model.FRAME)
        self._frame["wanted"] = model.PROBABILITY | model.HEIGHT | model.CELL_LAYERS
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
        self._label = output((1, capacity), np.uint8)
        self._probability, self._height = output((1, capacity), np.float32), output((1, capacity), np.float32)
        self.capacity = capacity
        self._graph = self.backend.graph(self._program, self._launches())

    def _launches(self) -> list[Launch]:
        """The report's phases in order."""
        device, grid = self.backend.device, self.grid
        over_points = max(1, min(-(-self.capacity // model.GROUP), (4 if device.lanes > 1 else 16) * device.units))
        over_cells = -(-grid.size // model.GROUP)
        over_tiles = -(-grid.columns // model.TILE) * -(-grid.rows // model.TILE)
        reducing = over_cells if device.lanes == 1 else 4 * device.units
        points, results = (self._cell_and_rank, self._heights), (self._statistics, self._ground)
        grouping = (self._segments, self._cursors, self._lists, self._statistics)
        cells = (self._cell_statistics.buffer, self._cell_counts.buffer)
        outputs = (self._label.buffer, self._probability.buffer, self._height.buffer)
        phases = (
            ("assign", over_points, (self._frames, self._input_buffer, *points, self._counts, self._cursors)),
            ("group_cells", over_cells, (self._counts, *grouping)),
            ("scatter", over_points, (self._frames, *points, self._segments, self._grouped)),
            ("reduce", reducing, (self._grouped, *grouping)),
            ("classify", over_tiles, (self._frames, self._segments, *results, *cells)),
            ("label_points", over_points, (self._frames, *points, *results, *outputs)),
        )
        return [Launch(kernel, groups, model.GROUP, arguments) for kernel, groups, arguments in phases]

    def queue(self, points: Any) -> None:
        """Queue one scan."""
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
        frame["label"], frame["probability"] = self._label.addresses, self._probability.addresses
        frame["height"] = self._height.addresses
        frame["statistics"], frame["counts"] = self._cell_statistics.addresses, self._cell_counts.addresses
        self.backend.enqueue(frame, self._frames)

    def fetch(self) -> None:
        """Wait for the last scan's outputs."""
        count = int(self._frame["count"][0])
        for output in (self._label, self._probability, self._height):
            self.backend.fetch(output, 0, count)
        self.backend.fetch(self._cell_statistics, 0, 4 * self.grid.size)
        self.backend.fetch(self._cell_counts, 0, self.grid.size)
        self.backend.finish()

    def frame(self, points: Any) -> FrameOutput:
        timings: dict[str, float] = {}
        with timed(timings, "upload"):
            # New host arrays: the caller owns those of the last frame.
            outputs = (self._label, self._probability, self._height, self._cell_statistics)
            self._label, self._probability, self._height, self._cell_statistics = self.backend.reallocated(outputs)
            self.queue(points)
        with timed(timings, "device"):
            self.fetch()
        count = int(points.shape[0])
        label, probability, height = (out.host[0, :count] for out in outputs[:3])
        return output_of(self._cells(), (label, probability, height), timings)

    def _cells(self) -> VarianceCells:
        shape = self.grid.shape
        mean, variance, lowest, highest = self._cell_statistics.host[0].reshape(4, *shape)
        counts = self._cell_counts.host[0].reshape(shape)
        return VarianceCells(self.grid, counts >> 1, mean, variance, lowest, highest, (counts & 1).astype(np.bool_))
