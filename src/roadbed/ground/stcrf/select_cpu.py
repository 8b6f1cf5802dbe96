# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Fine columns inside each node: which points may shape the surface, and the lowest ones for the coarse start."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, F, U, njit, prange

PAD = 8
ANCHORS = 4  # points per node under the vehicle
COLUMN = np.uint16(0x3FFF)  # bits of a point's `column` that number it inside its node
WALL = np.uint16(0x8000)  # set where the column holds a vertical structure
LEFT_OUT = np.uint16(0x4000)  # set while selecting
_FAR_ABOVE = F(1e3)  # m: weight zero in the E-step


@njit(cache=True)
def reserve(start, limit, anchored, reserved):
    """`reserved[c]`: where the points of node c that shape the surface are kept; returns the total."""
    nodes = start.shape[0] - 1
    total = 0
    for c in range(nodes):
        reserved[c] = total
        n = start[c + 1] - start[c]
        if limit > 0:
            n = min(n, limit)
        if anchored[c]:
            n += ANCHORS
        total += (n + PAD - 1) // PAD * PAD
    reserved[nodes] = total
    return total


@njit(inline="always")
def _column(x, y, half, scale, side):
    column = min(max(np.int32((x + half) * scale), np.int32(0)), side - np.int32(1))
    row = min(max(np.int32((y + half) * scale), np.int32(0)), side - np.int32(1))
    return row * side + column


@njit(cache=True, fastmath=FAST)
def _number_columns(x, y, half, scale, side, column):
    """Number of each point's column inside its node."""
    last = side - np.int32(1)
    for k in range(x.shape[0]):
        across = min(max(np.int32((x[k] + half) * scale), np.int32(0)), last)
        along = min(max(np.int32((y[k] + half) * scale), np.int32(0)), last)
        column[k] = np.uint16(along * side + across)


@njit(cache=True, fastmath=FAST)
def _mark_walls(z, column, lowest, is_wall, wall_low, wall_high):
    """Columns that hold a return `wall_low`..`wall_high` above their lowest one are walls."""
    for inside in range(lowest.shape[0]):
        lowest[inside] = F(1e9)
        is_wall[inside] = 0
    n = U(z.shape[0])
    for k in range(n):
        lowest[column[k]] = min(lowest[column[k]], z[k])
    walls = 0
    for k in range(n):
        above = z[k] - lowest[column[k]]
        if above > wall_low and above < wall_high:
            is_wall[column[k]] = 1
            walls += 1
    if walls > 0:
        for k in range(n):
            if is_wall[column[k]]:
                column[k] |= WALL


@njit(cache=True, fastmath=FAST)
def _leave_out_moving(x, y, column, node_x, node_y, moving, moving_origin, moving_scale):
    """Points in cells that move do not shape the surface."""
    for k in range(x.shape[0]):
        u = (node_x + x[k] - moving_origin[0]) * moving_scale
        v = (node_y + y[k] - moving_origin[1]) * moving_scale
        inside = u >= F(0) and v >= F(0) and u < moving.shape[1] and v < moving.shape[0]
        if inside and moving[np.int32(v), np.int32(u)]:
            column[k] |= LEFT_OUT


@njit(cache=True, fastmath=FAST)
def _count_and_find_lowest(x, y, z, column, out, half, scale, side, low):
    """How many points shape the surface, and the lowest of them in each part of the node (side 0: nobody asks)."""
    n = 0
    if side == 0:
        for k in range(U(x.shape[0])):
            n += column[k] & out == 0
        return n
    for k in range(U(x.shape[0])):
        if column[k] & out:
            continue
        n += 1
        part = _column(x[k], y[k], half, scale, side)
        if z[k] < low[part, 2]:
            low[part, 0], low[part, 1], low[part, 2] = x[k], y[k], z[k]
    return n


@njit(cache=True, fastmath=FAST)
def _copy_points(x, y, z, column, out, usable, stride, place, x_em, y_em, z_em):
    """Every `stride`-th of the `usable` points, in scan order; returns the next free place."""
    n = x.shape[0]
    if usable == n:  # none is left out, as on most of the road: only the points taken are touched
        for k in range(0, n, stride):
            x_em[place], y_em[place], z_em[place] = x[k], y[k], z[k]
            place += 1
        return place
    turn = 0
    for k in range(U(x.shape[0])):
        if column[k] & out:
            continue
        if turn == 0:
            x_em[place], y_em[place], z_em[place] = x[k], y[k], z[k]
            place += 1
        turn += 1
        if turn == stride:
            turn = 0
    return place


@njit(cache=True, fastmath=FAST)
def _add_anchors(plane, quarter, place, x_em, y_em, z_em):
    for a in range(ANCHORS):
        x_em[place] = quarter if a % 2 else -quarter
        y_em[place] = quarter if a // 2 else -quarter
        z_em[place] = plane[0] + plane[1] * x_em[place] + plane[2] * y_em[place]
        place += 1
    return place


@njit(cache=True, fastmath=FAST)
def _select_nodes(
    nodes_first, nodes_last, start, x_, y_, z_, column_, reserved, limit, anchored, anchor_z, moving, moving_origin,
    moving_scale, spacing, lattice_columns, side, wall_low, wall_high, walls_out, low_side, low, x_em, y_em, z_em,
    count_em,
):  # fmt: skip
    half = spacing * F(0.5)
    lowest = np.empty(side * side, np.float32)
    is_wall = np.empty(side * side, np.uint8)
    out = LEFT_OUT | WALL if walls_out else LEFT_OUT
    for c in range(nodes_first, nodes_last):
        first, last = start[c], start[c + 1]
        for part in range(low_side * low_side):
            low[c, part, 2] = F(1e9)
        place = reserved[c]
        if first < last:
            x, y, z, column = x_[first:last], y_[first:last], z_[first:last], column_[first:last]
            _number_columns(x, y, half, F(side) / spacing, side, column)
            if wall_high > F(0):
                _mark_walls(z, column, lowest, is_wall, wall_low, wall_high)
            if moving.shape[0] > 0:
                node_x = (F(c % lattice_columns) + F(0.5)) * spacing
                node_y = (F(c // lattice_columns) + F(0.5)) * spacing
                _leave_out_moving(x, y, column, node_x, node_y, moving, moving_origin, moving_scale)
            n = _count_and_find_lowest(x, y, z, column, out, half, F(low_side) / spacing, low_side, low[c])
            stride = (n + limit - 1) // limit if 0 < limit < n else 1
            place = _copy_points(x, y, z, column, out, n, stride, place, x_em, y_em, z_em)
        if anchored[c]:
            place = _add_anchors(anchor_z[c], spacing * F(0.25), place, x_em, y_em, z_em)
        while (place - reserved[c]) % PAD:
            x_em[place], y_em[place], z_em[place] = F(0), F(0), _FAR_ABOVE
            place += 1
        count_em[c] = place - reserved[c]


@njit(parallel=True, cache=True, fastmath=FAST)
def select_points(
    chunks, start, x, y, z, column, reserved, limit, anchored, anchor_z, moving, moving_origin, moving_scale, spacing,
    lattice_columns, side, wall_low, wall_high, walls_out, low_side, low, x_em, y_em, z_em, count_em,
):  # fmt: skip
    """Fill `x_em, y_em, z_em` with the points that shape the surface, `low` with the lowest of each part of a node."""
    for i in prange(chunks.shape[0] - 1):
        _select_nodes(
            chunks[i], chunks[i + 1], start, x, y, z, column, reserved, limit, anchored, anchor_z, moving,
            moving_origin, moving_scale, spacing, lattice_columns, side, wall_low, wall_high, walls_out, low_side,
            low, x_em, y_em, z_em, count_em,
        )  # fmt: skip
