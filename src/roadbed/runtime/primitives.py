# SPDX-License-Identifier: Apache-2.0
"""Fill, copy, exclusive scan and stable sort by cell, for any backend."""

from typing import Any

import numpy as np

from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import Launch
from roadbed.runtime.program import Program

PROGRAM = Program(("runtime/collective.cl", "runtime/cell_sort.cl"))
_GROUP = 256
_SCAN_TILE = _GROUP * 8


def _groups(count: int, per_group: int) -> int:
    return max(1, -(-count // per_group))


def build(backend: Backend) -> Any:
    """The program that holds these kernels."""
    return backend.build(PROGRAM)


def scan(values: Any, sums_before: Any, progress: Any, count: int) -> Launch:
    """Exclusive prefix sum of int32 that are not negative; `progress` holds `scan_progress_size(count)` zeros."""
    return Launch("scan", _groups(count, _SCAN_TILE), _GROUP, (values, sums_before, progress, np.int32(count)))


def scan_progress_size(count: int) -> int:
    return 1 + _groups(count, _SCAN_TILE)


def fill(values: Any, value: int, count: int) -> Launch:
    return Launch("fill", min(_groups(count, _GROUP), 1024), _GROUP, (values, np.int32(value), np.int32(count)))


def copy(values: Any, copies: Any, count: int) -> Launch:
    """Four-byte elements from one buffer to another."""
    return Launch("copy", min(_groups(count, _GROUP), 1024), _GROUP, (values, copies, np.int32(count)))


class CellSort:
    """Stable sort of `capacity` items by cell number; order within a cell is the input's."""

    def __init__(self, backend: Backend, capacity: int, cells: int) -> None:
        self.capacity, self._layout = capacity, backend.device.sort_layout
        self._passes = _groups(max(cells - 1, 1).bit_length(), self._layout.bits)
        table = (1 << self._layout.bits) * _groups(capacity, self._layout.tile)
        self._table = backend.zeros(table, np.int32)
        self._progress = backend.zeros(scan_progress_size(table), np.int32)
        self._spare = [(backend.zeros(capacity, np.int32), backend.zeros(capacity, np.int32)) for _ in range(2)]

    def launches(self, cells: Any, items: Any, count: int) -> tuple[list[Launch], Any, Any]:
        """The launches, and the buffers that will hold the sorted cells and items."""
        bits, size, tile = self._layout
        tiles, number = _groups(count, tile), np.int32(count)
        counts = tiles << bits
        cleared = np.int32(scan_progress_size(counts))
        steps: list[Launch] = []
        for turn in range(self._passes):
            shift = np.int32(bits * turn)
            cells_out, items_out = self._spare[turn % 2]
            counted = (cells, self._table, self._progress, cleared, shift, number)
            steps.append(Launch("sort_count", tiles, size, counted))
            steps.append(scan(self._table, self._table, self._progress, counts))
            arguments = (cells, items, self._table, cells_out, items_out, shift, number)
            steps.append(Launch("sort_scatter", tiles, size, arguments))
            cells, items = cells_out, items_out
        return steps, cells, items
