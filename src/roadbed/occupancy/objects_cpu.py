# SPDX-License-Identifier: Apache-2.0
"""Numba kernels over the few cells and returns of things that move: which belong together, and how far apart."""

from __future__ import annotations

import math

import numpy as np

from roadbed.compute.components_cpu import root_of
from roadbed.compute.kernels import njit
from roadbed.occupancy.model import HIT, SUBCELLS


@njit(cache=True)
def label_components(rows, columns, reach):
    """Component number per cell; cells (sorted by row) at most `reach` rows and columns apart belong together."""
    count = rows.shape[0]
    parent = np.arange(count)
    for i in range(count):
        for j in range(i + 1, count):
            if rows[j] - rows[i] > reach:
                break
            if abs(columns[j] - columns[i]) <= reach:
                parent[root_of(parent, j)] = root_of(parent, i)
    for i in range(count):
        parent[i] = root_of(parent, i)
    return parent


@njit(cache=True)
def returns_of(cells, surface, observation, movable):
    """Places (N, 2) in cells, x first, of the returns from some cells."""
    width = surface.shape[1]
    places = np.empty((cells.shape[0] * SUBCELLS * SUBCELLS, 2), np.float64)
    found = 0
    for k in range(cells.shape[0]):
        row, column = cells[k] // width, cells[k] % width
        if not movable[row, column] or not observation[row, column] > HIT:
            continue
        for bit in range(SUBCELLS * SUBCELLS):
            if (surface[row, column] >> bit) & 1:
                places[found, 0] = column + (bit % SUBCELLS + 0.5) / SUBCELLS - 0.5
                places[found, 1] = row + (bit // SUBCELLS + 0.5) / SUBCELLS - 0.5
                found += 1
    return places[:found].copy()


@njit(cache=True)
def gap_between(one, other):
    """Metres between the nearest of some points (N, 2) and of others."""
    nearest = np.inf
    for i in range(one.shape[0]):
        for j in range(other.shape[0]):
            x, y = one[i, 0] - other[j, 0], one[i, 1] - other[j, 1]
            nearest = min(nearest, x * x + y * y)
    return math.sqrt(nearest)
