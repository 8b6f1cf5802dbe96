# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Labels from the height over the surface, from what stands in the pillars around, and from the kind of place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.compute.cpu import FAST, F, U, njit, prange
from roadbed.ground.stcrf.model import (
    BANDS,
    FOOT_BY_RATIO,
    FOOT_BY_SUPPORT,
    GROUND,
    LOW_OUTLIER,
    MANY_ALIKE,
    OBSTACLE,
    OPEN,
    OVERHANG,
    SMOOTH,
    UNKNOWN,
    VOTE_MAY_CHANGE,
)  # fmt: skip
from roadbed.ground.stcrf.places_cpu import count_bands, list_near, measure_heights
from roadbed.ground.stcrf.select_cpu import PILLAR
from roadbed.ground.stcrf.vote_cpu import cast_votes, cell_of, clear_votes, outvoted, places_in_node


class LabelArrays(NamedTuple):
    """What the phases of labelling hand on to each other; per point in node order."""

    dz: np.ndarray  # m over the surface
    probability: np.ndarray  # c_j
    ground: np.ndarray  # before the vote
    near: np.ndarray  # which points of a node, from its start on, stand near enough to the ground for other rules
    near_count: np.ndarray  # (nodes,) how many
    bands: np.ndarray  # (nodes, pillars, BANDS) points per band of heights; undefined where no point is near
    counters: np.ndarray  # (COUNTERS, rows, columns)
    kinds: np.ndarray  # (nodes,) of places
    votes: np.ndarray


@njit(inline="always")
def _step_across(node, place, side):
    """A place one beyond its node's border, as place in the neighbouring node."""
    if place < 0:
        return node - 1, place + side
    if place >= side:
        return node + 1, place - side
    return node, place


@njit(cache=True)
def _sum_around(bands, near_count, node, place, shape, side, sums):
    """Band counts summed over the 3 x 3 pillars around one, across node borders; node and place are (row, column)."""
    for k in range(BANDS):
        sums[k] = 0
    for row in range(place[0] - 1, place[0] + 2):
        y, inside_y = _step_across(node[0], row, side)
        if y < 0 or y >= shape.rows:
            continue
        for column in range(place[1] - 1, place[1] + 2):
            x, inside_x = _step_across(node[1], column, side)
            if x < 0 or x >= shape.columns:
                continue
            node_there = U(y * shape.columns + x)
            if near_count[node_there] > 0:
                inside = U(inside_y * side + inside_x)
                for k in range(U(BANDS)):
                    sums[k] += np.int64(bands[node_there, inside, k])


@njit(inline="always")
def _is_standing(counts, ratio):
    """A connected structure rises here: returns in the lower and the upper bands, and more of them than at the foot."""
    middle, high = np.int64(counts[1]) + np.int64(counts[2]), np.int64(counts[3])
    return middle > 0 and high > 0 and middle + high > ratio * np.int64(counts[0])


# What is known of a low point from its own pillar alone.
_NO, _YES, _ASK_AROUND = 0, 1, 2


@njit(cache=True)
def _low_by_own_pillar(d, own, kind, rules):
    """Up to the threshold: ground, unless it is the foot of something."""
    if rules.foot_by_support and kind & FOOT_BY_SUPPORT:
        return _ASK_AROUND
    if rules.foot_by_ratio and kind & FOOT_BY_RATIO and (own[1] > 0 or own[2] > 0 or own[3] > 0):
        return _NO
    if d < rules.foot:
        return _YES
    if rules.pillars and _is_standing(own, rules.ratio):
        return _NO
    return _ASK_AROUND if rules.pillars_around and d >= rules.foot_around else _YES


@njit(cache=True)
def _low_by_pillars_around(around, kind, rules):
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
    return (rules.steep_banks and firm and around[2] >= MANY_ALIKE and around[1] > 0) or open_ground


@njit(cache=True)
def _decide_nodes(first_node, last_node, points, shape, side, rules, p00, work):
    """Ground or not for every point of a range of nodes, before the vote."""
    start, pillar, dz, bands, ground = points.start, points.pillar, work.dz, work.bands, work.ground
    near, near_count, nothing = work.near, work.near_count, np.zeros(BANDS, np.uint16)
    around = np.zeros((side * side, BANDS), np.int64)
    summed_for = np.full(side * side, -1, np.int64)  # node whose sums `around` holds, per pillar
    along, across = places_in_node(side)
    for c in range(first_node, last_node):
        if start[c] == start[c + 1]:
            continue
        kind = work.kinds[c]
        node_row = c // shape.columns
        node_column = c - node_row * shape.columns
        support = p00[node_row + 1, node_column + 1]
        at_foot = (rules.foot_by_support and kind & FOOT_BY_SUPPORT) or (rules.foot_by_ratio and kind & FOOT_BY_RATIO)
        limit = rules.smooth_threshold if rules.smooth and kind & SMOOTH else rules.highest
        # Elsewhere than at feet only the listed points are in question: the others were decided by their height.
        last = start[c + 1] if at_foot else start[c] + near_count[c]
        for place_listed in range(start[c], last):
            k = place_listed if at_foot else np.int64(near[place_listed])
            d = dz[k]
            if d >= limit or d < -rules.low_outlier:
                ground[k] = False
                continue
            if d < rules.foot and not at_foot:
                ground[k] = True
                continue
            inside = np.int64(pillar[k] & PILLAR)
            if d < rules.threshold:
                own = bands[c, inside] if near_count[c] > 0 else nothing
                answer = _low_by_own_pillar(d, own, kind, rules)
                if answer != _ASK_AROUND:
                    ground[k] = answer == _YES
                    continue
            if summed_for[inside] != c:
                summed_for[inside] = c
                place = np.int64(along[inside]), np.int64(across[inside])
                _sum_around(bands, near_count, (node_row, node_column), place, shape, side, around[inside])
            if d < rules.threshold:
                ground[k] = _low_by_pillars_around(around[inside], kind, rules)
            else:
                ground[k] = _raised_is_ground(d, around[inside], kind, support, rules)


@njit(cache=True, fastmath=FAST)
def _judge_by_height(first_point, last_point, rules, dz, ground):
    """All points by their own height alone."""
    highest, lowest = rules.foot if rules.around else rules.threshold, -rules.low_outlier
    for k in range(U(first_point), U(last_point)):
        ground[k] = (dz[k] < highest) & (dz[k] >= lowest)


@njit(cache=True, fastmath=FAST)
def _write_nodes(first_node, last_node, points, shape, side, rules, work, out):
    """Labels, probabilities c_j and heights to the places of the input points."""
    start, pillar, origin = points.start, points.pillar, points.origin
    dz, sorted_probability, ground, votes = work.dz, work.probability, work.ground, work.votes
    label, probability, height = out.label, out.probability, out.height
    along, across = places_in_node(side)
    for c in range(first_node, last_node if rules.vote else first_node):
        if work.near_count[c] == 0:
            continue
        row = c // shape.columns
        top, left = U(row * side), U((c - row * shape.columns) * side)
        for place in range(U(start[c]), U(start[c]) + U(work.near_count[c])):
            k = U(work.near[place])
            d = dz[k]
            if d >= VOTE_MAY_CHANGE and d < rules.highest:
                inside = U(pillar[k] & PILLAR)
                y, x = cell_of(top, along[inside]), cell_of(left, across[inside])
                ground[k] = outvoted(y, x, d, ground[k], votes)
    for k in range(U(start[first_node]), U(start[last_node])):
        d = dz[k]
        i = U(origin[k])
        height[i] = d
        probability[i] = sorted_probability[k]
        other = LOW_OUTLIER if d < -rules.low_outlier else (OVERHANG if d >= rules.clearance else OBSTACLE)
        label[i] = GROUND if ground[k] else other


@njit(cache=True)
def _rule_out_standing(first, last, points, ground):
    """What cannot be ground votes against it, however low it lies."""
    for k in range(first, last):
        if points.standing[points.origin[k]]:
            ground[k] = False


@njit(cache=True)
def _relabel_standing(first, last, points, label):
    """Nor is it made ground by its neighbours."""
    for k in range(first, last):
        i = points.origin[k]
        if points.standing[i] and label[i] == GROUND:
            label[i] = OBSTACLE


@njit(cache=True)
def _write_outside(node, first, last, out):
    """Points without a place on the lattice; there are few, so that blocks are asked first, which vectorises."""
    for block in range(U(first), U(last), _BLOCK):
        end = min(block + _BLOCK, U(last))
        least = np.int32(0)
        for i in range(block, end):
            least = min(least, node[i])
        if least == 0:
            continue
        for i in range(block, end):
            if node[i] < 0:
                out.label[i] = UNKNOWN
                out.probability[i] = F(0)
                out.height[i] = F(np.nan)


_BLOCK = U(256)  # points
MEASURE, DECIDE, WRITE, CLEAR = 0, 1, 2, 3  # phases of `label_points`, in this order


@njit(cache=True, fastmath=FAST)
def _label_range(phase, chunks, part, points, shape, side, rules, surface, work, out):
    first, last = chunks[part], chunks[part + 1]
    mean, p00 = surface
    first_point, last_point, some_stand = points.start[first], points.start[last], points.standing.shape[0] > 0
    if phase == MEASURE:
        measure_heights(first, last, points, shape, mean, rules, work.dz, work.probability)
        if rules.around:
            list_near(first, last, points.start, rules, work.dz, work.near, work.near_count)
            count_bands(first, last, points, shape, rules, work)
        _judge_by_height(first_point, last_point, rules, work.dz, work.ground)
    elif phase == DECIDE:
        _decide_nodes(first, last, points, shape, side, rules, p00, work)
        if some_stand:
            _rule_out_standing(first_point, last_point, points, work.ground)
        if rules.vote:
            cast_votes(first, last, points, shape, side, work)
    elif phase == WRITE:
        n, parts = points.node.shape[0], chunks.shape[0] - 1
        _write_outside(points.node, part * n // parts, (part + 1) * n // parts, out)
        _write_nodes(first, last, points, shape, side, rules, work, out)
        if some_stand:
            _relabel_standing(first_point, last_point, points, out.label)
    else:
        clear_votes(first, last, work.near_count, shape.columns, side, work.votes)


@njit(parallel=True, cache=True, fastmath=FAST)
def label_points(phase, chunks, points, shape, side, rules, surface, work, out):
    """One phase on ranges of nodes; ranges begin where no cell of the vote is shared. One loop: it compiles once.

    `surface` is (planes, effective points) of the padded lattice.
    """
    for i in prange(chunks.shape[0] - 1):
        _label_range(phase, chunks, np.int64(i), points, shape, side, rules, surface, work, out)
