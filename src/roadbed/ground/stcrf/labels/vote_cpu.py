# SPDX-License-Identifier: Apache-2.0
"""One round of votes: neighbours at equal height above the surface get the same label.

A cell of the vote spans 2 x 2 pillars and one layer of heights; a ground point adds 1, another point -1.
"""

import numpy as np

from roadbed.ground.stcrf.model import VOTE_LAYER, VOTE_LAYERS, VOTE_LOWEST, VOTE_PILLARS, VOTE_TOP
from roadbed.ground.stcrf.points.select_cpu import PILLAR
from roadbed.kernels.jit import inner, merged, njit
from roadbed.kernels.numeric import ONE, F, U, min

PLANES = 16  # layers with an empty one at each end, padded so that a cell is in one cache line
_PILLARS = np.uint64(VOTE_PILLARS)


def empty_votes(rows, columns):
    """Cells for the votes of a grid of pillars, with a border of empty cells, so that loops need no tests there."""
    cells = [-(-along // VOTE_PILLARS) + 2 for along in (rows, columns)]
    return np.zeros((*cells, PLANES), np.int16)


def pillar_positions(side):
    """Table of the row and column of each pillar inside its node: a division per point would cost more."""
    return np.stack(np.divmod(np.arange(side * side, dtype=np.uint64), np.uint64(side)))


@njit(inline="always")
def cell_of(node_start, pillar):
    """Row or column of a cell, without the border, from the node's first pillar and the pillar in the node."""
    return (node_start + pillar) // _PILLARS


@njit(inline="always")
def _layer(d):
    return U(min(np.int64((d - VOTE_LOWEST) * (F(1) / VOTE_LAYER)), VOTE_LAYERS - 1))


@inner()
def cast_votes(first_active, last_active, points, shape, side, work):
    """Add the votes of all points low enough over the surface, for a range of active nodes."""
    start, pillar, columns = points.start, points.pillar, shape.columns
    dz, ground, votes, near, near_count = work.dz, work.ground, work.votes, work.near, work.near_count
    along, across = work.pillar_positions[0], work.pillar_positions[1]
    for i in range(first_active, last_active):
        c = np.int64(points.active_nodes.nodes[i])
        if near_count[c] == 0:
            continue
        row = c // columns
        top, left = U(row * side), U((c - row * columns) * side)
        for position in range(U(start[c]), U(start[c]) + U(near_count[c])):
            k = U(near[position])
            d = dz[k]
            if d >= VOTE_LOWEST and d < VOTE_TOP:
                inside = U(pillar[k] & PILLAR)
                y, x = cell_of(top, along[inside]), cell_of(left, across[inside])
                votes[y + ONE, x + ONE, _layer(d) + ONE] += np.int16(1) if ground[k] else np.int16(-1)


@merged()
def clear_votes(nodes, work, columns, side):
    """Clear the cells in which points of these nodes may have voted, and their counts."""
    votes, near_count = work.votes, work.near_count
    for i in range(nodes.shape[0]):
        c = np.int64(nodes[i])
        work.band_slot[c] = 0
        if near_count[c] == 0:
            continue
        near_count[c] = 0
        row = c // columns
        top, left = row * side, (c - row * columns) * side
        for y in range(U(top // VOTE_PILLARS + 1), U((top + side - 1) // VOTE_PILLARS + 2)):
            for x in range(U(left // VOTE_PILLARS + 1), U((left + side - 1) // VOTE_PILLARS + 2)):
                for plane in range(U(PLANES)):
                    votes[y, x, plane] = np.int16(0)


@merged()
def outvoted(y, x, d, is_ground, votes):
    """The label of the majority of the 3 x 3 x 3 cells around a point of cell (y, x); a tie changes nothing."""
    layer = _layer(d)
    total = 0
    for row in range(U(3)):
        for other in range(U(3)):
            for height in range(U(3)):
                total += votes[y + row, x + other, layer + height]
    return is_ground if total == 0 else total > 0
