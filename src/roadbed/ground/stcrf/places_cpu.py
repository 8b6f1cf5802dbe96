# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""What the labels look at beside a point's own height: pillars, nodes, and the kind of place a node lies in."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, HALF_LOG2_E, ONE, F, U, exp2_negative, njit
from roadbed.ground.stcrf.model import (
    BANDS,
    BELOW,
    COUNTERS,
    EVEN_SHARE,
    FEWEST_RETURNS,
    FOOT_BY_RATIO,
    FOOT_BY_SUPPORT,
    FOOT_RATIO,
    NEAR,
    NEAR_HIGH,
    ON_GROUND,
    OPEN,
    OPEN_HIGH,
    OPEN_NEAR,
    OPEN_WALLS,
    RAISED,
    REGION,
    RING_ROUGH,
    RING_SMOOTH,
    ROUGH_RETURNS,
    ROUGH_SHARE,
    SEEN_GROUND,
    SMOOTH,
    VOTE_LOWEST,
    VOTE_TOP,
    WALL_RETURNS,
    WALL_TOP,
)  # fmt: skip
from roadbed.ground.stcrf.select_cpu import PILLAR, WALL


@njit(cache=True, fastmath=FAST)
def measure_heights(first_node, last_node, points, shape, mean, rules, dz, probability):
    """dz of every point to the plane of its node, and c_j; in node order, where the loops vectorise."""
    start, x, y, z, columns = points.start, points.x, points.y, points.z, shape.columns
    up = HALF_LOG2_E / (rules.sigma_up * rules.sigma_up)
    down = HALF_LOG2_E / (rules.sigma_down * rules.sigma_down)
    for c in range(first_node, last_node):
        first, last = U(start[c]), U(start[c + 1])
        if first == last:
            continue
        row = c // columns
        column = c - row * columns + 1
        h, sx, sy = mean[row + 1, 0, column], mean[row + 1, 1, column], mean[row + 1, 2, column]
        for k in range(first, last):
            dz[k] = z[k] - (h + sx * x[k] + sy * y[k])
    for k in range(U(start[first_node]), U(start[last_node])):
        probability[k] = exp2_negative(dz[k] * dz[k] * (up if dz[k] >= F(0) else down))


@njit(cache=True)
def list_near(first_node, last_node, start, rules, dz, near, near_count):
    """Points over which more than their own height decides, per node from its start on: a quarter of a scan."""
    lowest, highest = min(min(rules.foot, VOTE_LOWEST), rules.smooth_threshold), max(rules.standing, VOTE_TOP)
    for c in range(first_node, last_node):
        first, place = U(start[c]), U(start[c])
        for k in range(first, U(start[c + 1])):
            near[place] = k  # written over where it does not count: cheaper than a branch
            place += U(1) if (dz[k] >= lowest) & (dz[k] < highest) else U(0)
        near_count[c] = place - first


@njit(cache=True, fastmath=FAST)
def _count_node(dz, pillar, first, last, clear_threshold):
    """The counters of one node, as float32 and without a branch: whole numbers are exact, and the loop vectorises."""
    near = near_high = open_near = open_high = seen = wall = F(0)
    for k in range(first, last):
        d = dz[k]
        is_open = F(0) if pillar[k] & WALL else F(1)
        is_near = F(1) if (d >= BELOW) & (d < clear_threshold) else F(0)
        is_high = is_near if d >= RAISED else F(0)
        near += is_near
        near_high += is_high
        open_near += is_near * is_open
        open_high += is_high * is_open
        seen += is_open if abs(d) < ON_GROUND else F(0)
        wall += F(1) - is_open if d < WALL_TOP else F(0)
    return near, near_high, open_near, open_high, seen, wall


@njit(cache=True, fastmath=FAST)
def count_bands(first_node, last_node, points, shape, rules, work):
    """Per pillar how many points lie in each band of heights; per node the counters of the model."""
    start, pillar, columns = points.start, points.pillar, shape.columns
    dz, near, near_count, bands, counters = work.dz, work.near, work.near_count, work.bands, work.counters
    flat = counters.reshape((COUNTERS, start.shape[0] - 1))
    for counter in range(COUNTERS):
        for c in range(U(first_node), U(last_node)):
            flat[counter, c] = 0
    for c in range(first_node, last_node):
        first, last = U(start[c]), U(start[c + 1])
        if first == last:
            continue
        row = c // columns  # costs more than all else that is done for an empty node
        at = c - row * columns
        counts = _count_node(dz, pillar, first, last, rules.clear_threshold)
        counters[NEAR, row, at], counters[NEAR_HIGH, row, at] = np.int32(counts[0]), np.int32(counts[1])
        counters[OPEN_NEAR, row, at], counters[OPEN_HIGH, row, at] = np.int32(counts[2]), np.int32(counts[3])
        counters[SEEN_GROUND, row, at], counters[WALL_RETURNS, row, at] = np.int32(counts[4]), np.int32(counts[5])
        if near_count[c] == 0:
            continue
        for inside in range(bands.shape[1]):
            for band in range(BANDS):
                bands[c, inside, band] = 0
        for place in range(first, first + U(near_count[c])):
            k = U(near[place])
            d = dz[k]
            if d >= rules.foot and d < rules.standing:
                # The band's number: how many of the limits lie below d.
                band = int(d >= rules.threshold) + int(d >= rules.clear_threshold)
                band += int(d >= rules.highest) + int(d >= rules.top)
                bands[c, pillar[k] & PILLAR, band] += np.uint16(1)


_ROUGH = np.int32(1 << 16)  # counts of smooth and of rough nodes are summed as one number: neither reaches 2^16
_SMOOTH = _ROUGH - np.int32(1)


@njit(inline="always")
def _state(points, raised):
    """0: too few points, 1: smooth, _ROUGH: rough."""
    rough = raised >= ROUGH_RETURNS and F(raised) > ROUGH_SHARE * F(points)
    return (_ROUGH if rough else np.int32(1)) if points >= FEWEST_RETURNS else np.int32(0)


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
def box_sum(values, reach, across, out):
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
def classify_nodes(start, counters, p00, shape, rules, planes, kinds):
    """`kinds`: bits per node with points from `counters` (6, rows, columns) and information p00. `planes`: scratch.

    The ring two nodes away decides about smoothness: an isolated object touches only the nodes inside it, so it cannot
    vouch for its own roughness, while a kerb, a bank or a verge crosses the ring.
    """
    rows, columns = shape.rows, shape.columns
    here, inner, outer, region = planes[0], planes[1], planes[2], planes[3]
    ground, walls, across = planes[4], planes[5], planes[6]
    for row in range(rows):
        for column in range(columns):
            here[row, column] = _state(counters[NEAR, row, column], counters[NEAR_HIGH, row, column])
    box_sum(here, 1, across, inner)
    box_sum(here, 2, across, outer)
    for row in range(rows):
        for column in range(columns):
            here[row, column] = _state(counters[OPEN_NEAR, row, column], counters[OPEN_HIGH, row, column])
    box_sum(here, REGION, across, region)
    box_sum(counters[SEEN_GROUND], 1, across, ground)
    box_sum(counters[WALL_RETURNS], 1, across, walls)
    for row in range(rows):
        for column in range(columns):
            if start[row * columns + column] == start[row * columns + column + 1]:
                continue
            support = p00[row + 1, column + 1]
            ring = outer[row, column] - inner[row, column]
            smooth, rough = ring & _SMOOTH, ring // _ROUGH
            even, uneven = region[row, column] & _SMOOTH, region[row, column] // _ROUGH
            is_even = F(even) > EVEN_SHARE * F(even + uneven)
            kind = np.uint8(0)
            if rough <= RING_ROUGH and smooth >= RING_SMOOTH:
                kind |= SMOOTH
            if support < rules.support_ratio and F(ground[row, column]) < FOOT_RATIO * F(walls[row, column] + 1):
                kind |= FOOT_BY_RATIO
            if is_even and support < rules.support_even:
                kind |= FOOT_BY_SUPPORT
            if not is_even and walls[row, column] < OPEN_WALLS:
                kind |= OPEN
            kinds[row * columns + column] = kind
