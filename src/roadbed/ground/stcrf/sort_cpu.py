# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Points to the lattice frame and, by one stable counting sort, into the order of their nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.compute.cpu import ONE, F, U, inner, njit
from roadbed.compute.crew import take_next, take_part, wait_for_all
from roadbed.compute.kernels import inlined
from roadbed.compute.lanes import LANES, floor, load_points, splat, store, where
from roadbed.compute.primitives_cpu import along, begin_cells, turn_of
from roadbed.ground.stcrf.model import FARTHEST_HEIGHT

SORT_PHASES = 3
BLOCK = 256  # points that stay in cache


class SortRoom(NamedTuple):
    """Scratch of each slice of the points."""

    count: np.ndarray  # (slices, nodes)
    block: np.ndarray  # (slices, 3, BLOCK) coordinates of the points at hand
    last: np.ndarray  # (slices, LANES, 3) the last points, filled up with missing returns

    @classmethod
    def of(cls, slices: int, nodes: int) -> SortRoom:
        """Of so many slices of points, and nodes."""
        block, last = np.zeros((slices, 3, BLOCK), np.float32), np.zeros((slices, LANES, 3), np.float32)
        return cls(np.zeros((slices, nodes), np.int32), block, last)


@inner()
def _fill_up(points, first, last, out):
    """Fewer points than a vector holds."""
    out[:] = F(0)
    for k in range(last - first):
        out[k, 0], out[k, 1], out[k, 2] = points[first + k, 0], points[first + k, 1], points[first + k, 2]


@inlined()
def _lattice_place(points, first, turn, shape, k, block):
    """Column and row of points, in nodes from the corner; -1 where they are on no node or missing."""
    x, y, z = load_points(points, first)
    scale = F(1) / shape.spacing
    u, v, w = along(turn[0], x, y, z) * scale, along(turn[1], x, y, z) * scale, along(turn[2], x, y, z)
    inside = (u >= F(0)) & (u < F(shape.columns)) & (v >= F(0)) & (v < F(shape.rows))
    # Comparisons with NaN are false; (0, 0, 0) is how sensors write a missing return.
    is_return = (F(0) < x * x + y * y + z * z) & (w < FARTHEST_HEIGHT) & (w > -FARTHEST_HEIGHT)
    store(block, (0, k), where(inside & is_return, u, splat(F(-1))))
    store(block, (1, k), v)


@inlined()
def _node_place(points, first, turn, shape, k, block):
    """x and y of points from the middle of their node, and their height."""
    x, y, z = load_points(points, first)
    spacing, scale = shape.spacing, F(1) / shape.spacing
    u, v = along(turn[0], x, y, z), along(turn[1], x, y, z)
    store(block, (0, k), u - (floor(u * scale) + F(0.5)) * spacing)
    store(block, (1, k), v - (floor(v * scale) + F(0.5)) * spacing)
    store(block, (2, k), along(turn[2], x, y, z))


@inner()
def _assign(points, turn, shape, node, count, room, first, last):
    """Node of each point of a slice, -1 where there is none; `count` gains the points per node."""
    block, columns = room[0], np.int32(shape.columns)
    for begin in range(first, last, BLOCK):
        n = min(BLOCK, last - begin)
        whole = n // LANES * LANES
        for k in range(0, whole, LANES):
            _lattice_place(points, begin + k, turn, shape, k, block)
        if whole < n:
            _fill_up(points, begin + whole, begin + n, room[1])
            _lattice_place(room[1], 0, turn, shape, whole, block)
        for k in range(U(n)):
            cell = np.int32(-1)
            if block[0, k] >= F(0):
                cell = np.int32(block[1, k]) * columns + np.int32(block[0, k])
                count[cell] += 1
            node[U(begin) + k] = cell


@inner()
def _place(points, turn, shape, count, room, out, first, last):
    """Write each point of a slice to its place in node order, x and y relative to the node; keep the place."""
    x_, y_, z_, node, block = out.x, out.y, out.z, out.place, room[0]
    for begin in range(first, last, BLOCK):
        n = min(BLOCK, last - begin)
        whole = n // LANES * LANES
        for k in range(0, whole, LANES):
            _node_place(points, begin + k, turn, shape, k, block)
        if whole < n:
            _fill_up(points, begin + whole, begin + n, room[1])
            _node_place(room[1], 0, turn, shape, whole, block)
        for k in range(U(n)):
            cell = node[U(begin) + k]
            if cell < 0:
                continue
            place = U(count[cell])
            count[cell] += 1
            x_[place], y_[place], z_[place] = block[0, k], block[1, k], block[2, k]
            node[U(begin) + k] = place


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


@njit(nogil=True, cache=True, allocates=False)
def sort_by_node(crew, points, standing, rotation, translation, shape, anchored, room, out):
    """Counting sort. `translation` counts from the lattice's corner; `room` is for as many slices of the points.

    The sort is stable, so the order, and with it every sum, does not depend on the number of slices.
    """
    count, slices, n = room.count, room.count.shape[0], points.shape[0]
    turn = turn_of(rotation, translation)
    for phase in range(SORT_PHASES):
        parts = 1 if phase == 1 else slices
        s = take_part(crew, phase)
        while s < parts:
            first, last = s * n // slices, (s + 1) * n // slices
            if phase == 0:
                count[s, :] = 0
                _assign(points, turn, shape, out.place, count[s], (room.block[s], room.last[s]), first, last)
            elif phase == 1:
                begin_cells(count, out.start)
                _list_nodes(out.start, anchored, shape.columns, out.listed)
            else:
                _place(points, turn, shape, count[s], (room.block[s], room.last[s]), out, first, last)
                _take_along(standing, out, first, min(last, standing.shape[0]))
            s = take_next(crew, phase)
        wait_for_all(crew, phase, parts)
