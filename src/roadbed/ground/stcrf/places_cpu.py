# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""What kind of place a node lies in: smooth road, even region, foot of a structure, open uneven ground."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import ONE, F, U, njit
from roadbed.ground.stcrf.measure_cpu import NEAR, NEAR_HIGH, OPEN_HIGH, OPEN_NEAR, SEEN_GROUND, WALL_RETURNS

SMOOTH, FOOT_BY_RATIO, FOOT_BY_SUPPORT, OPEN = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)
_FEWEST = 3  # points a node needs to be called smooth or rough
_ROUGH_SHARE = F(0.05)  # of its points raised, and at least two
_RING_ROUGH, _RING_SMOOTH = 1, 8  # of the 16 nodes two away: at most rough, at least smooth
_REGION = 12  # nodes to each side
_EVEN_SHARE = F(0.85)
_RATIO = F(0.10)  # seen ground per wall return under which a low point is the structure's foot
_OPEN_WALLS = 4


@njit(cache=True)
def _state(points, raised):
    """0: too few points, 1: smooth, 2: rough."""
    if points < _FEWEST:
        return 0
    return 2 if raised >= 2 and F(raised) > _ROUGH_SHARE * F(points) else 1


@njit(cache=True)
def _running_sum(values, reach, out):
    """Sum of `values` within `reach` places to each side, clipped at the ends."""
    n = values.shape[0]
    total = 0
    for i in range(min(reach, n)):
        total += values[i]
    # Three ranges, so that the long one in the middle asks nothing.
    inner, outer = min(reach + 1, n), max(n - reach, 0)
    for i in range(min(inner, outer)):
        total += values[i + reach]
        out[i] = total
    for i in range(U(inner), U(max(inner, outer))):
        total += np.int64(values[i + U(reach)]) - np.int64(values[i - U(reach) - ONE])
        out[i] = total
    for i in range(min(inner, outer), inner):
        out[i] = total
    for i in range(max(inner, outer), n):
        total -= values[i - reach - 1]
        out[i] = total


@njit(cache=True)
def _add(total, values, sign):
    for i in range(total.shape[0]):
        total[i] += sign * values[i]


@njit(cache=True)
def _ring_sum(values, planes):
    """Replace `values` by its sum over the 16 nodes exactly two away."""
    _box_sum(values, 2, planes[6], planes[4])
    _box_sum(values, 1, planes[6], planes[5])
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            values[row, column] = planes[4, row, column] - planes[5, row, column]


@njit(cache=True)
def _region_sum(values, planes):
    """Replace `values` by its sum over the region around each node."""
    _box_sum(values, _REGION, planes[6], planes[4])
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            values[row, column] = planes[4, row, column]


@njit(cache=True)
def _box_sum(values, reach, across, out):
    """Sum over the (2 reach + 1)^2 nodes around each node, clipped at the border; `across` is scratch."""
    rows, columns = values.shape
    for row in range(rows):
        _running_sum(values[row], reach, across[row])
    for column in range(columns):
        out[0, column] = 0
    for row in range(min(reach + 1, rows)):
        _add(out[0], across[row], 1)
    for row in range(1, rows):
        for column in range(columns):
            out[row, column] = out[row - 1, column]
        if row + reach < rows:
            _add(out[row], across[row + reach], 1)
        if row - reach - 1 >= 0:
            _add(out[row], across[row - reach - 1], -1)


@njit(cache=True)
def classify_nodes(counters, p00, rows, columns, most_ratio, most_even, planes, kinds):
    """`kinds`: bits per node from `counters` (6, rows, columns) and information p00. `planes`: int32 scratch.

    The ring two nodes away decides about smoothness: an isolated object touches only the nodes inside it, so it cannot
    vouch for its own roughness, while a kerb, a bank or a verge crosses the ring.
    """
    smooth, rough, even, uneven = planes[0], planes[1], planes[2], planes[3]
    for row in range(rows):
        for column in range(columns):
            state = _state(counters[NEAR, row, column], counters[NEAR_HIGH, row, column])
            smooth[row, column], rough[row, column] = state == 1, state == 2
            state = _state(counters[OPEN_NEAR, row, column], counters[OPEN_HIGH, row, column])
            even[row, column], uneven[row, column] = state == 1, state == 2
    _ring_sum(rough, planes)
    _ring_sum(smooth, planes)
    _region_sum(even, planes)
    _region_sum(uneven, planes)
    ground, walls = planes[4], planes[5]
    _box_sum(counters[SEEN_GROUND], 1, planes[6], ground)
    _box_sum(counters[WALL_RETURNS], 1, planes[6], walls)
    for row in range(rows):
        for column in range(columns):
            support = p00[row + 1, column + 1]
            total = even[row, column] + uneven[row, column]
            is_even = F(even[row, column]) > _EVEN_SHARE * F(total)
            kind = np.uint8(0)
            if rough[row, column] <= _RING_ROUGH and smooth[row, column] >= _RING_SMOOTH:
                kind |= SMOOTH
            if support < most_ratio and F(ground[row, column]) < _RATIO * F(walls[row, column] + 1):
                kind |= FOOT_BY_RATIO
            if is_even and support < most_even:
                kind |= FOOT_BY_SUPPORT
            if not is_even and walls[row, column] < _OPEN_WALLS:
                kind |= OPEN
            kinds[row * columns + column] = kind
