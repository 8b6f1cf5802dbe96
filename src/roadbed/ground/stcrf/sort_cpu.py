# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Points to the lattice frame and, by one stable counting sort, into the order of their nodes."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, ONE, F, U, inner, njit
from roadbed.compute.crew import take_next, take_part, wait_for_all
from roadbed.compute.primitives_cpu import begin_cells
from roadbed.ground.stcrf.model import FARTHEST_HEIGHT

SORT_PHASES = 3


@inner(fastmath=FAST)
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


@inner(fastmath=FAST)
def _place(points, rotation, translation, shape, count, out, first, last):
    """Write each point of a slice to its place in node order, x and y relative to the node; keep the place."""
    half, spacing = F(0.5), shape.spacing
    scale = F(1) / spacing
    x_, y_, z_, node = out.x, out.y, out.z, out.place
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
        node[i] = place


@inner()
def _list_nodes(start, anchored, columns, listed):
    """Nodes that have points, or are anchored."""
    n = 0
    for row in range(listed.row.shape[0] - 1):
        listed.row[row] = n
        for c in range(U(row * columns), U((row + 1) * columns)):
            listed.nodes[n] = c  # written over where it does not count: cheaper than a branch
            n += (start[c + ONE] > start[c]) | (anchored[c] > 0)
    listed.row[listed.row.shape[0] - 1] = n


@inner()
def _take_along(standing, out, first, last):
    """What is known of the points of a slice, to their places."""
    for i in range(first, last):
        if out.place[i] >= 0:
            out.stands[out.place[i]] = standing[i]


@njit(nogil=True, cache=True, allocates=False, fastmath=FAST)
def sort_by_node(crew, points, standing, rotation, translation, shape, anchored, count, out):
    """Counting sort. `translation` counts from the lattice's corner; `count` has one row per slice of the points.

    The sort is stable, so the order, and with it every sum, does not depend on the number of slices.
    """
    slices, n = count.shape[0], points.shape[0]
    for phase in range(SORT_PHASES):
        parts = 1 if phase == 1 else slices
        s = take_part(crew, phase)
        while s < parts:
            first, last = s * n // slices, (s + 1) * n // slices
            if phase == 0:
                count[s, :] = 0
                _assign(points, rotation, translation, shape, out.place, count[s], first, last)
            elif phase == 1:
                begin_cells(count, out.start)
                _list_nodes(out.start, anchored, shape.columns, out.listed)
            else:
                _place(points, rotation, translation, shape, count[s], out, first, last)
                _take_along(standing, out, first, min(last, standing.shape[0]))
            s = take_next(crew, phase)
        wait_for_all(crew, phase, parts)
