# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Labels of a scan in four phases: heights and counters, decisions, votes among neighbours, writing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.ground.stcrf.arrays import ActiveNodes
from roadbed.ground.stcrf.labels.decide_cpu import Scratch, decide_nodes
from roadbed.ground.stcrf.labels.heights_cpu import BANDS_ROOM, CODES, measure_row
from roadbed.ground.stcrf.labels.vote_cpu import cast_votes, cell_of, clear_votes, outvoted
from roadbed.ground.stcrf.model import (
    BELOW_GROUND,
    COUNTERS,
    GROUND,
    ISOLATED,
    LOW_OUTLIER,
    NON_GROUND,
    OBSTACLE,
    OVERHANG,
    UNKNOWN,
    VOTE_MAY_CHANGE,
)
from roadbed.ground.stcrf.points.node_classes_cpu import MARGIN, classify_rows, sum_along
from roadbed.ground.stcrf.points.select_cpu import PILLAR
from roadbed.ground.stcrf.points.sort_cpu import BLOCK
from roadbed.kernels.jit import inner, merged, njit
from roadbed.kernels.numeric import FAST, HALF_LOG2_E, ONE, F, U
from roadbed.kernels.simd import (
    LANES,
    STEP,
    exp2_lanes,
    is_empty,
    load,
    splat,
    store,
    store_first,
    where,
)  # fmt: skip
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk


class LabelArrays(NamedTuple):
    """Arrays shared by the phases of labelling; per point in node order."""

    dz: np.ndarray  # m over the surface
    ground: np.ndarray  # 1: ground, 0: not, BELOW_GROUND; before the vote
    near: np.ndarray  # points of each node near the surface, for which more than the height decides
    near_count: np.ndarray  # (nodes,) how many
    band_count: np.ndarray  # (nodes,) how many points lie in bands of heights
    bands: np.ndarray  # (nodes, pillars, BANDS_ROOM) points per band; undefined where none lies in any
    sums: np.ndarray  # (SUMS, rows, columns) of nodes along rows
    node_classes: np.ndarray  # (nodes,) bits, see model.py
    pillar_positions: np.ndarray  # (2, pillars) row and column inside the node
    votes: np.ndarray
    listed_before: ActiveNodes  # nodes of the last frame: its votes and what it counted are to be cleared


@inner()
def _rule_out_marked(first, last, mark, dz, depth, ground):
    """Points that cannot be ground vote against it and are not made ground by their neighbours; isolated ones cannot
    where they lie below the surface: they are `BELOW_GROUND`."""
    for k in range(U(first), U(last), STEP):
        if is_empty(mark, k):
            continue
        for i in range(k, min(k + STEP, U(last))):
            if mark[i] & ISOLATED and dz[i] < -depth:
                ground[i] = BELOW_GROUND
            elif mark[i] & NON_GROUND:
                ground[i] = np.uint8(0)


@inner()
def _follow_votes(first_listed, last_listed, points, columns, side, rules, work):
    """Points high enough over the surface take the label of the majority around them at their height."""
    start, pillar, dz, ground, votes = points.start, points.pillar, work.dz, work.ground, work.votes
    along, across = work.pillar_positions[0], work.pillar_positions[1]
    nodes, near, near_count = points.listed.nodes, work.near, work.near_count
    for i in range(first_listed, last_listed):
        c = np.int64(nodes[i])
        if near_count[c] == 0:
            continue
        row = c // columns
        top, left = U(row * side), U((c - row * columns) * side)
        for place in range(U(start[c]), U(start[c]) + U(near_count[c])):
            k = U(near[place])
            d = dz[k]
            if d >= VOTE_MAY_CHANGE and d < rules.highest:
                inside = U(pillar[k] & PILLAR)
                y, x = cell_of(top, along[inside]), cell_of(left, across[inside])
                ground[k] = outvoted(y, x, d, ground[k] > 0, votes)


@merged()
def _follow_rows(first_row, last_row, points, shape, side, rules, work):
    """Ground or not for every point of some rows of nodes, after the vote."""
    first, last, listed = first_row * shape.columns, last_row * shape.columns, points.listed.row
    if rules.vote:
        _follow_votes(listed[first_row], listed[last_row], points, shape.columns, side, rules, work)
    _rule_out_marked(points.start[first], points.start[last], points.mark, work.dz, rules.low_isolated, work.ground)


@merged()
def _label(d, decision, rules):
    """By the height over the surface, and what was decided."""
    above = where(d >= rules.clearance, splat(np.int32(OVERHANG)), splat(np.int32(OBSTACLE)))
    low = splat(np.int32(LOW_OUTLIER))
    other = where(decision != np.int32(BELOW_GROUND), where(d < -rules.low_outlier, low, above), low)
    return where(decision != np.int32(1), other, splat(np.int32(GROUND)))


@inner()
def _write_block(first, last, dz, decisions, rules, out):
    """Labels, probabilities c_j and heights of a block of input points, from arrays in input order."""
    up, down = HALF_LOG2_E / (rules.sigma_up * rules.sigma_up), HALF_LOG2_E / (rules.sigma_down * rules.sigma_down)
    whole_vectors = (last - first) // STEP * STEP
    for k in range(U(0), last - first, STEP):
        d = load(dz, k)
        label = _label(d, load(decisions, k), rules)
        probability = exp2_lanes(d * d * where(d >= F(0), splat(up), splat(down)))
        if k < whole_vectors:
            store(out.height, first + k, d)
            store(out.probability, first + k, probability)
            store(out.label, first + k, label)
            continue
        store_first(out.height, first + k, d, np.int64(last - first - k))
        store_first(out.probability, first + k, probability, np.int64(last - first - k))
        store(decisions, k, label)
        for i in range(k, last - first):
            out.label[first + i] = decisions[i]


@merged()
def _forget(runs, run, last, on_no_node, out):
    """Points on no node are unknown."""
    while runs.first[run] < last:
        for i in range(runs.first[run], runs.first[run + ONE] if runs.node[run] == on_no_node else runs.first[run]):
            out.label[i], out.probability[i], out.height[i] = UNKNOWN, F(0), F(np.nan)
        run += ONE


@inner()
def _write(first_block, last_block, points, rules, work, out):
    """Write the outputs of a range of blocks of input points."""
    runs, on_no_node = points.runs, points.start.shape[0] - 1
    dz, decisions = np.empty(BLOCK + LANES, np.float32), np.empty(BLOCK + LANES, np.uint8)
    for block in range(first_block, last_block):
        first, last = block * BLOCK, min((block + 1) * BLOCK, out.label.shape[0])
        run, some_outside = U(runs.of_block[block]), False
        while runs.first[run] < last:
            k, place = U(runs.first[run] - first), U(runs.place[run])
            store(dz, k, load(work.dz, place))  # what is not the run's is written over by the next one's
            store(decisions, k, load(work.ground, place))
            some_outside |= runs.node[run] == on_no_node
            run += ONE
        _write_block(U(first), U(last), dz, decisions, rules, out)
        if some_outside:
            _forget(runs, U(runs.of_block[block]), last, on_no_node, out)


MEASURE, DECIDE, FOLLOW, WRITE, PHASES = range(5)


@inner()
def _measure_rows(first_row, last_row, points, shape, side, rules, mean, work):
    """Heights over the surface, and counters of the nodes of a range of rows."""
    columns, listed, before = shape.columns, points.listed, work.listed_before
    wide, end = columns + 2 * MARGIN, U(points.start[last_row * columns])
    counters, state = np.empty((COUNTERS, wide), np.int32), np.empty(wide, np.int32)
    scratch = np.empty(CODES, np.int32), (np.empty(LANES, np.float32), np.empty(LANES, np.uint8))
    if rules.around:
        nodes = before.nodes[before.row[first_row] : before.row[last_row]]
        clear_votes(nodes, work, columns, side)
    for row in range(first_row, last_row):
        if listed.row[row] < listed.row[row + 1]:
            measure_row(row, end, points, columns, mean[row + 1], rules, work, counters, scratch)
            if rules.around:
                sum_along(counters, row, state, work.sums)
        elif rules.around:
            work.sums[:, row] = 0


@merged()
def _decide_rows(first_row, last_row, points, shape, side, rules, p00, work):
    """Ground or not for every point of some rows of nodes, before the vote."""
    first, last, listed = first_row * shape.columns, last_row * shape.columns, points.listed
    classify_rows(first_row, last_row, listed, work.sums, p00, work.node_classes)
    pillars = side * side
    scratch = Scratch(np.empty((pillars, BANDS_ROOM), np.int32), np.full(pillars, -1))
    first_listed, last_listed = listed.row[first_row], listed.row[last_row]
    decide_nodes(first_listed, last_listed, points, shape, side, rules, p00, work, scratch)
    _rule_out_marked(points.start[first], points.start[last], points.mark, work.dz, rules.low_isolated, work.ground)
    if rules.vote:
        cast_votes(first_listed, last_listed, points, shape, side, work)


@njit(nogil=True, cache=True, fastmath=FAST)
def label_points(tasks, chunks, points, shape, side, rules, surface, work, out):
    """One label per input point. `chunks` are ranges of rows of nodes between which no cell of the vote is shared;
    `surface` is (planes, effective points) of the padded lattice."""
    mean, p00 = surface
    parts, blocks = chunks.shape[0] - 1, (out.label.shape[0] + BLOCK - 1) // BLOCK
    for phase in range(PHASES):
        part = first_chunk(tasks, phase)
        while part < parts:
            first, last = chunks[part], chunks[part + 1]
            if phase == MEASURE:
                _measure_rows(first, last, points, shape, side, rules, mean, work)
            elif phase == WRITE:
                _write(part * blocks // parts, (part + 1) * blocks // parts, points, rules, work, out)
            elif rules.around and phase == DECIDE:
                _decide_rows(first, last, points, shape, side, rules, p00, work)
            elif phase == FOLLOW:
                _follow_rows(first, last, points, shape, side, rules, work)
            part = next_chunk(tasks, phase)
        barrier(tasks, phase, parts)
