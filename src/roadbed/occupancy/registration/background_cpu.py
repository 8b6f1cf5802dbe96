# SPDX-License-Identifier: Apache-2.0
"""Numba kernel that finds the background of a scan: a person beside a wall is one component with it, and would never be
registered. The device's: components.cl."""

from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import max, min
from roadbed.occupancy.registration.register_cpu import extent_of, former_cell


@njit(cache=True, nogil=True)
def find_background(first, last, components, prior, rule, background):
    """Mark the cells of components first to last which are too large for a mover that have been static for long, or
    are next to one that has: the returns of a wall fall into one cell or the other."""
    rows, columns = background.shape
    for k in range(first, last):
        cells = components.cells[components.start[k] : components.start[k + 1]]
        if cells.shape[0] <= rule.most_cells and extent_of(cells, columns) <= rule.extent:
            continue
        for cell in cells:
            now_row = cell // columns
            row, column = former_cell(now_row, cell - now_row * columns, prior.transform)
            for r in range(max(row - 1, 0), min(row + 2, rows)):
                for c in range(max(column - 1, 0), min(column + 2, columns)):
                    if prior.maturity[r, c] >= rule.background_time:
                        background[now_row, cell - now_row * columns] = True
