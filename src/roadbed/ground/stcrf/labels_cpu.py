# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Labels of a scan in four phases: heights and counters, decisions, votes among neighbours, writing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.compute.cpu import FAST, HALF_LOG2_E, F, U, exp2_negative, inner, njit
from roadbed.compute.crew import take_next, take_part, wait_for_all
from roadbed.compute.lanes import LANES
from roadbed.ground.stcrf.arrays import Listed
from roadbed.ground.stcrf.decide_cpu import BANDS_ROOM, Scratch, decide_nodes
from roadbed.ground.stcrf.heights_cpu import measure_row
from roadbed.ground.stcrf.model import (
    COUNTERS,
    GROUND,
    LOW_OUTLIER,
    OBSTACLE,
    OVERHANG,
    UNKNOWN,
    VOTE_MAY_CHANGE,
)
from roadbed.ground.stcrf.places_cpu import MARGIN, classify_rows, sum_along
from roadbed.ground.stcrf.select_cpu import PILLAR
from roadbed.ground.stcrf.vote_cpu import cast_votes, cell_of, clear_votes, outvoted


class LabelArrays(NamedTuple):
    """What the phases of labelling hand on to each other; per point in node order."""

    dz: np.ndarray  # m over the surface
    ground: np.ndarray  # before the vote
    near: np.ndarray  # which points of a node, from its start on, stand near enough to the ground for other rules
    near_count: np.ndarray  # (nodes,) how many
    bands: np.ndarray  # (nodes, pillars, BANDS_ROOM) points per band of heights; undefined where no point is near
    sums: np.ndarray  # (SUMS, rows, columns) of nodes along rows
    kinds: np.ndarray  # (nodes,) of places
    places: np.ndarray  # (2, pillars) row and column inside the node
    votes: np.ndarray
    listed_before: Listed  # nodes of the last frame: its votes, and its near_count, are to be cleared


@inner()
def _rule_out_standing(first, last, stands, ground):
    """What cannot be ground votes against it, however low it lies, and is not made ground by its neighbours."""
    for k in range(first, last if stands.shape[0] > 0 else first):
        ground[k] = ground[k] and not stands[k]


@inner()
def _follow_votes(first_listed, last_listed, points, columns, side, rules, work):
    """Points high enough over the surface are labelled as most around them at their height."""
    start, pillar, dz, ground, votes = points.start, points.pillar, work.dz, work.ground, work.votes
    along, across = work.places[0], work.places[1]
    for i in range(first_listed, last_listed):
        c = np.int64(points.listed.nodes[i])
        if work.near_count[c] == 0:
            continue
        row = c // columns
        top, left = U(row * side), U((c - row * columns) * side)
        for place in range(U(start[c]), U(start[c]) + U(work.near_count[c])):
            k = U(work.near[place])
            d = dz[k]
            if d >= VOTE_MAY_CHANGE and d < rules.highest:
                inside = U(pillar[k] & PILLAR)
                y, x = cell_of(top, along[inside]), cell_of(left, across[inside])
                ground[k] = outvoted(y, x, d, ground[k], votes)


@inner()
def _follow_rows(first_row, last_row, points, shape, side, rules, work):
    """Ground or not for every point of some rows of nodes, after the vote."""
    first, last, listed = first_row * shape.columns, last_row * shape.columns, points.listed.row
    if rules.vote:
        _follow_votes(listed[first_row], listed[last_row], points, shape.columns, side, rules, work)
    _rule_out_standing(points.start[first], points.start[last], points.stands, work.ground)


@inner(fastmath=FAST)
def _write(first, last, points, rules, work, out):
    """Labels, probabilities c_j and heights of a range of input points, in blocks that stay in cache."""
    place, on_no_node = points.place, points.start[points.start.shape[0] - 1]  # from this place on
    dz, ground, label, probability, height = work.dz, work.ground, out.label, out.probability, out.height
    up, down = HALF_LOG2_E / (rules.sigma_up * rules.sigma_up), HALF_LOG2_E / (rules.sigma_down * rules.sigma_down)
    for block in range(U(first), U(last), _BLOCK):
        end = min(block + _BLOCK, U(last))
        outside = 0
        for i in range(block, end):
            at = U(place[i])
            outside += place[i] >= on_no_node
            height[i], label[i] = dz[at], ground[at]
        for i in range(block, end):  # apart from what is gathered, which does not vectorise
            d = height[i]
            other = LOW_OUTLIER if d < -rules.low_outlier else (OVERHANG if d >= rules.clearance else OBSTACLE)
            label[i] = GROUND if label[i] else other
        for i in range(block, end):
            probability[i] = exp2_negative(height[i] * height[i] * (up if height[i] >= F(0) else down))
        for i in range(block, end if outside > 0 else block):
            if place[i] >= on_no_node:
                label[i], probability[i], height[i] = UNKNOWN, F(0), F(np.nan)


_BLOCK = U(256)  # points
MEASURE, DECIDE, FOLLOW, WRITE, PHASES = range(5)


@inner(allocates=True)
def _measure_rows(first_row, last_row, points, shape, side, rules, mean, work):
    """Heights over the surface, and what they say of the nodes of some rows."""
    columns, listed, before = shape.columns, points.listed, work.listed_before
    wide, end = columns + 2 * MARGIN, U(points.start[last_row * columns])
    counters, state = np.empty((COUNTERS, wide), np.int32), np.empty(wide, np.int32)
    spare = np.empty(LANES, np.float32), np.empty(LANES, np.bool_)
    if rules.around:
        nodes = before.nodes[before.row[first_row] : before.row[last_row]]
        clear_votes(nodes, work.near_count, columns, side, work.votes)
    for row in range(first_row, last_row):
        if listed.row[row] < listed.row[row + 1]:
            measure_row(row, end, points, columns, mean[row + 1], rules, work, counters, spare)
            if rules.around:
                sum_along(counters, row, state, work.sums)
        elif rules.around:
            work.sums[:, row] = 0


@inner(allocates=True)
def _decide_rows(first_row, last_row, points, shape, side, rules, p00, work):
    """Ground or not for every point of some rows of nodes, before the vote."""
    first, last, listed = first_row * shape.columns, last_row * shape.columns, points.listed
    classify_rows(first_row, last_row, listed, work.sums, p00, rules, work.kinds)
    pillars = side * side
    around = np.empty((pillars, BANDS_ROOM), np.int32)
    scratch = Scratch(np.zeros(BANDS_ROOM, np.uint16), around, np.full(pillars, -1))
    first_listed, last_listed = listed.row[first_row], listed.row[last_row]
    decide_nodes(first_listed, last_listed, points, shape, side, rules, p00, work, scratch)
    _rule_out_standing(points.start[first], points.start[last], points.stands, work.ground)
    if rules.vote:
        cast_votes(first_listed, last_listed, points, shape, side, work)


@njit(nogil=True, cache=True, fastmath=FAST)
def label_points(crew, chunks, points, shape, side, rules, surface, work, out):
    """One label per input point. `chunks` are ranges of rows of nodes between which no cell of the vote is shared;
    `surface` is (planes, effective points) of the padded lattice."""
    mean, p00 = surface
    parts, count = chunks.shape[0] - 1, points.place.shape[0]
    for phase in range(PHASES):
        part = take_part(crew, phase)
        while part < parts:
            first, last = chunks[part], chunks[part + 1]
            if phase == MEASURE:
                _measure_rows(first, last, points, shape, side, rules, mean, work)
            elif phase == WRITE:
                _write(part * count // parts, (part + 1) * count // parts, points, rules, work, out)
            elif rules.around and phase == DECIDE:
                _decide_rows(first, last, points, shape, side, rules, p00, work)
            elif phase == FOLLOW:
                _follow_rows(first, last, points, shape, side, rules, work)
            part = take_next(crew, phase)
        wait_for_all(crew, phase, parts)
