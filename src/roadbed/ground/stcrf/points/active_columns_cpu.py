# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Active columns: the part of the lattice that is computed, and its distribution among threads."""

import numba
import numpy as np

from roadbed.ground.stcrf.model import (
    AT_ROAD,
    EDGE_ON,
    PLANE_FROM,
    REMEMBERED_POINTS,
    STAYS_FROM,
    VOTE_PILLARS,
)
from roadbed.ground.stcrf.motion.motion_cpu import clear_columns
from roadbed.ground.stcrf.points.select_cpu import reserve
from roadbed.kernels.jit import inner, merged, njit
from roadbed.kernels.numeric import F, U, max, min
from roadbed.kernels.simd import LANES, STEP, lane_indices, load, mask_bits, maximum, minimum, splat, store, where

VECTOR = 8  # nodes handled at once by vectorised loops
CHUNKS = 4 * min(numba.config.NUMBA_NUM_THREADS, 16)  # ranges of rows handed to threads; no result depends on it
_KNOWN = F(1e-4)  # effective points from which a prior says anything
NODE_COST = 6  # a node's arithmetic in an iteration costs about as much as this many points


@njit(cache=True)
def find_active_columns(active_nodes, prior, use_prior, shape, reach, active_columns):
    """Per row the columns [lo, hi) within `reach` nodes of an active node or of prior information.

    Columns are counted with the border (first node = 1). Ranges are padded to whole vectors, maybe past the last node;
    the `wide` ranges also cover the rows below and above.
    """
    rows, columns = shape.rows, shape.columns
    lo, hi, wide_lo, wide_hi = active_columns.lo, active_columns.hi, active_columns.wide_lo, active_columns.wide_hi
    own_lo, own_hi = np.empty(rows, np.int32), np.empty(rows, np.int32)
    for row in range(rows):
        own_lo[row], own_hi[row] = columns + 1, 0
        first, last = active_nodes.row[row], active_nodes.row[row + 1]
        if first < last:
            own_lo[row] = active_nodes.nodes[first] - row * columns + 1
            own_hi[row] = active_nodes.nodes[last - 1] - row * columns + 2
        if use_prior:
            known = prior[row + 1, 0]
            column, end = 1, own_lo[row]
            while column + LANES <= end and not mask_bits(load(known, column) > _KNOWN):
                column += LANES
            while column < end and not known[column] > _KNOWN:
                column += 1
            own_lo[row] = column
            column, end = columns, max(own_hi[row], column)
            while column - LANES >= end and not mask_bits(load(known, column - LANES + 1) > _KNOWN):
                column -= LANES
            while column >= end and not known[column] > _KNOWN:
                column -= 1
            own_hi[row] = max(own_hi[row], column + 1 if column >= own_lo[row] else 0)
    for row in range(rows):
        lo[row], hi[row] = columns + 1, 0
        for other in range(max(0, row - reach), min(rows, row + reach + 1)):
            if own_hi[other] > 0:
                lo[row] = min(lo[row], max(own_lo[other] - reach, 1))
                hi[row] = max(hi[row], min(own_hi[other] + reach, columns + 1))
        if hi[row] > lo[row]:
            hi[row] = lo[row] + (hi[row] - lo[row] + VECTOR - 1) // VECTOR * VECTOR
    for r in range(rows + 2):
        wide_lo[r], wide_hi[r] = columns + 1, 0
        for row in range(max(0, r - 2), min(rows, r + 1)):
            if hi[row] > lo[row]:
                wide_lo[r] = min(wide_lo[r], lo[row])
                wide_hi[r] = max(wide_hi[r], hi[row])
        if wide_hi[r] > wide_lo[r]:
            whole = (wide_hi[r] - wide_lo[r] + VECTOR - 1) // VECTOR * VECTOR
            wide_lo[r] = max(1, min(wide_lo[r], columns + 1 + VECTOR - whole))
            wide_hi[r] = wide_lo[r] + whole


@inner()
def clear_vectors(planes, first, last):
    """Set columns first..last of all planes of a row to zero, and some behind them, as whole vectors."""
    for k in range(planes.shape[0]):
        for c in range(U(first), U(max(first, last)), STEP):
            store(planes, (U(k), c), splat(F(0)))


@njit(cache=True)
def clear_outside(buffers, written, active_columns):
    """Empty what earlier frames have written to buffers (n, rows + 2, 9, stride) where this one will not, and a little
    where it will; `written` becomes its active columns."""
    for row in range(active_columns.lo.shape[0]):
        lo = np.int64(active_columns.lo[row])
        hi = max(lo, active_columns.hi[row])
        first, last = np.int64(written[0, row]), np.int64(written[1, row])
        written[0, row], written[1, row] = lo, hi
        if first >= lo and last <= hi:
            continue
        for buffer in range(buffers.shape[0]):
            clear_vectors(buffers[buffer, row + 1], first, min(lo, last))
            clear_vectors(buffers[buffer, row + 1], max(hi, first), last)


@njit(cache=True)
def known_share(active_nodes, length, prior, columns, known_from):
    """Share of the nodes with points that shape the surface of which the prior knows `known_from` or more."""
    seen = known = 0
    for row in range(active_nodes.row.shape[0] - 1):
        for i in range(active_nodes.row[row], active_nodes.row[row + 1]):
            c = active_nodes.nodes[i]
            seen += length[c] > 0
            known += length[c] > 0 and prior[row + 1, 0, c - row * columns + 1] > known_from
    return known / max(1, seen)


@njit(cache=True)
def fill_expected(expected, active_columns, height):
    """A level surface at `height` as what to expect."""
    for row in range(active_columns.lo.shape[0]):
        r = U(row + 1)
        for c in range(U(active_columns.lo[row]), U(max(active_columns.lo[row], active_columns.hi[row])), STEP):
            store(expected, (r, U(0), c), splat(height))
            store(expected, (r, U(1), c), splat(F(0)))
            store(expected, (r, U(2), c), splat(F(0)))


@inner()
def partition_rows(reserved, shape, chunks, node_cost):
    """Cut the rows into `chunks` ranges of about equal cost: points plus `node_cost` points per node."""
    rows, columns = shape.rows, shape.columns
    row_cost = columns * node_cost
    total = reserved[rows * columns] + rows * row_cost
    chunk = 1
    chunks[0] = 0
    parts = chunks.shape[0] - 1
    for row in range(rows):
        done = reserved[(row + 1) * columns] + (row + 1) * row_cost
        while chunk < parts and done * parts >= chunk * total:
            chunks[chunk] = row + 1
            chunk += 1
    while chunk <= parts:
        chunks[chunk] = rows
        chunk += 1


@njit(cache=True)
def partition_points(start, active_nodes, limit, shape, reserved, row_chunks, point_chunks):
    """Reserve room for the points that shape the surface, and partition the rows into ranges of about equal cost: of
    these points, and of all points.

    Some rows of nodes hold a whole number of vote cells, so that no two threads share one.
    """
    reserve(start, active_nodes, limit, shape.columns, reserved)
    partition_rows(reserved, shape, row_chunks, NODE_COST)
    partition_rows(start, shape, point_chunks, NODE_COST)
    for i in range(point_chunks.shape[0] - 1):
        point_chunks[i] = point_chunks[i] // VOTE_PILLARS * VOTE_PILLARS


@njit(cache=True)
def begin_active_columns(
    active_nodes, use_prior, shape, reach, active_columns, prior, information, written, data, data_ends
):
    """The active columns of a frame; what earlier frames have left outside of them is emptied."""
    find_active_columns(active_nodes, prior, use_prior, shape, reach, active_columns)
    clear_outside(information, written, active_columns)
    clear_outside(data, data_ends, active_columns)


@merged()
def is_seen_from_above(mean, row, c, sensor, road, spacing):
    """Whether the planes of the vector of nodes at column c pass below the sensor, as those of the ground do, and are
    not met edge-on if they are not at the height of the road."""
    x = sensor[0] - (lane_indices() + F(c - U(1))) * spacing
    y = sensor[1] - F(row) * spacing
    above = load(mean, (0, c)) + load(mean, (1, c)) * x + load(mean, (2, c)) * y - sensor[2]
    apart, facing = load(mean, (0, c)) - road, above * above >= (x * x + y * y) * (EDGE_ON * EDGE_ON)
    return (above <= F(0)) & (facing | ((apart <= AT_ROAD) & (apart >= -AT_ROAD)))


@njit(nogil=True, cache=True)
def keep_seen(first_row, last_row, arrays, information, active_columns, prior, seen_by, spacing, ends, planes):
    """The prior takes the posterior of nodes with data now; nodes with neither data nor a prior become undefined. What
    it knows lies within columns [ends[0], ends[1]) of each row, before and after. Neighbours count less where a node
    has points of its own, as in the reported surface: else crests and ditches would become flatter with every scan.

    A node with a prior but without data keeps its plane, with no more information than its posterior has: if it took
    the posterior, it would creep towards its neighbours with every scan that does not see it.

    Within the active columns `planes` takes the planes of nodes that know enough, from neighbours too, and the expected
    plane of the rest: the next frame's coarse lattice starts there. All of this for a range of rows.

    A prior that was not used (the scan did not fit it) says nothing of where the ground was seen. A ceiling is not
    kept: scans that see the road below could not correct a prior that calls it ground. `prior`: whether it was used,
    its weight gamma, and how far a plane without data may lie over the first surface, m. `seen_by`: the position of
    the sensor and the height of the road, m.
    """
    before, gamma, farthest = F(1) if prior[0] else F(0), prior[1], prior[2]
    for row in range(first_row, last_row):
        r, first, begin, end = row + 1, np.int64(active_columns.lo[row]), np.int64(ends[0, row]), np.int64(ends[1, row])
        last = max(active_columns.hi[row], first)
        own, out, new = arrays.data[r], arrays.prior[r], information[r]
        mean, expected = arrays.mean[r], arrays.expected[r]
        for c in range(U(first), U(last), STEP):
            has_data, known = load(own, (0, c)) > STAYS_FROM, load(out, (0, c))
            above = load(mean, (0, c)) - load(expected, (0, c))
            had_data = (load(own, (0, c)) <= STAYS_FROM) & (known * before > STAYS_FROM) & (above <= farthest)
            stays = had_data | (has_data & is_seen_from_above(mean, row, c, seen_by[0], seen_by[1], spacing))
            share = minimum(load(new, (0, c)) / maximum(known, splat(STAYS_FROM)), splat(F(1)))
            has_plane = where(stays, splat(F(1)), load(new, (0, c))) > PLANE_FROM
            others = REMEMBERED_POINTS / (load(own, (0, c)) + known * gamma + REMEMBERED_POINTS)
            for k in range(9):
                mine = load(own, (k, c)) + load(out, (k, c)) * gamma
                kept = where(has_data, mine + (load(new, (k, c)) - mine) * others, share * load(out, (k, c)))
                store(out, (k, c), where(stays, kept, splat(F(0))))
            for k in range(3):
                store(planes, (r, k, c), where(has_plane, load(mean, (k, c)), load(expected, (k, c))))
        clear_columns(out, begin, min(first, end))
        clear_columns(out, max(last, begin), end)
        ends[0, row], ends[1, row] = first, last
