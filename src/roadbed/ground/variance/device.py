# SPDX-License-Identifier: Apache-2.0
"""Grid variance's engine on an accelerator, in the report's six phases; labels equal the CPU's on every point."""

from __future__ import annotations

from typing import Any

import numpy as np

from roadbed.config.ground import VarianceConfig
from roadbed.core.errors import DeviceError
from roadbed.core.frames import VarianceCells
from roadbed.core.timing import timed
from roadbed.ground.engine import FrameOutput
from roadbed.ground.variance.model import (
    CELLS_WANTED,
    FRAME,
    GROUP,
    HEIGHT,
    KINDS,
    PROBABILITY,
    TILE,
    lattice_of,
    output_of,
    program,
)
from roadbed.runtime.backend import Backend, Output
from roadbed.runtime.device_errors import check_points
from roadbed.runtime.graphs import Launch

_BYTES_PER_POINT = 12 + 8 + 4 + 8 + 9


class VarianceDevice:
    """Every phase on the device; nothing is allocated while scans keep their size."""

    def __init__(self, backend: Backend, config: VarianceConfig) -> None:
        if not backend.device.has_double:
            raise DeviceError(f"{backend.device.name}: grid variance needs double precision, which this device lacks")
        self.backend, self.grid = backend, lattice_of(config)
        self.wanted = PROBABILITY | HEIGHT | CELLS_WANTED
        self._program = backend.build(program(config))
        zeros, cells = backend.zeros, self.grid.size
        self._counts, self._segments = zeros(cells, np.int32), zeros(2 * cells, np.int32)
        self._cursors, self._lists = zeros(KINDS + 1, np.int32), zeros(KINDS * cells, np.int32)
        self._statistics, self._ground = zeros(4 * cells, np.float32), zeros(cells, np.uint8)
        self._frames = backend.staging_buffer(FRAME.itemsize)
        self._cell_statistics = backend.output((1, 4, cells), np.float32)
        self._cell_counts = backend.output((1, cells), np.int32)
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
        self._label = output((1, capacity), np.uint8)
        self._probability, self._height = output((1, capacity), np.float32), output((1, capacity), np.float32)
        self.capacity = capacity
        self._graph = self.backend.graph(self._program, self._launches())

    def _launches(self) -> list[Launch]:
        """The report's phases."""
        device, grid = self.backend.device, self.grid
        over_points = max(1, min(-(-self.capacity // GROUP), (4 if device.lanes > 1 else 16) * device.units))
        over_cells = -(-grid.size // GROUP)
        over_tiles = -(-grid.columns // TILE) * -(-grid.rows // TILE)
        reducing = over_cells if device.lanes == 1 else 4 * device.units
        points, found = (self._cell_and_rank, self._heights), (self._statistics, self._ground)
        listed = (self._segments, self._cursors, self._lists, self._statistics)
        cells = (self._cell_statistics.buffer, self._cell_counts.buffer)
        outputs = (self._label.buffer, self._probability.buffer, self._height.buffer)
        phases = (
            ("assign", over_points, (self._frames, self._input_buffer, *points, self._counts, self._cursors)),
            ("group_cells", over_cells, (self._counts, *listed)),
            ("scatter", over_points, (self._frames, *points, self._segments, self._grouped)),
            ("reduce", reducing, (self._grouped, *listed)),
            ("classify", over_tiles, (self._frames, self._segments, *found, *cells)),
            ("label_points", over_points, (self._frames, *points, *found, *outputs)),
        )
        return [Launch(kernel, groups, GROUP, arguments) for kernel, groups, arguments in phases]

    def queue(self, points: Any) -> None:
        """Queue one scan."""
        self._enqueue_arguments(points)
        self._graph.run()

    def profile(self, points: Any) -> dict[str, float]:
        """Seconds of the transfers and of each kernel; the scan of the report's large groups is in `group_cells`."""
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
        frame["count"], frame["wanted"] = count, self.wanted
        for name, output in self._outputs().items():
            frame[name] = output.addresses
        self.backend.enqueue(frame, self._frames)

    def _outputs(self) -> dict[str, Output]:
        return {
            "label": self._label,
            "probability": self._probability,
            "height": self._height,
            "statistics": self._cell_statistics,
            "counts": self._cell_counts,
        }

    def fetch(self) -> None:
        """Wait for the last scan's outputs."""
        count = int(self._frame["count"][0])
        for output in (self._label, self._probability, self._height):
            self.backend.fetch(output, 0, count)
        if self.wanted & CELLS_WANTED:
            self.backend.fetch(self._cell_statistics, 0, 4 * self.grid.size)
            self.backend.fetch(self._cell_counts, 0, self.grid.size)
        self.backend.finish()

    def frame(self, points: Any) -> FrameOutput:
        timings: dict[str, float] = {}
        with timed(timings, "upload"):
            self._hand_out()
            self.queue(points)
        with timed(timings, "device"):
            self.fetch()
        count = int(points.shape[0])
        outputs = (self._label, self._probability, self._height)
        label, probability, height = (out.host[0, :count] for out in outputs)
        return output_of(self._cells(), (label, probability, height), timings)

    def _hand_out(self) -> None:
        """New memory on the host for what the caller was given of the last frame."""
        given = (self._label, self._probability, self._height, self._cell_statistics)
        self._label, self._probability, self._height, self._cell_statistics = self.backend.reallocated(given)

    def _cells(self) -> VarianceCells:
        shape = self.grid.shape
        mean, variance, lowest, highest = self._cell_statistics.host[0].reshape(4, *shape)
        counts = self._cell_counts.host[0].reshape(shape)
        return VarianceCells(self.grid, counts >> 1, mean, variance, lowest, highest, (counts & 1).astype(np.bool_))
