# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Points to the lattice frame and, by one stable counting sort, into the order of their nodes.

Neighbours in a scan mostly lie on one node: runs of points are counted and placed, not points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.ground.stcrf.model import FARTHEST_HEIGHT, NON_GROUND
from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import ONE, F, U
from roadbed.kernels.simd import (
    LANES,
    STEP,
    all_zero,
    floor,
    lacks_bits,
    lane_indices,
    load,
    load_points,
    splat,
    store,
    store_first,
    to_int32,
    where,
)  # fmt: skip
from roadbed.kernels.simd_reductions import compress, count_true
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk
from roadbed.runtime.primitives_cpu import pose_rows, transform_row

SORT_PHASES = 3
BLOCK = 256  # points that stay in cache


class SortRoom(NamedTuple):
    """Scratch of each slice of the points. After the last node comes one for all points that are on none."""

    count: np.ndarray  # (slices, nodes + 1) points per node, then the place of the next one
    block: np.ndarray  # (slices, 3, BLOCK + LANES) coordinates of the points at hand
    node: np.ndarray  # (slices, BLOCK + 2 LANES) their nodes
    last: np.ndarray  # (slices, LANES, 3) the last points, filled up with missing returns

    @classmethod
    def of(cls, slices: int, nodes: int) -> SortRoom:
        """Of so many slices of points, and nodes."""
        block, last = np.zeros((slices, 3, BLOCK + LANES), np.float32), np.zeros((slices, LANES, 3), np.float32)
        count = np.zeros((slices, nodes + 1), np.int32)
        return cls(count, block, np.zeros((slices, BLOCK + 2 * LANES), np.int32), last)


@inner()
def _fill_up(points, own, first, last, out):
    """Fewer points than a vector holds, `own` ones made missing."""
    out[:] = F(0)
    for k in range(last - first):
        if own.shape[0] > 0 and own[first + k]:
            continue
        out[k, 0], out[k, 1], out[k, 2] = points[first + k, 0], points[first + k, 1], points[first + k, 2]


@inlined()
def _find_nodes(points, first, turn, shape, k, node):
    """Node of points; the one after the last where they are on none, or missing."""
    x, y, z = load_points(points, first)
    scale = F(1) / shape.spacing
    u, v, w = (
        transform_row(turn[0], x, y, z) * scale,
        transform_row(turn[1], x, y, z) * scale,
        transform_row(turn[2], x, y, z),
    )
    inside = (u >= F(0)) & (u < F(shape.columns)) & (v >= F(0)) & (v < F(shape.rows))
    # Comparisons with NaN are false; (0, 0, 0) is how sensors write a missing return.
    is_return = (F(0) < x * x + y * y + z * z) & (w < FARTHEST_HEIGHT) & (w > -FARTHEST_HEIGHT)
    none = splat(np.int32(shape.rows * shape.columns))
    store(node, k, where(inside & is_return, to_int32(v) * np.int32(shape.columns) + to_int32(u), none))


@inlined()
def _node_place(points, first, turn, shape, k, block):
    """x and y of points from the middle of their node, and their height."""
    x, y, z = load_points(points, first)
    spacing, scale = shape.spacing, F(1) / shape.spacing
    u, v = transform_row(turn[0], x, y, z), transform_row(turn[1], x, y, z)
    store(block, (0, k), u - (floor(u * scale) + F(0.5)) * spacing)
    store(block, (1, k), v - (floor(v * scale) + F(0.5)) * spacing)
    store(block, (2, k), transform_row(turn[2], x, y, z))


@inner()
def _count_runs(scan, turn, shape, count, room, runs, first, last, run):
    """Runs of a slice from number `run` on, none across blocks; `count` gains the points per node."""
    (points, own), (node, filled_up), nodes = scan, room, np.int32(shape.rows * shape.columns)
    places = to_int32(lane_indices())
    runs.first[run] = first  # of a slice without points this is the end, too
    for begin in range(first, last, BLOCK):
        n, known = min(BLOCK, last - begin), run
        runs.of_block[begin // BLOCK] = run
        for k in range(0, n // LANES * LANES, LANES):
            _find_nodes(points, begin + k, turn, shape, k + LANES, node)
        for k in range(0, n // LANES * LANES if own.shape[0] > 0 else 0, LANES):
            is_other = lacks_bits(own, begin + k, np.uint8(1))
            store(node, k + LANES, where(is_other, load(node, k + LANES), splat(nodes)))
        if n % LANES:
            k = n // LANES * LANES
            _fill_up(points, own, begin + k, begin + n, filled_up)
            _find_nodes(filled_up, 0, turn, shape, k + LANES, node)
        for k in range(0, n, LANES):
            is_next = (load(node, k + LANES) != load(node, k + LANES - 1)) | (lane_indices() < F(1))
            begins = is_next & (lane_indices() < F(n - k))
            store_first(runs.first, run, compress(begins, places + splat(np.int32(begin + k))), count_true(begins))
            run += U(count_true(begins))
        runs.first[run] = begin + n
        for k in range(known, run):
            here = node[U(runs.first[k]) + STEP - U(begin)]
            runs.node[k] = here
            count[U(here)] += runs.first[k + ONE] - runs.first[k]


@inner()
def _place_runs(scan, turn, shape, next_place, room, out, first, last, run):
    """Write each point of a slice to its place in node order, x and y relative to the node; keep the runs' places."""
    (points, own), (block, filled_up), runs = scan, room, out.runs
    for begin in range(first, last, BLOCK):
        n = min(BLOCK, last - begin)
        for k in range(0, n // LANES * LANES, LANES):
            _node_place(points, begin + k, turn, shape, k, block)
        if n % LANES:
            k = n // LANES * LANES
            _fill_up(points, own, begin + k, begin + n, filled_up)
            _node_place(filled_up, 0, turn, shape, k, block)
        while runs.first[run] < begin + n:
            node, i = U(runs.node[run]), U(runs.first[run])
            length, place, k = np.int64(U(runs.first[run + ONE]) - i), U(next_place[node]), i - U(begin)
            runs.position[run], next_place[node] = place, place + U(length)
            store_first(out.x, place, load(block, (0, k)), length)
            store_first(out.y, place, load(block, (1, k)), length)
            store_first(out.z, place, load(block, (2, k)), length)
            run += ONE


@merged()
def _is_empty(count, c):
    """Whether nodes c and on have nothing."""
    empty = all_zero(count[0], c)
    for s in range(1, count.shape[0]):
        empty &= all_zero(count[s], c)
    return empty


@inner()
def _begin_nodes(count, shape, start, active_nodes):
    """Where nodes begin, and in `count` where each slice does; those that have points are listed."""
    slices, nodes = count.shape[0], U(shape.rows * shape.columns)
    total = n = 0
    for row in range(shape.rows + 1):
        active_nodes.row[row] = n
        c, after = U(row * shape.columns), min(U((row + 1) * shape.columns), nodes + ONE)
        while c < after:
            if c + STEP <= nodes and _is_empty(count, c):
                store(start, c, splat(np.int32(total)))  # maybe also of the next row, which writes over it
                c += STEP
                continue
            for node in range(c, min(c + STEP, after)):
                start[node], before = total, total
                for s in range(slices):
                    here = count[s, node]
                    count[s, node] = total
                    total += here
                if node < nodes:
                    active_nodes.nodes[n] = node  # written over where it does not count
                    n += total > before
            c += STEP


@merged()
def _take_along(non_ground, out, first, last, run):
    """Marks of the points of a slice, from number `run` on, at their places."""
    runs = out.runs
    if non_ground.shape[0] == 0:
        out.mark[first:last] = np.uint8(0)
        return
    while runs.first[run] < last:
        first, place = U(runs.first[run]), U(runs.position[run])
        for i in range(U(runs.first[run + ONE]) - first):
            out.mark[place + i] = NON_GROUND if non_ground[first + i] else np.uint8(0)
        run += ONE


@njit(nogil=True, cache=True)
def sort_by_node(tasks, scan, non_ground, pose, shape, room, out):
    """Counting sort. `scan` is its points, and which of them are the own vehicle's, if any: those are on no node.

    `pose` is rotation and translation, from the lattice's corner; `room` is for as many slices of whole blocks.

    The sort is stable, so the order, and with it every sum, does not depend on the number of slices.
    """
    count, slices, n = room.count, room.count.shape[0], scan[0].shape[0]
    blocks = (n + BLOCK - 1) // BLOCK
    turn = pose_rows(pose[0], pose[1])
    for phase in range(SORT_PHASES):
        parts = 1 if phase == 1 else slices
        s = first_chunk(tasks, phase)
        while s < parts:
            first, last = s * blocks // slices * BLOCK, min((s + 1) * blocks // slices * BLOCK, n)
            run, filled_up = U(first + s), room.last[s]
            if phase == 0:
                count[s, :] = 0
                _count_runs(scan, turn, shape, count[s], (room.node[s], filled_up), out.runs, first, last, run)
            elif phase == 1:
                _begin_nodes(count, shape, out.start, out.active_nodes)
            else:
                _place_runs(scan, turn, shape, count[s], (room.block[s], filled_up), out, first, last, run)
                _take_along(non_ground, out, first, last, run)
            s = next_chunk(tasks, phase)
        barrier(tasks, phase, parts)
