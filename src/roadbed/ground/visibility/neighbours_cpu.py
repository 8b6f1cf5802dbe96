# SPDX-License-Identifier: Apache-2.0
"""Occlusion among neighbours: release the road in front of obstacles, grow non-ground returns sideways.

Twins: neighbours.cl and squares.cl.
"""

import numpy as np

from roadbed.ground.visibility import model
from roadbed.kernels.jit import inner, merged
from roadbed.kernels.numeric import U, max, min


@inner()
def _square(along, radius):
    """The square of a coordinate along one axis, for a search within `radius` metres."""
    return np.int64(np.floor(min(max(along / (model.WIDER * radius), -model.FARTHEST_SQUARE), model.FARTHEST_SQUARE)))


@inner()
def _list_of(column, row):
    """The list of a square. Squares far apart share a list, but their returns are too far apart to be neighbours."""
    return (row & (model.SQUARES - 1)) * model.SQUARES + (column & (model.SQUARES - 1))


@inner()
def _add_to_list(i, level, radius, heads, next_entry):
    """Add point i to the linked list of its square; `heads` and `next_entry` hold numbers plus one, 0: the end."""
    square = _list_of(_square(level[i, 0], radius), _square(level[i, 1], radius))
    next_entry[i] = heads[square]
    heads[square] = i + 1


@inner()
def _has_neighbours(i, level, radius, height, enough, heads, next_entry):
    """Whether at least `enough` listed points are within `radius` and `height` of point i."""
    column, row, found = _square(level[i, 0], radius), _square(level[i, 1], radius), 0
    for v in range(row - 1, row + 2):
        for u in range(column - 1, column + 2):
            k = heads[_list_of(u, v)]
            while k > 0:
                x, y, z = level[k - 1, 0] - level[i, 0], level[k - 1, 1] - level[i, 1], level[k - 1, 2] - level[i, 2]
                found += x * x + y * y < radius * radius and abs(z) < height
                if found >= enough:
                    return True
                k = next_entry[k - 1]
    return False


@merged()
def _lies_before(own, seen, begin, end):
    """Whether a return is nearer than those above it: the road in front of a wall is, the foot of the wall is not."""
    r, z, total, count = seen[0, own], seen[1, own], 0.0, 0
    for k in range(begin, end):
        if seen[1, k] > z + model.RISE and abs(seen[0, k] - r) < model.FOOT_NEAR:
            total += seen[0, k] - r
            count += 1
    return count > 0 and total > model.FOOT_BEFORE * count


@merged()
def list_road(order, level, heads, next_entry, non_ground):
    """List all returns that are not marked, for `release_road`; `heads` is all 0 before."""
    for own in order:
        if not non_ground[own]:
            _add_to_list(np.int64(own), level, model.FOOT, heads, next_entry)


@inner()
def release_road(first_cell, last_cell, level, order, start, seen, heads, next_entry, non_ground):
    """Unmark road just before an obstacle, if there is more road around at the same height."""
    for c in range(first_cell, last_cell):
        begin, end = U(start[c]), U(start[c + 1])
        for k in range(begin, end):
            own = np.int64(order[k])
            if non_ground[own] and _lies_before(k, seen, begin, end):
                non_ground[own] = not _has_neighbours(
                    own, level, model.FOOT, model.FOOT_HEIGHT, model.FOOT_FROM, heads, next_entry
                )


@merged()
def list_non_ground(level, heads, next_entry, non_ground):
    """List all non-ground returns, for `grow_non_ground`; `heads` is all 0 before."""
    for i in range(level.shape[0]):
        if non_ground[i]:
            _add_to_list(i, level, model.GROW, heads, next_entry)


@merged()
def grow_non_ground(first_point, last_point, level, heads, next_entry, non_ground):
    """Mark returns with enough non-ground neighbours at their height: the side of a car in one layer."""
    for i in range(first_point, last_point):
        if not non_ground[i] and not np.isnan(level[i, 0]):
            non_ground[i] = _has_neighbours(i, level, model.GROW, model.GROW_HEIGHT, model.GROW_FROM, heads, next_entry)
