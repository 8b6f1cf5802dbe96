# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Points to the lattice frame and, by one stable counting sort, into the order of their nodes.

Neighbours in a scan mostly lie on one node: runs of points are counted and placed, not points.
"""

from typing import NamedTuple, Self

import numpy as np

from roadbed.ground.stcrf.model import FARTHEST_HEIGHT, NON_GROUND
from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import ONE, ZERO, F, U, min
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


class SortScratch(NamedTuple):
    """Scratch of each slice of the points. After the last node comes one for all points that are on none."""

    count: np.ndarray  # (slices, nodes + 1) points per node, then the position of the next one
    block: np.ndarray  # (slices, 3, BLOCK + LANES) coordinates of the points of a block
    node: np.ndarray  # (slices, BLOCK + 2 LANES) their nodes
    last: np.ndarray  # (slices, LANES, 3) the last points, padded with missing returns

    @classmethod
    def of(cls, slices: int, nodes: int) -> Self:
        """Scratch for this number of slices and nodes."""
        block, last = np.zeros((slices, 3, BLOCK + LANES), np.float32), np.zeros((slices, LANES, 3), np.float32)
        count = np.zeros((slices, nodes + 1), np.int32)
        return cls(count, block, np.zeros((slices, BLOCK + 2 * LANES), np.int32), last)


@inner()
def _pad_points(points, ego, first, last, out):
    """Copy fewer points than a vector holds; `ego` ones become missing returns."""
    out[:] = F(0)
    for k in range(last - first):
        if ego.shape[0] > 0 and ego[first + k]:
            continue
        out[k, 0], out[k, 1], out[k, 2] = points[first + k, 0], points[first + k, 1], points[first + k, 2]


@inlined()
def _find_nodes(points, first, turn, shape, k, node):
    """Nodes of LANES points; the number of nodes for points that are on none or missing."""
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
def _to_node_frame(points, first, turn, shape, k, block):
    """x and y of LANES points relative to the middle of their node, and their heights."""
    x, y, z = load_points(points, first)
    spacing, scale = shape.spacing, F(1) / shape.spacing
    u, v = transform_row(turn[0], x, y, z), transform_row(turn[1], x, y, z)
    store(block, (0, k), u - (floor(u * scale) + F(0.5)) * spacing)
    store(block, (1, k), v - (floor(v * scale) + F(0.5)) * spacing)
    store(block, (2, k), transform_row(turn[2], x, y, z))


@merged()
def _count_runs(scan, turn, shape, count, scratch, runs, first, last, run):
    """Find the runs of a slice, from run `run` on, none across blocks; adds the points per node to `count`."""
    (points, ego), (node, padded), nodes = scan, scratch, np.int32(shape.rows * shape.columns)
    lanes = to_int32(lane_indices())
    runs.first[run] = first  # of a slice without points this is the end, too
    for begin in range(first, last, BLOCK):
        n, known = min(BLOCK, last - begin), run
        runs.of_block[begin // BLOCK] = run
        for k in range(0, n // LANES * LANES, LANES):
            _find_nodes(points, begin + k, turn, shape, k + LANES, node)
        for k in range(0, n // LANES * LANES if ego.shape[0] > 0 else 0, LANES):
            is_other = lacks_bits(ego, begin + k, np.uint8(1))
            store(node, k + LANES, where(is_other, load(node, k + LANES), splat(nodes)))
        if n % LANES:
            k = n // LANES * LANES
            _pad_points(points, ego, begin + k, begin + n, padded)
            _find_nodes(padded, ZERO, turn, shape, k + LANES, node)
        for k in range(0, n, LANES):
            is_next = (load(node, k + LANES) != load(node, k + LANES - 1)) | (lane_indices() < F(1))
            begins = is_next & (lane_indices() < F(n - k))
            store_first(runs.first, run, compress(begins, lanes + splat(np.int32(begin + k))), count_true(begins))
            run += U(count_true(begins))
        runs.first[run] = begin + n
        for k in range(known, run):
            here = node[U(runs.first[k]) + STEP - U(begin)]
            runs.node[k] = here
            count[U(here)] += runs.first[k + ONE] - runs.first[k]


@merged()
def _scatter_runs(scan, turn, shape, next_position, scratch, out, first, last, run):
    """Write the points of a slice and the positions of their runs in node order; x and y are relative to the node."""
    (points, ego), (block, padded), runs = scan, scratch, out.runs
    for begin in range(first, last, BLOCK):
        n = min(BLOCK, last - begin)
        for k in range(0, n // LANES * LANES, LANES):
            _to_node_frame(points, begin + k, turn, shape, k, block)
        if n % LANES:
            k = n // LANES * LANES
            _pad_points(points, ego, begin + k, begin + n, padded)
            _to_node_frame(padded, ZERO, turn, shape, k, block)
        while runs.first[run] < begin + n:
            node, i = U(runs.node[run]), U(runs.first[run])
            length, position, k = np.int64(U(runs.first[run + ONE]) - i), U(next_position[node]), i - U(begin)
            runs.position[run], next_position[node] = position, position + U(length)
            store_first(out.x, position, load(block, (0, k)), length)
            store_first(out.y, position, load(block, (1, k)), length)
            store_first(out.z, position, load(block, (2, k)), length)
            run += ONE


@merged()
def _is_empty(count, c):
    """Whether the LANES nodes from c on have no points."""
    empty = all_zero(count[0], c)
    for s in range(1, count.shape[0]):
        empty &= all_zero(count[s], c)
    return empty


@merged()
def _node_offsets(count, shape, start, active_nodes):
    """Exclusive scan: `start` of each node, and of each slice of it in `count`; nodes with points become active."""
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
def _scatter_marks(non_ground, out, first, last, run):
    """Write the marks of the points of a slice, from run `run` on, in node order."""
    runs = out.runs
    if non_ground.shape[0] == 0:
        out.mark[first:last] = np.uint8(0)
        return
    while runs.first[run] < last:
        first, position = U(runs.first[run]), U(runs.position[run])
        for i in range(U(runs.first[run + ONE]) - first):
            out.mark[position + i] = NON_GROUND if non_ground[first + i] else np.uint8(0)
        run += ONE


@njit(nogil=True, cache=True)
def sort_by_node(tasks, scan, non_ground, pose, shape, scratch, out):
    """Counting sort. `scan`: points and ego mask (empty: none); points on the ego vehicle are on no node.

    `pose`: rotation and translation from the lattice's corner; `scratch` has one row per slice of whole blocks.

    The sort is stable, so the order, and with it every sum, does not depend on the number of slices.
    """
    count, slices, n = scratch.count, scratch.count.shape[0], scan[0].shape[0]
    blocks = (n + BLOCK - 1) // BLOCK
    turn = pose_rows(pose[0], pose[1])
    for phase in range(SORT_PHASES):
        parts = 1 if phase == 1 else slices
        s = first_chunk(tasks, phase)
        while s < parts:
            first, last = s * blocks // slices * BLOCK, min((s + 1) * blocks // slices * BLOCK, n)
            run, padded = U(first + s), scratch.last[s]
            if phase == 0:
                count[s, :] = 0
                _count_runs(scan, turn, shape, count[s], (scratch.node[s], padded), out.runs, first, last, run)
            elif phase == 1:
                _node_offsets(count, shape, out.start, out.active_nodes)
            else:
                _scatter_runs(scan, turn, shape, count[s], (scratch.block[s], padded), out, first, last, run)
                _scatter_marks(non_ground, out, first, last, run)
            s = next_chunk(tasks, phase)
        barrier(tasks, phase, parts)
