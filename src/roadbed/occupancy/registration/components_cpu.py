# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that draw the bitmap of a scan (see `model.py`), label the components of its hits and list their cells.

The device's: components.cl."""

import numpy as np

from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import U
from roadbed.occupancy.model import CLEAR, HIT, HITS_IN_CELL, OBSERVED, SUBCELLS
from roadbed.occupancy.registration.model import FREE_BIT, NEAR_SHIFT
from roadbed.runtime.components_cpu import label_components

_WEST = sum(1 << SUBCELLS * k for k in range(SUBCELLS))  # a cell's subcells in its first column, as bits
_EAST = _WEST << (SUBCELLS - 1)
_CELL = (1 << SUBCELLS * SUBCELLS) - 1
_ROW = (1 << SUBCELLS) - 1
_LAST_ROW = SUBCELLS * (SUBCELLS - 1)


@njit(inline="always")
def _widen(probability, surface, row, hits, wide):
    """Hit subcells of a row of cells, with an empty cell at both ends, and the same widened by one subcell in x."""
    columns = probability.shape[1]
    for column in range(U(columns)):
        bits = np.int64(surface[row, column])
        hits[column + U(1)] = bits if probability[row, column] > HIT else 0
    for column in range(U(columns)):
        here, west, east = hits[column + U(1)], hits[column], hits[column + U(2)]
        beside = ((here << 1) & (_CELL - _WEST)) | ((here >> 1) & (_CELL - _EAST))
        wide[column] = here | beside | ((west >> (SUBCELLS - 1)) & _WEST) | ((east & _WEST) << (SUBCELLS - 1))


@njit(cache=True, nogil=True)
def draw_bitmap(first, last, observation, bitmap):
    """Hit subcells, those within one subcell of a hit, and free cells, of rows first to last."""
    probability, observedness, surface = observation
    rows, columns = bitmap.shape
    hits, kept = np.zeros(columns + 2, np.int64), np.zeros(columns + 2, np.int64)
    below, here, above = np.zeros(columns, np.int64), np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    if first > 0:
        _widen(probability, surface, first - 1, hits, below)
    _widen(probability, surface, first, kept, here)
    for row in range(first, last):
        if row + 1 < rows:
            _widen(probability, surface, row + 1, hits, above)
        else:
            above[:] = 0
        for column in range(U(columns)):
            free = (probability[row, column] < CLEAR) & (observedness[row, column] > OBSERVED)
            near = here[column] | ((here[column] << SUBCELLS) & _CELL) | (here[column] >> SUBCELLS)
            near |= (below[column] >> _LAST_ROW) | ((above[column] & _ROW) << _LAST_ROW)
            bitmap[row, column] = (np.int64(free) << FREE_BIT) | (near << NEAR_SHIFT) | kept[column + U(1)]
        below, here, above = here, above, below
        hits, kept = kept, hits


@njit(cache=True, nogil=True)
def label_hits(bitmap, background, label):
    """Component number per cell, the one after the last in the background, -1 where nothing was hit; all (rows,
    columns). Returns how many components."""
    hit = np.empty(bitmap.shape, np.bool_)
    for row in range(bitmap.shape[0]):
        for column in range(bitmap.shape[1]):
            hit[row, column] = bitmap[row, column] & HITS_IN_CELL != 0 and not background[row, column]
    count = label_components(hit, label)
    for row in range(bitmap.shape[0]):
        for column in range(bitmap.shape[1]):
            if background[row, column]:
                label[row, column] = count
    return count


@njit(cache=True, nogil=True)
def gather_cells(label, start, cells):
    """Cells by component, in order: component k owns cells[start[k]:start[k + 1]]."""
    flat = label.reshape(-1)
    count = start.shape[0] - 1
    start[:] = 0
    for cell in range(flat.shape[0]):
        if 0 <= flat[cell] < count:
            start[flat[cell] + 1] += 1
    for k in range(count):
        start[k + 1] += start[k]
    # Filling moves each start to the next one, so that they are shifted back afterwards.
    for cell in range(flat.shape[0]):
        k = flat[cell]
        if 0 <= k < count:
            cells[start[k]] = cell
            start[k] += 1
    for k in range(count - 1, 0, -1):
        start[k] = start[k - 1]
    if count > 0:
        start[0] = 0
