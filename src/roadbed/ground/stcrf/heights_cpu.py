# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Heights over the surface, and what a node's points say of it together: bands of heights per pillar, counters."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import ONE, F, U, inner
from roadbed.compute.kernels import inlined
from roadbed.compute.lanes import STEP, bits, load, none_of, numbers, splat, store, store_mask, total, where
from roadbed.ground.stcrf.model import (
    BELOW,
    NEAR,
    NEAR_HIGH,
    ON_GROUND,
    OPEN_HIGH,
    OPEN_NEAR,
    RAISED,
    SEEN_GROUND,
    VOTE_LOWEST,
    VOTE_TOP,
    WALL_RETURNS,
    WALL_TOP,
)  # fmt: skip
from roadbed.ground.stcrf.places_cpu import MARGIN
from roadbed.ground.stcrf.select_cpu import PILLAR, WALL


@inlined()
def _list_near(is_near, k, last, near, place):
    """Points over which more than their own height decides, in a row: a quarter of a scan. Returns the next place."""
    found = bits(is_near)
    if found:
        for lane in range(min(STEP, last - k)):
            near[place] = k + lane  # written over where it does not count: cheaper than a branch
            place += (found >> lane) & ONE
    return place


@inlined()
def _keep(d, is_ground, k, end, work, spare):
    """Heights and what they say. Points after the node's are written over when their turn comes, unless it is
    another thread's: from `end` on."""
    if k + STEP <= end:
        store(work.dz, k, d)
        store_mask(work.ground, k, is_ground)
        return
    store(spare[0], 0, d)
    store_mask(spare[1], 0, is_ground)
    for i in range(end - k):
        work.dz[k + i], work.ground[k + i] = spare[0][i], spare[1][i]


@inlined()
def measure_node(points, first, last, end, plane, rules, work, spare):
    """Heights over a node's plane, ground or not by them alone, and what more they say: counters, and how many points
    are near, which are listed."""
    h, sx, sy = splat(plane[0]), splat(plane[1]), splat(plane[2])
    ground_below = rules.foot if rules.around else rules.threshold
    lowest, highest = min(min(rules.foot, VOTE_LOWEST), rules.smooth_threshold), max(rules.standing, VOTE_TOP)
    nothing, one = splat(F(0)), splat(F(1))
    near = near_high = open_near = open_high = seen = wall = nothing
    place = first
    for k in range(first, last, STEP):
        d = load(points.z, k) - (h + sx * load(points.x, k) + sy * load(points.y, k))
        _keep(d, (d < ground_below) & (d >= -rules.low_outlier), k, end, work, spare)
        if not rules.around:
            continue
        is_point, is_open = numbers() < F(last - k), none_of(points.pillar, k, WALL)
        place = _list_near(is_point & (d >= lowest) & (d < highest), k, last, work.near, place)
        is_near = is_point & (d >= BELOW) & (d < rules.clear_threshold)
        is_high = is_near & (d >= RAISED)
        on_ground, low = is_point & is_open & (d > -ON_GROUND) & (d < ON_GROUND), is_point & (d < WALL_TOP)
        near, near_high = near + where(is_near, one, nothing), near_high + where(is_high, one, nothing)
        open_near = open_near + where(is_near & is_open, one, nothing)
        open_high = open_high + where(is_high & is_open, one, nothing)
        seen = seen + where(on_ground, one, nothing)
        wall = wall + where(low, one, nothing) - where(low & is_open, one, nothing)
    counts = total(near), total(near_high), total(open_near), total(open_high), total(seen), total(wall)
    return place - first, counts


@inlined()
def _count_bands(points, c, rules, work):
    """Per pillar of a node how many points lie in each band of heights."""
    pillar, dz, near, bands = points.pillar, work.dz, work.near, work.bands
    bands[c] = 0
    first = U(points.start[c])
    for place in range(first, first + U(work.near_count[c])):
        k = U(near[place])
        d = dz[k]
        if d >= rules.foot and d < rules.standing:
            # The band's number: how many of the limits lie below d.
            band = int(d >= rules.threshold) + int(d >= rules.clear_threshold)
            band += int(d >= rules.highest) + int(d >= rules.top)
            bands[c, pillar[k] & PILLAR, band] += np.uint16(1)


@inner()
def measure_row(row, end, points, columns, mean, rules, work, counters, spare):
    """Heights over the surface of every point of a row of nodes; per pillar how many of them lie in each band; per node
    the counters of the model."""
    listed = points.listed
    counters[:] = 0
    for i in range(U(listed.row[row]), U(listed.row[row + 1])):
        c = U(listed.nodes[i])
        first, last, column = U(points.start[c]), U(points.start[c + ONE]), c - U(row * columns)
        if first == last:
            continue
        plane = mean[0, column + ONE], mean[1, column + ONE], mean[2, column + ONE]
        n, counts = measure_node(points, first, last, end, plane, rules, work, spare)
        if not rules.around:
            continue
        work.near_count[c] = n
        at = column + U(MARGIN)
        counters[NEAR, at], counters[NEAR_HIGH, at] = np.int32(counts[0]), np.int32(counts[1])
        counters[OPEN_NEAR, at], counters[OPEN_HIGH, at] = np.int32(counts[2]), np.int32(counts[3])
        counters[SEEN_GROUND, at], counters[WALL_RETURNS, at] = np.int32(counts[4]), np.int32(counts[5])
        if n > 0:
            _count_bands(points, c, rules, work)
