# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that label the components of a scan's hits, and list the cells of each."""

from __future__ import annotations

import numpy as np

from roadbed.kernels.jit import njit
from roadbed.occupancy.model import HITS_IN_CELL
from roadbed.runtime.components_cpu import label_components


@njit(cache=True)
def label_hits(bitmap, label):
    """Component number per cell, -1 where nothing was hit; both (rows, columns). Returns how many components."""
    hit = np.empty(bitmap.shape, np.bool_)
    for row in range(bitmap.shape[0]):
        for column in range(bitmap.shape[1]):
            hit[row, column] = bitmap[row, column] & HITS_IN_CELL != 0
    return label_components(hit, label)


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
    # Filling moves each start to the next one, so that they are shifted back afterwards.
    for cell in range(flat.shape[0]):
        k = flat[cell]
        if k >= 0:
            cells[start[k]] = cell
            start[k] += 1
    for k in range(count - 1, 0, -1):
        start[k] = start[k - 1]
    if count > 0:
        start[0] = 0
