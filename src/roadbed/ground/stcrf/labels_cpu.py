# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Labels from the height over the surface, from what stands in the fine columns around, and from the kind of place."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, HALF_LOG2_E, ONE, F, U, njit, prange
from roadbed.frames import Label
from roadbed.ground.stcrf.measure_cpu import BANDS, count_bands, measure_heights
from roadbed.ground.stcrf.places_cpu import FOOT_BY_RATIO, FOOT_BY_SUPPORT, OPEN, SMOOTH
from roadbed.ground.stcrf.select_cpu import COLUMN
from roadbed.ground.stcrf.vote_cpu import MAY_CHANGE, cast_votes, cell_of, clear_votes, outvoted, places_in_node

_UNKNOWN, _GROUND, _OBSTACLE = np.uint8(Label.UNKNOWN), np.uint8(Label.GROUND), np.uint8(Label.OBSTACLE)
_OVERHANG, _LOW_OUTLIER = np.uint8(Label.OVERHANG), np.uint8(Label.LOW_OUTLIER)
_MANY = 6  # returns of equal height around a point of a steep bank


@njit(inline="always")
def _step_across(node, place, side):
    """A place one beyond its node's border, as place in the neighbouring node."""
    if place < 0:
        return node - 1, place + side
    if place >= side:
        return node + 1, place - side
    return node, place


@njit(cache=True)
def _sum_around(bands, start, node_row, node_column, row, column, columns, rows, side, sums):
    """Band counts summed over the 3 x 3 columns around a column, across node borders."""
    for k in range(BANDS):
        sums[k] = 0
    for beside_row in range(row - 1, row + 2):
        y, inside_y = _step_across(node_row, beside_row, side)
        if y < 0 or y >= rows:
            continue
        for beside_column in range(column - 1, column + 2):
            x, inside_x = _step_across(node_column, beside_column, side)
            if x < 0 or x >= columns:
                continue
            node = U(y * columns + x)
            if start[node] < start[node + ONE]:
                inside = U(inside_y * side + inside_x)
                for k in range(U(BANDS)):
                    sums[k] += np.int64(bands[node, inside, k])


@njit(inline="always")
def _is_standing(counts, ratio):
    """A connected structure rises here: returns in the lower and the upper bands, and more of them than at the foot."""
    middle, high = np.int64(counts[1]) + np.int64(counts[2]), np.int64(counts[3])
    return middle > 0 and high > 0 and middle + high > ratio * np.int64(counts[0])


# What is known of a low point from its own column alone.
_NO, _YES, _ASK_AROUND = 0, 1, 2


@njit(cache=True)
def _low_by_own_column(d, own, kind, rules):
    """Up to the threshold: ground, unless it is the foot of something."""
    if rules.foot_by_support and kind & FOOT_BY_SUPPORT:
        return _ASK_AROUND
    if rules.foot_by_ratio and kind & FOOT_BY_RATIO and (own[1] > 0 or own[2] > 0 or own[3] > 0):
        return _NO
    if d < rules.foot:
        return _YES
    if rules.columns and _is_standing(own, rules.ratio):
        return _NO
    return _ASK_AROUND if rules.columns_around and d >= rules.foot_around else _YES


@njit(cache=True)
def _low_by_columns_around(around, kind, rules):
    if rules.foot_by_support and kind & FOOT_BY_SUPPORT:
        return around[1] + around[2] + around[3] == 0
    return not _is_standing(around, rules.ratio_around)


@njit(cache=True)
def _raised_is_ground(d, around, kind, support, rules):
    """Above the threshold: grass and banks, only where nothing stands."""
    if around[3] + around[4] > 0:
        return False
    open_ground = rules.open_ground and kind & OPEN != 0
    firm = support >= rules.firm
    if d < rules.clear_threshold:
        return around[2] == 0 or (rules.banks and firm) or open_ground
    return (rules.steep_banks and firm and around[2] >= _MANY and around[1] > 0) or open_ground


@njit(cache=True)
def _decide_nodes(first_node, last_node, start, column, dz, bands, kinds, p00, columns, rows, side, rules, ground):
    """Ground or not for every point of a range of nodes, before the vote."""
    around = np.zeros((side * side, BANDS), np.int64)
    summed_for = np.full(side * side, -1, np.int64)  # node whose sums `around` holds, per column
    along, across = places_in_node(side)
    for c in range(first_node, last_node):
        if start[c] == start[c + 1]:
            continue
        kind = kinds[c]
        node_row = c // columns
        node_column = c - node_row * columns
        support = p00[node_row + 1, node_column + 1]
        at_foot = (rules.foot_by_support and kind & FOOT_BY_SUPPORT) or (rules.foot_by_ratio and kind & FOOT_BY_RATIO)
        limit = rules.smooth_threshold if rules.smooth and kind & SMOOTH else rules.highest
        for k in range(start[c], start[c + 1]):
            d = dz[k]
            if d >= limit or d < -rules.low_outlier:
                ground[k] = False
                continue
            if d < rules.foot and not at_foot:
                ground[k] = True
                continue
            inside = np.int64(column[k] & COLUMN)
            if d < rules.threshold:
                answer = _low_by_own_column(d, bands[c, inside], kind, rules)
                if answer != _ASK_AROUND:
                    ground[k] = answer == _YES
                    continue
            if summed_for[inside] != c:
                summed_for[inside] = c
                row, beside = np.int64(along[inside]), np.int64(across[inside])
                _sum_around(
                    bands, start, node_row, node_column, row, beside, columns, rows, side, around[inside]
                )  # fmt: skip
            if d < rules.threshold:
                ground[k] = _low_by_columns_around(around[inside], kind, rules)
            else:
                ground[k] = _raised_is_ground(d, around[inside], kind, support, rules)


@njit(cache=True, fastmath=FAST)
def _write_nodes(
    first_node, last_node, start, column, origin, dz, sorted_probability, ground, columns, side, rules, votes, label,
    probability, height,
):  # fmt: skip
    """Labels, probabilities c_j and heights to the places of the input points."""
    along, across = places_in_node(side)
    for c in range(first_node, last_node):
        if start[c] == start[c + 1]:
            continue
        row = c // columns
        top, left = U(row * side), U((c - row * columns) * side)
        for k in range(U(start[c]), U(start[c + 1])):
            d = dz[k]
            i = U(origin[k])
            height[i] = d
            probability[i] = sorted_probability[k]
            is_ground = ground[k]
            if rules.vote and d >= MAY_CHANGE and d < rules.highest:
                inside = U(column[k] & COLUMN)
                y, x = cell_of(top, along[inside]), cell_of(left, across[inside])
                is_ground = outvoted(y, x, d, is_ground, votes)
            if is_ground:
                label[i] = _GROUND
            elif d < -rules.low_outlier:
                label[i] = _LOW_OUTLIER
            else:
                label[i] = _OVERHANG if d >= rules.clearance else _OBSTACLE


@njit(cache=True)
def _write_outside(node, first, last, label, probability, height):
    for i in range(first, last):
        if node[i] < 0:
            label[i] = _UNKNOWN
            probability[i] = F(0)
            height[i] = F(np.nan)


MEASURE, DECIDE, WRITE, CLEAR = 0, 1, 2, 3  # phases of `label_points`, in this order


@njit(cache=True, fastmath=FAST)
def _label_range(
    phase, part, parts, first, last, start, x, y, z, column, origin, node, mean, p00, dz, sorted_probability,
    bands, counters, kinds, ground, votes, columns, rows, side, rules, up, down, label, probability, height,
):  # fmt: skip
    if phase == MEASURE:
        measure_heights(first, last, start, x, y, z, mean, columns, up, down, dz, sorted_probability)
        if rules.around:
            count_bands(first, last, start, dz, column, columns, rules, bands, counters)
        else:
            for k in range(start[first], start[last]):
                ground[k] = dz[k] < rules.threshold and dz[k] >= -rules.low_outlier
    elif phase == DECIDE:
        _decide_nodes(first, last, start, column, dz, bands, kinds, p00, columns, rows, side, rules, ground)
        if rules.vote:
            cast_votes(first, last, start, column, dz, ground, columns, side, votes)
    elif phase == WRITE:
        n = node.shape[0]
        _write_outside(node, part * n // parts, (part + 1) * n // parts, label, probability, height)
        _write_nodes(
            first, last, start, column, origin, dz, sorted_probability, ground, columns, side, rules, votes, label,
            probability, height,
        )  # fmt: skip
    else:
        clear_votes(first, last, start, columns, side, votes)


@njit(parallel=True, cache=True, fastmath=FAST)
def label_points(
    phase, chunks, start, x, y, z, column, origin, node, mean, p00, dz, sorted_probability, bands, counters, kinds,
    ground, votes, columns, rows, side, rules, sigma_up, sigma_down, label, probability, height,
):  # fmt: skip
    """One phase on ranges of nodes; ranges begin where no cell of the vote is shared. One loop: it compiles once."""
    parts = chunks.shape[0] - 1
    up = HALF_LOG2_E / (sigma_up * sigma_up)
    down = HALF_LOG2_E / (sigma_down * sigma_down)
    for i in prange(parts):
        _label_range(
            phase, i, parts, chunks[i], chunks[i + 1], start, x, y, z, column, origin, node, mean, p00, dz,
            sorted_probability, bands, counters, kinds, ground, votes, columns, rows, side, rules, up, down, label,
            probability, height,
        )  # fmt: skip
