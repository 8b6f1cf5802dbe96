# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Heights of points over the surface, and counts of them: bands of heights per pillar, counters per node."""

import numpy as np

from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.points.node_classes_cpu import MARGIN
from roadbed.ground.stcrf.points.select_cpu import PILLAR, WALL
from roadbed.kernels.jit import inlined, merged
from roadbed.kernels.numeric import ONE, F, U, max, min
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
from roadbed.kernels.simd_reductions import compress, count_true, store_column, sum_each

BANDS_ROOM = LANES  # counters per pillar, of which BANDS are used: they are added as one vector
CODES = 256  # points that are buffered before they are counted


@merged()
def _band(d, rules):
    """The band of each height: the number of limits below it."""
    nothing, one = splat(np.int32(0)), splat(np.int32(1))
    band = where(d >= rules.threshold, one, nothing) + where(d >= rules.clear_threshold, one, nothing)
    return band + where(d >= rules.highest, one, nothing) + where(d >= model.TOP, one, nothing)


@inlined()
def near_from(rules):
    """The height from which points are listed as near."""
    return min(min(model.FOOT, model.VOTE_LOWEST), rules.smooth_threshold)


@inlined()
def compressed_numbers(is_chosen, k):
    """The numbers of the points k, k + 1, ... whose mask is true, in the first lanes."""
    return compress(is_chosen, to_int32(lane_indices()) + splat(np.int32(k)))


@merged()
def _store_last(d, is_ground, k, end, dz, ground, spare):
    """Store heights and decisions of the last points of a thread: those from `end` on belong to another thread."""
    spare_dz, spare_ground = spare
    store(spare_dz, 0, d)
    store_mask(spare_ground, 0, is_ground)
    for i in range(end - k):
        dz[k + i], ground[k + i] = spare_dz[i], spare_ground[i]


@merged()
def measure_row(row, end, points, columns, mean, rules, work, counters, room):
    """For a row of nodes: heights of all points over the surface, ground or not by height, lists of near points, points
    per pillar and band of heights, and the counters of each node.

    Loops neither assign nor pass on arrays: Numba would count references to them with atomic operations.
    """
    start, x, y, z, pillar = points.start, points.x, points.y, points.z, points.pillar
    nodes, row_start = points.active_nodes.nodes, points.active_nodes.row
    dz, ground, near, bands = work.dz, work.ground, work.near, work.bands
    near_count, band_slot = work.near_count, work.band_slot
    codes, spare = room
    ground_below = model.FOOT if rules.around else rules.threshold
    lowest, highest = near_from(rules), max(rules.highest, model.VOTE_TOP)
    nothing, one = splat(F(0)), splat(F(1))
    counters[:] = 0
    for i in range(U(row_start[row]), U(row_start[row + 1])):
        c = U(nodes[i])
        column = c - U(row * columns)
        first, last = U(start[c]), U(start[c + ONE])
        h, sx, sy = splat(mean[0, column + ONE]), splat(mean[1, column + ONE]), splat(mean[2, column + ONE])
        near_points = near_high = open_near = open_high = seen = wall = nothing
        end_of_list, waiting, counted = first, U(0), U(0)
        for k in range(first, last, STEP):
            d = load(z, k) - (h + sx * load(x, k) + sy * load(y, k))
            is_ground = (d < ground_below) & (d >= -rules.low_outlier)
            if k + STEP <= end:  # values behind the node's last point are overwritten later
                store(dz, k, d)
                store_mask(ground, k, is_ground)
            else:
                _store_last(d, is_ground, k, end, dz, ground, spare)
            if not rules.around:
                continue
            is_point, is_open = lane_indices() < F(last - k), lacks_bits(pillar, k, WALL)
            # Points for which more than the height decides: an eighth of a scan.
            in_list = is_point & (d >= lowest) & (d < highest)
            if mask_bits(in_list):
                store_first(near, end_of_list, compressed_numbers(in_list, k), count_true(in_list))
                end_of_list += U(count_true(in_list))
            in_bands = is_point & (d >= model.FOOT) & (d < model.STRUCTURE_TOP)
            if mask_bits(in_bands):
                code = (load(pillar, k) & np.int32(PILLAR)) * np.int32(BANDS_ROOM) + _band(d, rules)
                store(codes, waiting, compress(in_bands, code))
                waiting += U(count_true(in_bands))
            if waiting > U(CODES) - STEP or (waiting > U(0) and k + STEP >= last):
                for inside in range(U(bands.shape[1]) if counted == U(0) else U(0)):
                    store(bands, (i + ONE, inside, U(0)), splat(np.int32(0)))
                for j in range(waiting):
                    bands[i + ONE, U(codes[j]) // U(BANDS_ROOM), U(codes[j]) % U(BANDS_ROOM)] += np.uint16(1)
                waiting, counted = U(0), counted + waiting
            is_near = is_point & (d >= model.BELOW) & (d < rules.clear_threshold)
            is_high = is_near & (d >= model.RAISED)
            on_ground = is_point & is_open & (d > -model.ON_GROUND) & (d < model.ON_GROUND)
            low = is_point & (d < model.WALL_TOP)
            near_points = near_points + where(is_near, one, nothing)
            near_high = near_high + where(is_high, one, nothing)
            open_near = open_near + where(is_near & is_open, one, nothing)
            open_high = open_high + where(is_high & is_open, one, nothing)
            seen = seen + where(on_ground, one, nothing)
            wall = wall + where(low, one, nothing) - where(low & is_open, one, nothing)
        if not rules.around:
            continue
        near_count[c], band_slot[c] = end_of_list - first, i + ONE if counted > U(0) else U(0)
        # In the order of the counters in model.py; the last two rows are empty.
        sums = sum_each((near_points, near_high, open_near, open_high, seen, wall, nothing, nothing))
        store_column(counters, (0, column + U(MARGIN)), to_int32(sums))
