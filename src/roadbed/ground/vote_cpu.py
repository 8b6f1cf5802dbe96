# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Neighbours at equal height above the surface are labelled alike: one round of votes in small cells.

A cell spans two fine columns to each side and one layer of heights; +1 per ground point, -1 per other point.
"""

from __future__ import annotations

import numpy as np

from roadbed.ground.columns_cpu import COLUMN
from roadbed.ground.numeric_cpu import F, njit

LAYERS = 13
CELL_COLUMNS = 2
LOWEST, _LAYER, MAY_CHANGE = F(0.05), F(0.05), F(0.10)  # m; points from MAY_CHANGE on follow the vote
TOP = F(0.05 + LAYERS * 0.05)


@njit(inline="always")
def _cell(c, column, columns, side):
    """Row and column of the cell of a fine column `column` of node c."""
    row, node_column = c // columns, c % columns
    return (row * side + column // side) // CELL_COLUMNS, (node_column * side + column % side) // CELL_COLUMNS


@njit(inline="always")
def _layer(d):
    return min(np.int64((d - LOWEST) * (F(1) / _LAYER)), LAYERS - 1)


@njit(cache=True)
def cast_votes(first_node, last_node, start, column, dz, ground, columns, side, votes):
    for c in range(first_node, last_node):
        for k in range(start[c], start[c + 1]):
            d = dz[k]
            if d >= LOWEST and d < TOP:
                y, x = _cell(c, np.int64(column[k] & COLUMN), columns, side)
                votes[y, x, _layer(d)] += np.int16(1) if ground[k] else np.int16(-1)


@njit(cache=True)
def clear_votes(first_node, last_node, start, column, dz, columns, side, votes):
    """Empty the cells that were voted in: far fewer than all."""
    for c in range(first_node, last_node):
        for k in range(start[c], start[c + 1]):
            if dz[k] >= LOWEST and dz[k] < TOP:
                y, x = _cell(c, np.int64(column[k] & COLUMN), columns, side)
                votes[y, x, _layer(dz[k])] = 0


@njit(cache=True)
def outvoted(c, column, d, is_ground, columns, side, votes):
    """The label of the majority of the 3 x 3 x 3 cells around a point; a tie changes nothing."""
    y, x = _cell(c, column, columns, side)
    layer = _layer(d)
    total = 0
    for row in range(max(y - 1, 0), min(y + 2, votes.shape[0])):
        for other in range(max(x - 1, 0), min(x + 2, votes.shape[1])):
            for height in range(max(layer - 1, 0), min(layer + 2, LAYERS)):
                total += votes[row, other, height]
    return is_ground if total == 0 else total > 0
