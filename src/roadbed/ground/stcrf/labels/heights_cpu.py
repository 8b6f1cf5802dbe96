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
    STRUCTURE_TOP,
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
    lacks_bits,
    lane_indices,
    load,
    mask_bits,
    splat,
    store,
    store_first,
    store_mask,
    to_int32,
    where,
)
from roadbed.kernels.simd_reductions import compress, count_true, sum_lanes

BANDS_ROOM = LANES  # of which BANDS are used: the counts of a pillar are added as one vector
CODES = U(256)  # points that are counted together


@merged()
def _band(d, rules):
    """The number of the band of heights: how many of the limits lie below."""
    nothing, one = splat(np.int32(0)), splat(np.int32(1))
    band = where(d >= rules.threshold, one, nothing) + where(d >= rules.clear_threshold, one, nothing)
    return band + where(d >= rules.highest, one, nothing) + where(d >= TOP, one, nothing)


@inlined()
def near_from(rules):
    """Height from which points are listed as near."""
    return min(min(FOOT, VOTE_LOWEST), rules.smooth_threshold)


@inlined()
def chosen_places(is_chosen, k):
    """The numbers of the chosen ones of the points from k on, in the first lanes."""
    return compress(is_chosen, to_int32(lane_indices()) + splat(np.int32(k)))


@inner()
def _store_last(d, is_ground, k, end, dz, ground, spare):
    """Heights and what they say of the last points of a thread: those from `end` on are another thread's."""
    spare_dz, spare_ground = spare
    store(spare_dz, 0, d)
    store_mask(spare_ground, 0, is_ground)
    for i in range(end - k):
        dz[k + i], ground[k + i] = spare_dz[i], spare_ground[i]


@inner()
def measure_row(row, end, points, columns, mean, rules, work, counters, scratch):
    """Heights over the surface of every point of a row of nodes, and ground or not by them alone; near points are
    listed; per pillar how many points lie in each band of heights; per node the counters of the model.

    No array is named or passed on inside of the loops: Numba would count references to it, with atomic operations.
    """
    start, x, y, z, pillar = points.start, points.x, points.y, points.z, points.pillar
    nodes, row_start = points.active_nodes.nodes, points.active_nodes.row
    dz, ground, near, bands = work.dz, work.ground, work.near, work.bands
    near_count, band_count = work.near_count, work.band_count
    codes, spare = scratch
    ground_below = FOOT if rules.around else rules.threshold
    lowest, highest = near_from(rules), max(rules.highest, VOTE_TOP)
    nothing, one = splat(F(0)), splat(F(1))
    counters[:] = 0
    for i in range(U(row_start[row]), U(row_start[row + 1])):
        c = U(nodes[i])
        column = c - U(row * columns)
        first, last = U(start[c]), U(start[c + ONE])
        h, sx, sy = splat(mean[0, column + ONE]), splat(mean[1, column + ONE]), splat(mean[2, column + ONE])
        near_points = near_high = open_near = open_high = seen = wall = nothing
        place, waiting, counted = first, U(0), U(0)
        for k in range(first, last, STEP):
            d = load(z, k) - (h + sx * load(x, k) + sy * load(y, k))
            is_ground = (d < ground_below) & (d >= -rules.low_outlier)
            if k + STEP <= end:  # points after the node's are written over when their turn comes
                store(dz, k, d)
                store_mask(ground, k, is_ground)
            else:
                _store_last(d, is_ground, k, end, dz, ground, spare)
            if not rules.around:
                continue
            is_point, is_open = lane_indices() < F(last - k), lacks_bits(pillar, k, WALL)
            # Points over which more than their own height decides: an eighth of a scan.
            in_list = is_point & (d >= lowest) & (d < highest)
            if mask_bits(in_list):
                store_first(near, place, chosen_places(in_list, k), count_true(in_list))
                place += U(count_true(in_list))
            in_bands = is_point & (d >= FOOT) & (d < STRUCTURE_TOP)
            if mask_bits(in_bands):
                code = (load(pillar, k) & np.int32(PILLAR)) * np.int32(BANDS_ROOM) + _band(d, rules)
                store(codes, waiting, compress(in_bands, code))
                waiting += U(count_true(in_bands))
            if waiting > CODES - STEP or (waiting > U(0) and k + STEP >= last):
                for inside in range(U(bands.shape[1]) if counted == U(0) else U(0)):
                    store(bands, (c, inside, U(0)), splat(np.int32(0)))
                for j in range(waiting):
                    bands[c, U(codes[j]) // U(BANDS_ROOM), U(codes[j]) % U(BANDS_ROOM)] += np.uint16(1)
                waiting, counted = U(0), counted + waiting
            is_near = is_point & (d >= BELOW) & (d < rules.clear_threshold)
            is_high = is_near & (d >= RAISED)
            on_ground, low = is_point & is_open & (d > -ON_GROUND) & (d < ON_GROUND), is_point & (d < WALL_TOP)
            near_points = near_points + where(is_near, one, nothing)
            near_high = near_high + where(is_high, one, nothing)
            open_near = open_near + where(is_near & is_open, one, nothing)
            open_high = open_high + where(is_high & is_open, one, nothing)
            seen = seen + where(on_ground, one, nothing)
            wall = wall + where(low, one, nothing) - where(low & is_open, one, nothing)
        if not rules.around:
            continue
        near_count[c], band_count[c] = place - first, counted
        at = column + U(MARGIN)
        counters[NEAR, at], counters[NEAR_HIGH, at] = np.int32(sum_lanes(near_points)), np.int32(sum_lanes(near_high))
        counters[OPEN_NEAR, at], counters[OPEN_HIGH, at] = (
            np.int32(sum_lanes(open_near)),
            np.int32(sum_lanes(open_high)),
        )
        counters[SEEN_GROUND, at], counters[WALL_RETURNS, at] = np.int32(sum_lanes(seen)), np.int32(sum_lanes(wall))
