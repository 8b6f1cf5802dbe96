# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Occlusion among neighbours: grow non-ground returns sideways, and release the road in front of obstacles."""

from __future__ import annotations

import numpy as np

from roadbed.ground.visibility.model import (
    FARTHEST_SQUARE,
    FOOT,
    FOOT_BEFORE,
    FOOT_FROM,
    FOOT_HEIGHT,
    FOOT_NEAR,
    GROW,
    GROW_FROM,
    GROW_HEIGHT,
    RISE,
    SQUARES,
    WIDER,
)  # fmt: skip
from roadbed.kernels.jit import inner, merged
from roadbed.kernels.numeric import U


@inner()
def _square(along, aside):
    """Which square a place lies in, along one axis, for what looks `aside` metres around."""
    return np.int64(np.floor(min(max(along / (WIDER * aside), -FARTHEST_SQUARE), FARTHEST_SQUARE)))


@inner()
def _head(column, row):
    """The plane is wrapped: far away squares share a list, and their places are too far to be taken for near ones."""
    return (row & (SQUARES - 1)) * SQUARES + (column & (SQUARES - 1))


@inner()
def _list_place(i, level, aside, first, following):
    """A place joins the list of its square: `first` and `following` are numbers plus one, 0 at the end."""
    head = _head(_square(level[i, 0], aside), _square(level[i, 1], aside))
    following[i] = first[head]
    first[head] = i + 1


@inner()
def _are_near(i, level, aside, height, enough, first, following):
    """Whether enough of the listed places lie within `aside` and `height` of one."""
    column, row, found = _square(level[i, 0], aside), _square(level[i, 1], aside), 0
    for v in range(row - 1, row + 2):
        for u in range(column - 1, column + 2):
            k = first[_head(u, v)]
            while k > 0:
                x, y, z = level[k - 1, 0] - level[i, 0], level[k - 1, 1] - level[i, 1], level[k - 1, 2] - level[i, 2]
                found += x * x + y * y < aside * aside and abs(z) < height
                if found >= enough:
                    return True
                k = following[k - 1]
    return False


@merged()
def _lies_before(own, seen, begin, end):
    """Whether a return lies before those above it: a wall is not nearer at its foot, the road that ends there is."""
    r, z, total, count = seen[0, own], seen[1, own], 0.0, 0
    for k in range(begin, end):
        if seen[1, k] > z + RISE and abs(seen[0, k] - r) < FOOT_NEAR:
            total += seen[0, k] - r
            count += 1
    return count > 0 and total > FOOT_BEFORE * count


@merged()
def list_road(order, level, first, following, non_ground):
    """Lists of what does not stand in any direction, for `release_road`; `first` is 0 for every square."""
    for own in order:
        if not non_ground[own]:
            _list_place(own, level, FOOT, first, following)


@inner()
def release_road(first_cell, last_cell, level, order, start, seen, first, following, non_ground):
    """The road just before what stands does not stand, where there is more of it around at the same height."""
    for c in range(first_cell, last_cell):
        begin, end = U(start[c]), U(start[c + 1])
        for k in range(begin, end):
            own = order[k]
            if non_ground[own] and _lies_before(k, seen, begin, end):
                non_ground[own] = not _are_near(own, level, FOOT, FOOT_HEIGHT, FOOT_FROM, first, following)


@inner()
def list_non_ground(level, first, following, non_ground):
    """Lists of what stands by itself, for `grow_non_ground`; `first` is 0 for every square."""
    for i in range(level.shape[0]):
        if non_ground[i]:
            _list_place(i, level, GROW, first, following)


@inner()
def grow_non_ground(first_point, last_point, level, first, following, non_ground):
    """Returns beside enough standing ones of their height stand too: a car's side at a flat angle, in one layer."""
    for i in range(first_point, last_point):
        if not non_ground[i] and not np.isnan(level[i, 0]):
            non_ground[i] = _are_near(i, level, GROW, GROW_HEIGHT, GROW_FROM, first, following)
