# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Fine columns inside each node: which points may shape the surface, and the lowest ones for the coarse start."""

from __future__ import annotations

import numpy as np

from roadbed.ground.numeric_cpu import FAST, F, njit, prange

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
def _mark_walls(z, column, lowest, is_wall, first, last, wall_low, wall_high):
    """Columns that hold a return `wall_low`..`wall_high` above their lowest one are walls."""
    for k in range(first, last):
        lowest[column[k]] = F(1e9)
    for k in range(first, last):
        lowest[column[k]] = min(lowest[column[k]], z[k])
    for k in range(first, last):
        above = z[k] - lowest[column[k]]
        if above > wall_low and above < wall_high:
            is_wall[column[k]] = 1
    for k in range(first, last):
        if is_wall[column[k]]:
            column[k] |= WALL


@njit(cache=True, fastmath=FAST)
def _select_nodes(
    nodes_first, nodes_last, start, x, y, z, column, reserved, limit, anchored, anchor_z, moving, moving_origin,
    moving_scale, spacing, lattice_columns, side, wall_low, wall_high, walls_out, low_side, low, x_em, y_em, z_em,
    count_em,
):  # fmt: skip
    half = spacing * F(0.5)
    scale = F(side) / spacing
    low_scale = F(low_side) / spacing
    quarter = spacing * F(0.25)
    lowest = np.empty(side * side, np.float32)
    is_wall = np.zeros(side * side, np.uint8)
    for c in range(nodes_first, nodes_last):
        first, last = start[c], start[c + 1]
        for part in range(low_side * low_side):
            low[c, part, 2] = F(1e9)
        for k in range(first, last):
            column[k] = _column(x[k], y[k], half, scale, side)
            is_wall[column[k]] = 0
        if wall_high > F(0):
            _mark_walls(z, column, lowest, is_wall, first, last, wall_low, wall_high)
        node_x = (F(c % lattice_columns) + F(0.5)) * spacing
        node_y = (F(c // lattice_columns) + F(0.5)) * spacing
        n = 0
        for k in range(first, last):
            good = not (walls_out and column[k] & WALL)
            if good and moving.shape[0] > 0:
                u = (node_x + x[k] - moving_origin[0]) * moving_scale
                v = (node_y + y[k] - moving_origin[1]) * moving_scale
                if u >= F(0) and v >= F(0) and u < moving.shape[1] and v < moving.shape[0]:
                    good = not moving[np.int32(v), np.int32(u)]
            if good:
                n += 1
                quarter_cell = _column(x[k], y[k], half, low_scale, low_side)
                if z[k] < low[c, quarter_cell, 2]:
                    low[c, quarter_cell, 0] = x[k]
                    low[c, quarter_cell, 1] = y[k]
                    low[c, quarter_cell, 2] = z[k]
            else:
                column[k] |= LEFT_OUT
        # At most `limit` points, evenly over the node's points in scan order.
        stride = 1
        if limit > 0 and n > limit:
            stride = (n + limit - 1) // limit
        place = reserved[c]
        turn = 0
        for k in range(first, last):
            if column[k] & LEFT_OUT:
                column[k] &= COLUMN | WALL
                continue
            if turn == 0:
                x_em[place], y_em[place], z_em[place] = x[k], y[k], z[k]
                place += 1
            turn += 1
            if turn == stride:
                turn = 0
        if anchored[c]:
            for a in range(ANCHORS):
                x_em[place] = quarter if a % 2 else -quarter
                y_em[place] = quarter if a // 2 else -quarter
                z_em[place] = anchor_z[c, 0] + anchor_z[c, 1] * x_em[place] + anchor_z[c, 2] * y_em[place]
                place += 1
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
