# SPDX-License-Identifier: Apache-2.0
"""Grid variance on an accelerator, in the report's six phases; labels equal the CPU's on every point."""

from __future__ import annotations

from typing import Any

import numpy as np

from roadbed.compute.backend import Backend, Launch, check_points
from roadbed.config.ground import VarianceConfig
from roadbed.errors import DeviceError
from roadbed.ground.variance.method import GridVariance, VarianceCells, VarianceResult

_GROUP = 256
_TILE = 16
_BYTES_PER_POINT = 12 + 8 + 4 + 8 + 9
_KINDS = 7
_WANTED = 7  # probability, height, cells
_FRAME = np.dtype(
    [
        ("points", np.uint64),
        ("label", np.uint64),
        ("probability", np.uint64),
        ("height", np.uint64),
        ("statistics", np.uint64),
        ("counts", np.uint64),
        ("count", np.int32),
        ("wanted", np.int32),
    ],
    align=True,
)


class GridVarianceDevice(GridVariance):
    """`GridVariance` with every phase on the device; nothing is allocated while scans keep their size."""

    def __init__(self, backend: Backend, config: VarianceConfig) -> None:
        super().__init__(config)
        if not backend.device.has_double:
            raise DeviceError(f"{backend.device.name}: grid variance needs double precision, which this device lacks")
        self.backend = backend
        self.wanted = _WANTED
        cells = self.columns * self.rows
        self._program = backend.build(
            ["ground/variance/variance.cl"], definitions(config, self.rows, self.columns), exact=True
        )
        zeros = backend.zeros
        self._counts, self._segments = zeros(cells, np.int32), zeros(2 * cells, np.int32)
        self._cursors, self._lists = zeros(_KINDS + 1, np.int32), zeros(_KINDS * cells, np.int32)
        self._statistics, self._ground = zeros(4 * cells, np.float32), zeros(cells, np.uint8)
        self._frames = backend.mailbox(_FRAME.itemsize)
        self._cell_statistics = backend.output((1, cells, 4), np.float32)
        self._cell_counts = backend.output((1, cells), np.int32)
        self._frame = np.zeros(1, _FRAME)
        self.capacity = 0
        self._reserve(4096)

    def _reserve(self, points: int) -> None:
        if points <= self.capacity:
            return
        capacity = -(-max(points + points // 4, 4096) // 4) * 4
        check_points(self.backend.device, points, capacity * _BYTES_PER_POINT)
        zeros, output = self.backend.zeros, self.backend.output
        self._intake = self.backend.intake((capacity, 3), np.float32)
        self._cell_and_rank, self._heights = zeros(2 * capacity, np.int32), zeros(capacity, np.float32)
        self._grouped = zeros(2 * capacity, np.float32)  # padded to powers of two: less than twice the points
        self._label = output((1, capacity), np.uint8)
        self._probability, self._height = output((1, capacity), np.float32), output((1, capacity), np.float32)
        self.capacity = capacity
        self._tape = self.backend.tape(self._program, self._launches())

    def _launches(self) -> list[Launch]:
        """The report's phases."""
        device = self.backend.device
        cells = self.columns * self.rows
        over_points = max(1, min(-(-self.capacity // _GROUP), (4 if device.lanes > 1 else 16) * device.units))
        over_cells = -(-cells // _GROUP)
        over_tiles = -(-self.columns // _TILE) * -(-self.rows // _TILE)
        reducing = over_cells if device.lanes == 1 else 4 * device.units
        points, cells_of = (self._cell_and_rank, self._heights), (self._segments, self._statistics)
        return [
            Launch(
                "assign",
                over_points,
                _GROUP,
                (self._frames, self._intake, *points, self._counts, self._cursors),
            ),
            Launch(
                "group_cells",
                over_cells,
                _GROUP,
                (self._counts, self._segments, self._cursors, self._lists, self._statistics),
            ),
            Launch("scatter", over_points, _GROUP, (self._frames, *points, self._segments, self._grouped)),
            Launch(
                "reduce",
                reducing,
                _GROUP,
                (self._grouped, self._segments, self._cursors, self._lists, self._statistics),
            ),
            Launch(
                "classify",
                over_tiles,
                _GROUP,
                (self._frames, *cells_of, self._ground, self._cell_statistics.buffer, self._cell_counts.buffer),
            ),
            Launch(
                "label_points",
                over_points,
                _GROUP,
                (
                    self._frames,
                    *points,
                    self._statistics,
                    self._ground,
                    self._label.buffer,
                    self._probability.buffer,
                    self._height.buffer,
                ),
            ),
        ]

    def queue(self, points: Any, timed: bool = False) -> dict[str, float]:
        """Queue one scan; with `timed`, wait and give seconds per phase."""
        count = int(points.shape[0])
        self._reserve(count)
        frame = self._frame
        frame["points"] = self.backend.offer(points, self._intake)
        frame["count"], frame["wanted"] = count, self.wanted
        for name, output in self._outputs().items():
            frame[name] = output.addresses
        self.backend.post(frame, self._frames)
        if timed:
            return self._tape.timed()
        self._tape.run()
        return {}

    def _outputs(self) -> dict[str, Any]:
        return {
            "label": self._label,
            "probability": self._probability,
            "height": self._height,
            "statistics": self._cell_statistics,
            "counts": self._cell_counts,
        }

    def __call__(self, points: Any, timed: bool = False) -> VarianceResult:
        backend, count = self.backend, int(points.shape[0])
        timings = self.queue(points, timed)
        for output in (self._label, self._probability, self._height):
            backend.fetch(output, 0, count)
        backend.fetch(self._cell_statistics, 0, 4 * self.columns * self.rows)
        backend.fetch(self._cell_counts, 0, self.columns * self.rows)
        backend.finish()
        label, probability, height = (
            output.host[0, :count].copy() for output in (self._label, self._probability, self._height)
        )
        return VarianceResult(label, probability, height, self._cells(), timings)

    def _cells(self) -> VarianceCells:
        shape = self.lattice.shape
        mean, variance, lowest, highest = np.moveaxis(self._cell_statistics.host[0].reshape(*shape, 4), -1, 0).copy()
        counts = self._cell_counts.host[0].reshape(shape)
        return VarianceCells(self.lattice, counts >> 1, mean, variance, lowest, highest, (counts & 1).astype(np.bool_))


def definitions(config: VarianceConfig, rows: int, columns: int) -> dict[str, int | float]:
    """What the kernels know when they are compiled."""
    limits = config.pointcloud_limits
    return {
        "GROUP": _GROUP,
        "COLUMNS": columns,
        "ROWS": rows,
        "CELLS": columns * rows,
        "X_MIN": limits.x_min,
        "X_MAX": limits.x_max,
        "Y_MIN": limits.y_min,
        "Y_MAX": limits.y_max,
        "RESOLUTION": config.grid_resolution,
        "FORWARD_LEFT": config.axes == "forward-left",
        "FEWEST": config.point_number_threshold,
        "LARGEST_VARIANCE": np.float64(config.min_variance_threshold),
        "TOLERANCE": config.height_threshold.ground,
    }
