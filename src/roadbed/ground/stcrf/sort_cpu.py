# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Points to the lattice frame and, by one stable counting sort, into the order of their nodes."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, F, U, njit, prange
from roadbed.ground.stcrf.model import FARTHEST_HEIGHT


@njit(cache=True, fastmath=FAST)
def _assign(points, rotation, translation, shape, node, count, first, last):
    """Node of each point of a slice, -1 where there is none; `count` gains the points per node."""
    scale = F(1) / shape.spacing
    columns, rows = shape.columns, shape.rows
    for i in range(U(first), U(last)):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        u = (rotation[0, 0] * x + rotation[0, 1] * y + rotation[0, 2] * z + translation[0]) * scale
        v = (rotation[1, 0] * x + rotation[1, 1] * y + rotation[1, 2] * z + translation[1]) * scale
        w = rotation[2, 0] * x + rotation[2, 1] * y + rotation[2, 2] * z + translation[2]
        # Comparisons with NaN are false; (0, 0, 0) is how sensors write a missing return.
        inside = u >= F(0) and u < columns and v >= F(0) and v < rows and abs(w) < FARTHEST_HEIGHT
        if inside and (x != F(0) or y != F(0) or z != F(0)):
            cell = np.int32(v) * columns + np.int32(u)
            node[i] = cell
            count[cell] += 1
        else:
            node[i] = -1


@njit(cache=True, fastmath=FAST)
def _place(points, rotation, translation, shape, count, out, first, last):
    """Write each point of a slice to its place in node order; x and y relative to the node."""
    half, spacing = F(0.5), shape.spacing
    scale = F(1) / spacing
    node, x_, y_, z_, origin = out.node, out.x, out.y, out.z, out.origin
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
def sort_by_node(points, rotation, translation, shape, count, out):
    """Counting sort. `translation` counts from the lattice's corner; `count` has one row per slice of the points.

    The sort is stable, so the order, and with it every sum, does not depend on the number of slices.
    """
    slices = count.shape[0]
    n = points.shape[0]
    nodes = out.start.shape[0] - 1
    for s in prange(slices):
        for c in range(nodes):
            count[s, c] = 0
        _assign(points, rotation, translation, shape, out.node, count[s], s * n // slices, (s + 1) * n // slices)
    total = 0
    for cell in range(nodes):
        out.start[cell] = total
        for s in range(slices):
            here = count[s, cell]
            count[s, cell] = total
            total += here
    out.start[nodes] = total
    for s in prange(slices):
        _place(points, rotation, translation, shape, count[s], out, s * n // slices, (s + 1) * n // slices)
    return total
