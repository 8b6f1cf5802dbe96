# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Decides ground or not by the height over the surface, the structure in the pillars around, and the node class."""

import numpy as np

from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.labels.heights_cpu import BANDS_ROOM, compressed_numbers, near_from
from roadbed.ground.stcrf.points.select_cpu import PILLAR
from roadbed.kernels.jit import inner, merged, njit
from roadbed.kernels.numeric import F, U
from roadbed.kernels.simd import STEP, lane_indices, load, mask_bits, splat, store, store_first
from roadbed.kernels.simd_reductions import count_true


@njit(inline="always")
def _step_across(node, pillar, side):
    """A pillar index beyond the border of its node, as an index in the neighbouring node."""
    if pillar < 0:
        return node - 1, pillar + side
    if pillar >= side:
        return node + 1, pillar - side
    return node, pillar


@merged()
def _sum_around(bands, band_slot, node, pillar, shape, side):
    """Band counts summed over the 3 x 3 pillars around one, across node borders; node and pillar are (row, column)."""
    sums = splat(np.int32(0))
    for row in range(pillar[0] - 1, pillar[0] + 2):
        y, inside_y = _step_across(node[0], row, side)
        if y < 0 or y >= shape.rows:
            continue
        for column in range(pillar[1] - 1, pillar[1] + 2):
            x, inside_x = _step_across(node[1], column, side)
            if x < 0 or x >= shape.columns:
                continue
            slot = U(band_slot[U(y * shape.columns + x)])
            if slot > U(0):
                sums = sums + load(bands, (slot, U(inside_y * side + inside_x), U(0)))
    return sums


@njit(inline="always")
def _is_structure(counts, ratio):
    """Whether there is a connected structure: returns in lower and upper bands, more than `ratio` per foot return."""
    middle, high = np.int64(counts[1]) + np.int64(counts[2]), np.int64(counts[3])
    return middle > 0 and high > 0 and middle + high > ratio * np.int64(counts[0])


# Decisions for a low point by its own pillar.
_NO, _YES, _ASK_AROUND = 0, 1, 2


@merged()
def _low_by_own_pillar(d, own, node_class, rules):
    """Below the threshold: ground, unless it is the foot of a structure."""
    if rules.foot_by_support and node_class & model.FOOT_BY_SUPPORT:
        return _ASK_AROUND
    if rules.foot_by_ratio and node_class & model.FOOT_BY_RATIO and (own[1] > 0 or own[2] > 0 or own[3] > 0):
        return _NO
    if d < model.FOOT:
        return _YES
    if rules.pillars and _is_structure(own, model.RATIO_OWN):
        return _NO
    return _ASK_AROUND if rules.pillars_around and d >= model.FOOT_AROUND else _YES


@merged()
def _low_by_pillars_around(around, node_class, rules):
    """Below the threshold: decide by the 3 x 3 pillars around."""
    if rules.foot_by_support and node_class & model.FOOT_BY_SUPPORT:
        return around[1] + around[2] + around[3] == 0
    return not _is_structure(around, model.RATIO_AROUND)


@merged()
def _raised_is_ground(d, around, node_class, support, rules):
    """Above the threshold: grass and banks are ground if no structure rises above them."""
    if around[3] + around[4] > 0:
        return False
    open_ground = rules.open_ground and node_class & model.OPEN != 0
    firm = support >= model.FIRM_GROUND
    if d < rules.clear_threshold:
        return around[2] == 0 or (rules.banks and firm) or open_ground
    return (rules.steep_banks and firm and around[2] >= model.MANY_ALIKE and around[1] > 0) or open_ground


@merged()
def _list_lower(first, last, dz, rules, near, end):
    """Append the points of a node below the near ones to the list of near points; returns its new end."""
    lowest = near_from(rules)
    for k in range(first, last, STEP):
        d = load(dz, k)
        is_lower = (d < lowest) & (d >= -rules.low_outlier) & (lane_indices() < F(last - k))
        if mask_bits(is_lower):
            store_first(near, end, compressed_numbers(is_lower, k), count_true(is_lower))
            end += U(count_true(is_lower))
    return end


@inner()
def decide_nodes(first_active, last_active, points, shape, side, rules, p00, work):
    """Decide ground or not for every point of a range of active nodes, before the vote."""
    start, pillar, dz, bands, ground = points.start, points.pillar, work.dz, work.bands, work.ground
    near, band_slot, along, across = work.near, work.band_slot, work.pillar_positions[0], work.pillar_positions[1]
    # Band counts summed over the 3 x 3 pillars around each pillar of a node, and the node for which they were computed.
    around, summed_for = np.empty((side * side, BANDS_ROOM), np.int32), np.empty(side * side, np.int32)
    summed_for[:] = -1
    nodes, near_count, node_classes = points.active_nodes.nodes, work.near_count, work.node_classes
    no_points = np.uint16(0), np.uint16(0), np.uint16(0), np.uint16(0)
    for i in range(first_active, last_active):
        c = np.int64(nodes[i])
        node_class, slot = node_classes[c], U(band_slot[c])
        node_row = c // shape.columns
        node_column = c - node_row * shape.columns
        support = p00[node_row + 1, node_column + 1]
        at_foot = (rules.foot_by_support and node_class & model.FOOT_BY_SUPPORT) or (
            rules.foot_by_ratio and node_class & model.FOOT_BY_RATIO
        )
        limit = rules.smooth_threshold if rules.smooth and node_class & model.SMOOTH else rules.highest
        # Without a foot rule only near points are tested: the others were decided by their height.
        last = U(start[c]) + U(near_count[c])
        if at_foot:
            last = _list_lower(U(start[c]), U(start[c + 1]), dz, rules, near, last)
        for position in range(U(start[c]), last):
            k = U(near[position])
            d = dz[k]
            if d >= limit or d < -rules.low_outlier:
                ground[k] = False
                continue
            if d < model.FOOT and not at_foot:
                ground[k] = True
                continue
            inside = np.int64(pillar[k] & PILLAR)
            if d < rules.threshold:
                own = no_points
                if slot > U(0):  # scalars instead of a slice, whose references Numba would count
                    own = bands[slot, inside, 0], bands[slot, inside, 1], bands[slot, inside, 2], bands[slot, inside, 3]
                answer = _low_by_own_pillar(d, own, node_class, rules)
                if answer != _ASK_AROUND:
                    ground[k] = answer == _YES
                    continue
            if summed_for[inside] != c:
                summed_for[inside] = c
                position_in_node = np.int64(along[inside]), np.int64(across[inside])
                sums = _sum_around(bands, band_slot, (node_row, node_column), position_in_node, shape, side)
                store(around, (inside, 0), sums)
            counts = (
                around[inside, 0], around[inside, 1], around[inside, 2], around[inside, 3], around[inside, 4],
            )  # fmt: skip
            if d < rules.threshold:
                ground[k] = _low_by_pillars_around(counts, node_class, rules)
            else:
                ground[k] = _raised_is_ground(d, counts, node_class, support, rules)
