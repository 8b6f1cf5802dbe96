# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Neighbours at equal height above the surface are labelled alike: one round of votes in small cells.

A cell spans two fine columns to each side and one layer of heights; +1 per ground point, -1 per other point.
"""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import ONE, F, U, njit
from roadbed.ground.stcrf.select_cpu import COLUMN

LAYERS = 13
PLANES = 16  # layers with an empty one at each end, filled up so that a cell lies in one cache line
CELL_COLUMNS = 2
_CELL_COLUMNS = np.uint64(CELL_COLUMNS)
LOWEST, _LAYER, MAY_CHANGE = F(0.05), F(0.05), F(0.10)  # m; points from MAY_CHANGE on follow the vote
TOP = F(0.05 + LAYERS * 0.05)


@njit(cache=True)
def places_in_node(side):
    """Row and column of each fine column inside its node: a table, because a division per point costs more."""
    along, across = np.empty(side * side, np.uint64), np.empty(side * side, np.uint64)
    for column in range(side * side):
        along[column], across[column] = U(column // side), U(column % side)
    return along, across


@njit(inline="always")
def cell_of(node_place, place):
    """Row or column of a cell below the border, from where the node begins (in fine columns) and the place in it."""
    return (node_place + place) // _CELL_COLUMNS


@njit(inline="always")
def _layer(d):
    return U(min(np.int64((d - LOWEST) * (F(1) / _LAYER)), LAYERS - 1))


@njit(cache=True)
def cast_votes(first_node, last_node, start, column, dz, ground, columns, side, votes):
    """`votes` (cells + 2, cells + 2, PLANES) has a border of empty cells and layers: no loop asks where it ends."""
    along, across = places_in_node(side)
    for c in range(first_node, last_node):
        if start[c] == start[c + 1]:
            continue
        row = c // columns
        top, left = U(row * side), U((c - row * columns) * side)
        for k in range(U(start[c]), U(start[c + 1])):
            d = dz[k]
            if d >= LOWEST and d < TOP:
                inside = U(column[k] & COLUMN)
                y, x = cell_of(top, along[inside]), cell_of(left, across[inside])
                votes[y + ONE, x + ONE, _layer(d) + ONE] += np.int16(1) if ground[k] else np.int16(-1)


@njit(cache=True)
def clear_votes(first_node, last_node, start, columns, side, votes):
    """Empty the cells of nodes with points: far fewer than all."""
    for c in range(first_node, last_node):
        if start[c] == start[c + 1]:
            continue
        row = c // columns
        top, left = row * side, (c - row * columns) * side
        for y in range(U(top // CELL_COLUMNS + 1), U((top + side - 1) // CELL_COLUMNS + 2)):
            for x in range(U(left // CELL_COLUMNS + 1), U((left + side - 1) // CELL_COLUMNS + 2)):
                for plane in range(U(PLANES)):
                    votes[y, x, plane] = np.int16(0)


@njit(cache=True)
def outvoted(y, x, d, is_ground, votes):
    """The label of the majority of the 3 x 3 x 3 cells around a point of cell (y, x); a tie changes nothing."""
    layer = _layer(d)
    total = 0
    for row in range(U(3)):
        for other in range(U(3)):
            for height in range(U(3)):
                total += votes[y + row, x + other, layer + height]
    return is_ground if total == 0 else total > 0
