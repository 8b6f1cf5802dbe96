# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Opaque ground, seen beside: what stands among standing returns, and the road at the foot of what stands."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import inner, njit
from roadbed.ground.opacity_cpu import RISE

GROW, GROW_HEIGHT = 0.6, 0.08  # m aside and in height within which
GROW_FROM = 8  # returns that stand make one stand that shows nothing by itself
FOOT_BEFORE, FOOT_NEAR = 0.05, 0.5  # m of range before what is above it, on average and at most, at which the road ends
FOOT, FOOT_HEIGHT = 2.0, 0.05  # m aside and in height within which
FOOT_FROM = 8  # returns that do not stand are the same road


@inner()
def _along(rotation, axis, points, i):
    return rotation[axis, 0] * points[i, 0] + rotation[axis, 1] * points[i, 1] + rotation[axis, 2] * points[i, 2]


@inner()
def _level(rotation, points, i):
    """A point along the level axes."""
    return _along(rotation, 0, points, i), _along(rotation, 1, points, i), _along(rotation, 2, points, i)


@njit(cache=True, allocates=False)
def level(points, rotation, chosen, place):
    """Chosen points along the level axes: `place` (K, 3)."""
    for k in range(chosen.shape[0]):
        place[k, 0], place[k, 1], place[k, 2] = _level(rotation, points, chosen[k])


@inner()
def _first_from(place, along):
    """The first of the sorted places that does not lie before `along`."""
    first, last = 0, place.shape[0]
    while first < last:
        middle = (first + last) // 2
        if place[middle, 0] < along:
            first = middle + 1
        else:
            last = middle
    return first


@inner()
def _are_near(place, of, aside, height, enough):
    """Whether enough of the sorted places lie within `aside` and `height` of one."""
    found = 0
    for k in range(_first_from(place, of[0] - aside), place.shape[0]):
        along = place[k, 0] - of[0]
        if along > aside or found >= enough:
            break
        distance2 = along * along + (place[k, 1] - of[1]) ** 2
        found += distance2 < aside * aside and abs(place[k, 2] - of[2]) < height
    return found >= enough


@inner()
def _is_return(points, i):
    x, y, z = points[i, 0], points[i, 1], points[i, 2]
    return np.isfinite(x + y + z) and not (x == 0 and y == 0 and z == 0)


@njit(cache=True, allocates=False)
def grow_standing(points, rotation, around, standing):
    """Returns beside enough standing ones of their height stand too: a car's side at a flat angle, in one layer.

    `around` are the level places of those that stand by themselves, sorted by x.
    """
    for i in range(points.shape[0]):
        if standing[i] or not _is_return(points, i):
            continue
        standing[i] = _are_near(around, _level(rotation, points, i), GROW, GROW_HEIGHT, GROW_FROM)


@inner()
def _lies_before(own, others, place):
    """Whether a return lies before those above it: a wall is not nearer at its foot, the road that ends there is."""
    r, z = place[own, 0], place[own, 1]
    total, count = 0.0, 0
    for other in others:
        if place[other, 1] > z + RISE and abs(place[other, 0] - r) < FOOT_NEAR:
            total += place[other, 0] - r
            count += 1
    return count > 0 and total > FOOT_BEFORE * count


@njit(cache=True, allocates=False)
def release_feet(points, rotation, around, order, start, place, standing):
    """The road just before what stands does not stand, where there is more of it around at the same height.

    `around` are the level places of what does not stand, sorted by x.
    """
    for c in range(start.shape[0] - 1):
        others = order[start[c] : start[c + 1]]
        for own in others:
            if not standing[own] or not _lies_before(own, others, place):
                continue
            standing[own] = not _are_near(around, _level(rotation, points, np.int64(own)), FOOT, FOOT_HEIGHT, FOOT_FROM)
