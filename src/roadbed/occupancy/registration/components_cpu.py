# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that find connected hits on a grid, and the cells of each."""

from __future__ import annotations

import numpy as np

from roadbed.kernels.jit import njit
from roadbed.occupancy.model import HITS_IN_CELL
from roadbed.runtime.components_cpu import label_components


@njit(cache=True)
def label_hits(picture, label):
    """Component number per cell, -1 where nothing was hit; both (rows, columns). Returns how many components."""
    hit = np.empty(picture.shape, np.bool_)
    for row in range(picture.shape[0]):
        for column in range(picture.shape[1]):
            hit[row, column] = picture[row, column] & HITS_IN_CELL != 0
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
