# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Labels of a scan in four phases: heights and counters, decisions, votes among neighbours, writing."""

from typing import NamedTuple

import numpy as np

from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.arrays import ActiveNodes
from roadbed.ground.stcrf.labels.decide_cpu import decide_nodes
from roadbed.ground.stcrf.labels.heights_cpu import CODES, measure_row
from roadbed.ground.stcrf.labels.vote_cpu import cast_votes, cell_of, clear_votes, outvoted
from roadbed.ground.stcrf.points.node_classes_cpu import MARGIN, classify_rows, sum_along
from roadbed.ground.stcrf.points.select_cpu import PILLAR
from roadbed.ground.stcrf.points.sort_cpu import BLOCK
from roadbed.kernels.jit import inner, merged, njit
from roadbed.kernels.numeric import HALF_LOG2_E, ONE, F, U, min
from roadbed.kernels.scratch import scratch
from roadbed.kernels.simd import LANES, STEP, all_zero, exp2_lanes, load, minimum, splat, store, store_first, where
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk

_ROOM = BLOCK + LANES


class LabelArrays(NamedTuple):
    """Arrays shared by the phases of labelling; per point in node order."""

    dz: np.ndarray  # m over the surface
    ground: np.ndarray  # 1: ground, 0: not, BELOW_GROUND; before the vote
    near: np.ndarray  # points of each node near the surface, for which more than the height decides
    near_count: np.ndarray  # (nodes,) their number
    band_slot: np.ndarray  # (nodes,) where its counts are in `bands`; 0: it has no points in bands of heights
    bands: np.ndarray  # (1 + active nodes, pillars, BANDS_ROOM) points per band of heights
    sums: np.ndarray  # (SUMS, rows, columns) of node counters along rows
    node_classes: np.ndarray  # (nodes,) bits, see model.py
    pillar_positions: np.ndarray  # (2, pillars) row and column inside the node
    votes: np.ndarray
    active_nodes_before: ActiveNodes  # of the last frame, whose votes and counts are cleared


@inner()
def _rule_out_marked(first, last, mark, dz, depth, ground):
    """Clear `ground` of points that cannot be ground: they vote against it, and no vote changes them. Isolated points
    that lie `depth` below the surface become BELOW_GROUND."""
    for k in range(U(first), U(last if mark.shape[0] > 0 else first), STEP):
        if all_zero(mark, k):
            continue
        for i in range(k, min(k + STEP, U(last))):
            if mark[i] & model.ISOLATED and dz[i] < -depth:
                ground[i] = model.BELOW_GROUND
            elif mark[i] & model.NON_GROUND:
                ground[i] = np.uint8(0)


@inner()
def _follow_votes(first_active, last_active, points, columns, side, rules, work):
    """Give points high enough over the surface the label of the majority around them at their height."""
    start, pillar, dz, ground, votes = points.start, points.pillar, work.dz, work.ground, work.votes
    along, across = work.pillar_positions[0], work.pillar_positions[1]
    nodes, near, near_count = points.active_nodes.nodes, work.near, work.near_count
    for i in range(first_active, last_active):
        c = np.int64(nodes[i])
        if near_count[c] == 0:
            continue
        row = c // columns
        top, left = U(row * side), U((c - row * columns) * side)
        for position in range(U(start[c]), U(start[c]) + U(near_count[c])):
            k = U(near[position])
            d = dz[k]
            if d >= model.VOTE_MAY_CHANGE and d < rules.highest:
                inside = U(pillar[k] & PILLAR)
                y, x = cell_of(top, along[inside]), cell_of(left, across[inside])
                ground[k] = outvoted(y, x, d, ground[k] > 0, votes)


@merged()
def _follow_rows(first_row, last_row, points, shape, side, rules, work):
    """Decide ground or not for every point of a range of rows, after the vote."""
    first, last, active_nodes = first_row * shape.columns, last_row * shape.columns, points.active_nodes.row
    if rules.vote:
        _follow_votes(active_nodes[first_row], active_nodes[last_row], points, shape.columns, side, rules, work)
    _rule_out_marked(points.start[first], points.start[last], points.mark, work.dz, rules.low_isolated, work.ground)


@merged()
def _label(d, decision, rules):
    """Labels from the height over the surface and the decision."""
    above = where(d >= rules.clearance, splat(np.int32(model.OVERHANG)), splat(np.int32(model.OBSTACLE)))
    low = splat(np.int32(model.LOW_OUTLIER))
    other = where(decision != np.int32(model.BELOW_GROUND), where(d < -rules.low_outlier, low, above), low)
    return where(decision != np.int32(1), other, splat(np.int32(model.GROUND)))


@merged()
def _write_block(first, last, dz, decisions, rules, out):
    """Write labels, probabilities c_j and heights of a block of points; `dz` and `decisions` are in input order."""
    up, down = HALF_LOG2_E / (rules.sigma_up * rules.sigma_up), HALF_LOG2_E / (rules.sigma_down * rules.sigma_down)
    whole_vectors = (last - first) // STEP * STEP
    for k in range(U(0), last - first, STEP):
        d = load(dz, k)
        label = _label(d, load(decisions, k), rules)
        # The series exceeds 1 by 3e-6 at the surface.
        probability = minimum(exp2_lanes(d * d * where(d >= F(0), splat(up), splat(down))), splat(F(1)))
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
def _write_unknown(runs, run, last, on_no_node, out):
    """Points outside of the lattice are unknown."""
    while runs.first[run] < last:
        for i in range(runs.first[run], runs.first[run + ONE] if runs.node[run] == on_no_node else runs.first[run]):
            out.label[i], out.probability[i], out.height[i] = model.UNKNOWN, F(0), F(np.nan)
        run += ONE


@inner()
def _write(first_block, last_block, points, rules, work, out):
    """Write the outputs of a range of blocks of input points."""
    runs, on_no_node = points.runs, points.start.shape[0] - 1
    dz, decisions = scratch(_ROOM, np.float32), scratch(_ROOM, np.uint8)
    for block in range(first_block, last_block):
        first, last = block * BLOCK, min((block + 1) * BLOCK, out.label.shape[0])
        run, some_outside = U(runs.of_block[block]), False
        while runs.first[run] < last:
            k, position = U(runs.first[run] - first), U(runs.position[run])
            store(dz, k, load(work.dz, position))  # the next run overwrites values behind this one
            store(decisions, k, load(work.ground, position))
            some_outside |= runs.node[run] == on_no_node
            run += ONE
        _write_block(U(first), U(last), dz, decisions, rules, out)
        if some_outside:
            _write_unknown(runs, U(runs.of_block[block]), last, on_no_node, out)


MEASURE, DECIDE, FOLLOW, WRITE, LABEL_PHASES = range(5)


@inner()
def _measure_rows(first_row, last_row, points, shape, side, rules, mean, work):
    """Heights over the surface and node counters of a range of rows."""
    columns, active_nodes, before = shape.columns, points.active_nodes, work.active_nodes_before
    wide, end = columns + 2 * MARGIN, U(points.start[last_row * columns])
    counters, state = np.empty((LANES, wide), np.int32), np.empty(wide, np.int32)
    room = scratch(CODES, np.int32), (scratch(LANES, np.float32), scratch(LANES, np.uint8))
    if rules.around:
        nodes = before.nodes[before.row[first_row] : before.row[last_row]]
        clear_votes(nodes, work, columns, side)
    for row in range(first_row, last_row):
        if active_nodes.row[row] < active_nodes.row[row + 1]:
            measure_row(row, end, points, columns, mean[row + 1], rules, work, counters, room)
            if rules.around:
                sum_along(counters, row, state, work.sums)
        elif rules.around and before.row[row] < before.row[row + 1]:  # else they are zero already
            work.sums[:, row] = 0


@merged()
def _decide_rows(first_row, last_row, points, shape, side, rules, p00, work):
    """Decide ground or not for every point of a range of rows, before the vote."""
    first, last, active_nodes = first_row * shape.columns, last_row * shape.columns, points.active_nodes
    classify_rows(first_row, last_row, active_nodes, work.sums, p00, work.node_classes)
    first_active, last_active = active_nodes.row[first_row], active_nodes.row[last_row]
    decide_nodes(first_active, last_active, points, shape, side, rules, p00, work)
    _rule_out_marked(points.start[first], points.start[last], points.mark, work.dz, rules.low_isolated, work.ground)
    if rules.vote:
        cast_votes(first_active, last_active, points, shape, side, work)


@njit(nogil=True, cache=True)
def label_points(tasks, chunks, points, shape, side, rules, surface, work, out):
    """Label every input point. `chunks`: ranges of rows that share no cell of the vote; `surface`: planes and effective
    points of the padded lattice."""
    mean, p00 = surface
    parts, blocks = chunks.shape[0] - 1, (out.label.shape[0] + BLOCK - 1) // BLOCK
    for phase in range(LABEL_PHASES):
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
