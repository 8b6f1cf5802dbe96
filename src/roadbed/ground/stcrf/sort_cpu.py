# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Points to the lattice frame and, by one stable counting sort, into the order of their nodes."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, F, U, njit, prange


@njit(cache=True, fastmath=FAST)
def _assign(points, rotation, translation, scale, columns, rows, node, count, first, last):
    """Node of each point of a slice, -1 where there is none; `count` gains the points per node."""
    for i in range(U(first), U(last)):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        u = (rotation[0, 0] * x + rotation[0, 1] * y + rotation[0, 2] * z + translation[0]) * scale
        v = (rotation[1, 0] * x + rotation[1, 1] * y + rotation[1, 2] * z + translation[1]) * scale
        w = rotation[2, 0] * x + rotation[2, 1] * y + rotation[2, 2] * z + translation[2]
        # Comparisons with NaN are false; (0, 0, 0) is how sensors write a missing return.
        inside = u >= F(0) and u < columns and v >= F(0) and v < rows and abs(w) < F(1e4)
        if inside and (x != F(0) or y != F(0) or z != F(0)):
            cell = np.int32(v) * columns + np.int32(u)
            node[i] = cell
            count[cell] += 1
        else:
            node[i] = -1


@njit(cache=True, fastmath=FAST)
def _place(points, rotation, translation, spacing, scale, node, count, x_, y_, z_, origin, first, last):
    """Write each point of a slice to its place in node order; x and y relative to the node."""
    half = F(0.5)
    for i in range(U(first), U(last)):
        cell = node[i]
        if cell < 0:
            continue
        place = count[cell]
        count[cell] = place + 1
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        across = rotation[0, 0] * x + rotation[0, 1] * y + rotation[0, 2] * z + translation[0]
        along = rotation[1, 0] * x + rotation[1, 1] * y + rotation[1, 2] * z + translation[1]
        x_[place] = across - (np.floor(across * scale) + half) * spacing
        y_[place] = along - (np.floor(along * scale) + half) * spacing
        z_[place] = rotation[2, 0] * x + rotation[2, 1] * y + rotation[2, 2] * z + translation[2]
        origin[place] = i


@njit(parallel=True, cache=True, fastmath=FAST)
def sort_by_node(points, rotation, translation, spacing, columns, rows, node, count, start, x_, y_, z_, origin):
    """Counting sort. `translation` counts from the lattice's corner; `count` has one row per slice of the points.

    The sort is stable, so the order, and with it every sum, does not depend on the number of slices.
    """
    slices = count.shape[0]
    n = points.shape[0]
    nodes = start.shape[0] - 1
    scale = F(1) / spacing
    for s in prange(slices):
        for c in range(nodes):
            count[s, c] = 0
        _assign(
            points, rotation, translation, scale, columns, rows, node, count[s], s * n // slices, (s + 1) * n // slices
        )
    total = 0
    for cell in range(nodes):
        start[cell] = total
        for s in range(slices):
            here = count[s, cell]
            count[s, cell] = total
            total += here
    start[nodes] = total
    for s in prange(slices):
        first, last = s * n // slices, (s + 1) * n // slices
        _place(points, rotation, translation, spacing, scale, node, count[s], x_, y_, z_, origin, first, last)
    return total
