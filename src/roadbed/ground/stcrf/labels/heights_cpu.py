# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Heights over the surface, and what a node's points say of it together: bands of heights per pillar, counters."""

from __future__ import annotations

import numpy as np

from roadbed.ground.stcrf.model import (
    BELOW,
    FOOT,
    NEAR,
    NEAR_HIGH,
    ON_GROUND,
    OPEN_HIGH,
    OPEN_NEAR,
    RAISED,
    SEEN_GROUND,
    TOP,
    VOTE_LOWEST,
    VOTE_TOP,
    WALL_RETURNS,
    WALL_TOP,
)  # fmt: skip
from roadbed.ground.stcrf.points.node_classes_cpu import MARGIN
from roadbed.ground.stcrf.points.select_cpu import PILLAR, WALL
from roadbed.kernels.jit import inlined, inner, merged
from roadbed.kernels.numeric import ONE, F, U
from roadbed.kernels.simd import (
    LANES,
    STEP,
    bits,
    load,
    none_of,
    numbers,
    splat,
    store,
    store_first,
    store_mask,
    where,
    whole,
)
from roadbed.kernels.simd_reductions import chosen, how_many, total

BANDS_ROOM = LANES  # of which BANDS are used: the counts of a pillar are added as one vector
CODES = U(256)  # points that are counted together


@merged()
def _band(d, rules):
    """The number of the band of heights: how many of the limits lie below."""
    nothing, one = splat(np.int32(0)), splat(np.int32(1))
    band = where(d >= rules.threshold, one, nothing) + where(d >= rules.clear_threshold, one, nothing)
    return band + where(d >= rules.highest, one, nothing)


@inlined()
def _count_bands(codes, n, is_first, bands, c):
    """How many points of node c lie in each pillar and band of heights, with `n` more of which these are coded."""
    if is_first:
        bands[c] = 0
    for i in range(n):
        bands[c, U(codes[i]) // U(BANDS_ROOM), U(codes[i]) % U(BANDS_ROOM)] += np.uint16(1)


@inlined()
def near_from(rules):
    """Height from which points are listed as near."""
    return min(min(FOOT, VOTE_LOWEST), rules.smooth_threshold)


@inlined()
def list_near(is_near, k, near, place):
    """Points over which more than their own height decides, in a row: an eighth of a scan. Returns the next place."""
    if bits(is_near):
        store_first(near, place, chosen(is_near, whole(numbers()) + splat(np.int32(k))), how_many(is_near))
    return place + U(how_many(is_near))


@merged()
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
def measure_node(points, c, end, plane, rules, work, scratch):
    """Heights over a node's plane, ground or not by them alone, and what more they say: counters, how many points are
    near, which are listed, and how many lie in the bands of its pillars, where they are counted."""
    first, last = U(points.start[c]), U(points.start[c + ONE])
    h, sx, sy = splat(plane[0]), splat(plane[1]), splat(plane[2])
    codes, spare = scratch
    ground_below = FOOT if rules.around else rules.threshold
    lowest, highest = near_from(rules), max(rules.highest, VOTE_TOP)
    nothing, one = splat(F(0)), splat(F(1))
    near = near_high = open_near = open_high = seen = wall = nothing
    place, waiting, counted = first, U(0), U(0)
    for k in range(first, last, STEP):
        d = load(points.z, k) - (h + sx * load(points.x, k) + sy * load(points.y, k))
        _keep(d, (d < ground_below) & (d >= -rules.low_outlier), k, end, work, spare)
        if not rules.around:
            continue
        is_point, is_open = numbers() < F(last - k), none_of(points.pillar, k, WALL)
        place = list_near(is_point & (d >= lowest) & (d < highest), k, work.near, place)
        in_bands = is_point & (d >= FOOT) & (d < TOP)
        if bits(in_bands):
            pillar = load(points.pillar, k) & np.int32(PILLAR)
            store(codes, waiting, chosen(in_bands, pillar * np.int32(BANDS_ROOM) + _band(d, rules)))
            waiting += U(how_many(in_bands))
            if waiting > CODES - STEP:
                _count_bands(codes, waiting, counted == U(0), work.bands, c)
                waiting, counted = U(0), counted + waiting
        is_near = is_point & (d >= BELOW) & (d < rules.clear_threshold)
        is_high = is_near & (d >= RAISED)
        on_ground, low = is_point & is_open & (d > -ON_GROUND) & (d < ON_GROUND), is_point & (d < WALL_TOP)
        near, near_high = near + where(is_near, one, nothing), near_high + where(is_high, one, nothing)
        open_near = open_near + where(is_near & is_open, one, nothing)
        open_high = open_high + where(is_high & is_open, one, nothing)
        seen = seen + where(on_ground, one, nothing)
        wall = wall + where(low, one, nothing) - where(low & is_open, one, nothing)
    if waiting > U(0):
        _count_bands(codes, waiting, counted == U(0), work.bands, c)
    counts = total(near), total(near_high), total(open_near), total(open_high), total(seen), total(wall)
    return place - first, counted + waiting, counts


@inner()
def measure_row(row, end, points, columns, mean, rules, work, counters, scratch):
    """Heights over the surface of every point of a row of nodes; per pillar how many of them lie in each band; per node
    the counters of the model."""
    listed = points.listed
    counters[:] = 0
    for i in range(U(listed.row[row]), U(listed.row[row + 1])):
        c = U(listed.nodes[i])
        column = c - U(row * columns)
        plane = mean[0, column + ONE], mean[1, column + ONE], mean[2, column + ONE]
        n, banded, counts = measure_node(points, c, end, plane, rules, work, scratch)
        if not rules.around:
            continue
        work.near_count[c], work.band_count[c] = n, banded
        at = column + U(MARGIN)
        counters[NEAR, at], counters[NEAR_HIGH, at] = np.int32(counts[0]), np.int32(counts[1])
        counters[OPEN_NEAR, at], counters[OPEN_HIGH, at] = np.int32(counts[2]), np.int32(counts[3])
        counters[SEEN_GROUND, at], counters[WALL_RETURNS, at] = np.int32(counts[4]), np.int32(counts[5])
