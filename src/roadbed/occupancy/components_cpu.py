# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that find connected hits on a grid: 8-connected components, numbered by their first cell."""

from __future__ import annotations

from roadbed.compute.kernels import njit
from roadbed.occupancy.model import HITS_IN_CELL


@njit(cache=True, inline="always")
def _root(parent, cell):
    while parent[cell] != cell:
        parent[cell] = parent[parent[cell]]
        cell = parent[cell]
    return cell


@njit(cache=True)
def label_hits(picture, label):
    """Component number per cell, -1 where nothing was hit; both (rows, columns). Returns how many components."""
    rows, columns = picture.shape
    parent = label.reshape(-1)  # first the cell that a hit hangs on, which always comes before it; then the number
    for row in range(rows):
        for column in range(columns):
            cell = row * columns + column
            if picture[row, column] & HITS_IN_CELL == 0:
                parent[cell] = -1
                continue
            parent[cell] = cell
            for k in range(4):  # west, and the three to the south: the cells before this one
                r, c = row - (k > 0), column - 1 + max(k - 1, 0)
                if r < 0 or c < 0 or c >= columns or picture[r, c] & HITS_IN_CELL == 0:
                    continue
                one, other = _root(parent, cell), _root(parent, r * columns + c)
                parent[max(one, other)] = min(one, other)
    count = 0
    for cell in range(parent.shape[0]):
        if parent[cell] == cell:
            parent[cell] = count
            count += 1
        elif parent[cell] >= 0:
            # What it hangs on comes before it, so it is numbered already.
            parent[cell] = parent[parent[cell]]
    return count


@njit(cache=True)
def gather_cells(label, start, cells):
    """Cells by component, in order: component k owns cells[start[k]:start[k + 1]]."""
    flat = label.reshape(-1)
    count = start.shape[0] - 1
    start[:] = 0
    for cell in range(flat.shape[0]):
        if flat[cell] >= 0:
            start[flat[cell] + 1] += 1
    for k in range(count):
        start[k + 1] += start[k]
    # Shift by one while filling, so that `start` ends as the first index again.
    for cell in range(flat.shape[0]):
        k = flat[cell]
        if k >= 0:
            cells[start[k]] = cell
            start[k] += 1
    for k in range(count - 1, 0, -1):
        start[k] = start[k - 1]
    if count > 0:
        start[0] = 0
