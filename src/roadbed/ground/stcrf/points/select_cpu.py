# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Pillars inside each node: which points may shape the surface, and the lowest ones for the coarse start."""

from typing import NamedTuple

import numpy as np

from roadbed.ground.stcrf.model import FAR_ABOVE, ISOLATED, RAISED_WALL_HIGH, RAISED_WALL_RANGE
from roadbed.ground.stcrf.points.isolated_cpu import extent
from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import FAST, ONE, ZERO, F, U, max, min
from roadbed.kernels.scratch import uncounted
from roadbed.kernels.simd import (
    LANES,
    STEP,
    all_zero,
    lacks_bits,
    lane_indices,
    load,
    maximum,
    minimum,
    splat,
    store,
    store_first,
    to_int32,
    where,
)
from roadbed.kernels.simd_reductions import compress, count_true, min_lanes
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk

PAD = 8  # points of a node are filled up to a multiple of this
PILLAR = np.uint16(0x3FFF)  # bits of a point's `pillar` that number it inside its node
WALL = np.uint16(0x8000)  # set where the pillar holds a vertical structure
EXCLUDED = np.uint16(0x4000)  # set while selecting
UNSEEN = F(1e9)  # m, height of a part in which nothing was seen


class Selection(NamedTuple):
    """Configuration of the point selection, for kernels."""

    limit: int  # points per node; 0: all
    side: np.int32  # pillars along a node
    wall_low: np.float32
    wall_high: np.float32  # 0: walls are not searched
    sensor: tuple[np.float32, np.float32, np.float32]  # m from the lattice's corner, and over the base
    exclude_walls: bool
    low_side: np.int32  # parts along a node whose lowest point is found; 0: none


@njit(cache=True)
def reserve(start, active_nodes, limit, columns, reserved):
    """`reserved[c]`: where the points of an active node c that shape the surface are kept, and where a row's begin."""
    total = 0
    for row in range(active_nodes.row.shape[0] - 1):
        reserved[row * columns] = total
        for i in range(active_nodes.row[row], active_nodes.row[row + 1]):
            c = active_nodes.nodes[i]
            reserved[c] = total
            n = start[c + 1] - start[c]
            if limit > 0:
                n = min(n, limit)
            total += (n + PAD - 1) // PAD * PAD
    reserved[start.shape[0] - 1] = total


@njit(inline="always")
def _pillar_of(x, y, half, scale, side):
    """The pillar of a point inside its node, of side x side."""
    column = min(max(np.int32((x + half) * scale), np.int32(0)), side - np.int32(1))
    row = min(max(np.int32((y + half) * scale), np.int32(0)), side - np.int32(1))
    return row * side + column


@merged()
def _number_pillars(points, first, last, half, scale, side):
    """Number of each point's pillar inside its node."""
    lowest, highest, end = splat(F(0)), splat(F(side - 1)), first + (last - first) // STEP * STEP
    for k in range(first, end, STEP):
        column = to_int32(minimum(maximum((load(points.x, k) + half) * scale, lowest), highest))
        row = to_int32(minimum(maximum((load(points.y, k) + half) * scale, lowest), highest))
        store(points.pillar, k, row * side + column)
    for k in range(end, last):  # points behind them belong to another thread
        points.pillar[k] = np.uint16(_pillar_of(points.x[k], points.y[k], half, scale, side))


@inlined(fastmath=FAST)
def _mark_walls(z, pillar, mark, first, last, lowest, is_wall, rules, raised):
    """Pillars that hold a return `wall_low`..`wall_high` above their lowest one are walls; whether there is one.
    Ground is no wall because of a stray return below it. Above the height `raised` two returns of a wall may be
    farther apart; such a pillar does not shape the surface, but says nothing to the labels."""
    wall_low, wall_high = rules.wall_low, rules.wall_high
    walls, (low, high) = np.uint16(0), extent(z, first, last)
    if high - low > wall_low:  # else, as on most of the road, no pillar can be one
        some_marked = mark.shape[0] > 0
        for inside in range(U(lowest.shape[0])):
            lowest[inside] = UNSEEN
            is_wall[inside] = np.uint16(0)
        for k in range(first, last):
            lowest[pillar[k]] = min(lowest[pillar[k]], UNSEEN if some_marked and mark[k] & ISOLATED else z[k])
        # Without branches from here on: branches on walls are not predictable.
        for k in range(first, last):
            above = z[k] - lowest[pillar[k]]
            mark = WALL if (above > wall_low) & (above < wall_high) else np.uint16(0)
            is_raised = (lowest[pillar[k]] > raised) & (above > wall_low) & (above < RAISED_WALL_HIGH)
            mark |= EXCLUDED if is_raised else np.uint16(0)
            is_wall[pillar[k]] |= mark
            walls |= mark
    for k in range(first, last if walls else first):
        pillar[k] |= is_wall[pillar[k]]
    return walls > 0


@merged()
def _exclude_moving(x, y, pillar, first, last, node_x, node_y, moving):
    """Points in cells that move do not shape the surface."""
    mask, corner, scale = moving.mask, moving.corner, moving.scale
    for k in range(first, last):
        u = (node_x + x[k] - corner[0]) * scale
        v = (node_y + y[k] - corner[1]) * scale
        inside = u >= F(0) and v >= F(0) and u < mask.shape[1] and v < mask.shape[0]
        if inside and mask[np.int32(v), np.int32(u)]:
            pillar[k] |= EXCLUDED


@inner()
def _exclude_marked(mark, pillar, first, last):
    """Points with a mark do not shape the surface; whether there is one."""
    found = False
    for k in range(first, last if mark.shape[0] > 0 else first, STEP):
        if not all_zero(mark, k):
            for i in range(k, min(k + STEP, last)):
                if mark[i]:
                    pillar[i] |= EXCLUDED
                    found = True
    return found


@merged()
def _count_shaping(pillar, first, last, excluded):
    """How many points of a node shape the surface: those with none of the bits `excluded`."""
    n = 0
    for k in range(first, last, STEP):
        n += count_true(lacks_bits(pillar, k, excluded) & (lane_indices() < F(last - k)))
    return n


@inlined()
def _border(index, side):
    """Between two parts of a node; points on its own border belong to the part beside it."""
    return F(index) if 0 < index < side else F(-np.inf) if index == 0 else F(np.inf)


@inlined()
def _keep_lower(is_there, z, index, best, best_index):
    """In each lane the lower of two points, of equal ones the first, and its index."""
    lower = is_there & (z < best)
    return where(lower, z, best), where(lower, index, best_index)


@inlined()
def _store_lowest(points, first, best, index, low, c, part):
    """The lowest of all lanes, of equal ones the first; where there is none, any point at the height UNSEEN."""
    lowest = min_lanes(best)
    k = first + U(min_lanes(where(splat(lowest) >= best, index, splat(UNSEEN))))
    low[c, part, 0], low[c, part, 1], low[c, part, 2] = points.x[k], points.y[k], lowest


@inlined()
def _find_lowest(points, first, last, excluded, spacing, side, low, c):
    """The lowest of these in each of side x side parts of the node, four at once: most nodes are a vector or two."""
    half, scale, none = spacing * F(0.5), F(side) / spacing, splat(UNSEEN)
    across = (side + 1) // 2  # pairs of parts; the second of the last one may lie beyond the node
    for pair in range(across * across):
        row, column = 2 * (pair // across), 2 * (pair % across)
        part = row * side + column
        left, between, right = _border(column, side), _border(column + 1, side), _border(column + 2, side)
        bottom, middle, top = _border(row, side), _border(row + 1, side), _border(row + 2, side)
        best0 = best1 = best2 = best3 = none
        index = index0 = index1 = index2 = index3 = lane_indices()
        for k in range(first, last, STEP):
            u, v, z = (load(points.x, k) + half) * scale, (load(points.y, k) + half) * scale, load(points.z, k)
            usable = lacks_bits(points.pillar, k, excluded) & (lane_indices() < F(last - k))
            west, east = usable & (u >= left) & (u < between), usable & (u >= between) & (u < right)
            south, north = (v >= bottom) & (v < middle), (v >= middle) & (v < top)
            best0, index0 = _keep_lower(west & south, z, index, best0, index0)
            best1, index1 = _keep_lower(east & south, z, index, best1, index1)
            best2, index2 = _keep_lower(west & north, z, index, best2, index2)
            best3, index3 = _keep_lower(east & north, z, index, best3, index3)
            index = index + F(LANES)
        _store_lowest(points, first, best0, index0, low, c, part)
        if column + 1 < side:
            _store_lowest(points, first, best1, index1, low, c, part + 1)
        if row + 1 < side:
            _store_lowest(points, first, best2, index2, low, c, part + side)
        if column + 1 < side and row + 1 < side:
            _store_lowest(points, first, best3, index3, low, c, part + side + 1)


@inner(fastmath=FAST)
def _copy_points(first_row, last_row, points, excluded, limit, shaping):
    """The points of active nodes with none of the bits `excluded`, in scan order, at most `limit` of each; `length` is
    their number before, and after it that of the points written, filled up to a multiple of PAD.

    No array is named or passed on inside of the loop: Numba would count references to it, with atomic operations.
    """
    x, y, z, pillar, start, nodes = points.x, points.y, points.z, points.pillar, points.start, points.active_nodes.nodes
    out_x, out_y, out_z, reserved, length = shaping.x, shaping.y, shaping.z, shaping.reserved, shaping.length
    for i in range(points.active_nodes.row[first_row], points.active_nodes.row[last_row]):
        c = nodes[i]
        first, last, index, n = U(start[c]), U(start[c + 1]), U(reserved[c]), np.int64(length[c])
        usable, stride = U(n), U((n + limit - 1) // limit if 0 < limit < n else np.int64(1))
        if usable == last - first and stride == ONE:  # as on most of the road
            for k in range(first, last, STEP):  # maybe some after them: there is room for whole vectors
                store(out_x, index + k - first, load(x, k))
                store(out_y, index + k - first, load(y, k))
                store(out_z, index + k - first, load(z, k))
            index += usable
        elif usable == last - first:
            for k in range(first, last, stride):
                out_x[index], out_y[index], out_z[index] = x[k], y[k], z[k]
                index += ONE
        elif stride == ONE:
            for k in range(first, last, STEP):
                is_usable = lacks_bits(pillar, k, excluded) & (lane_indices() < F(last - k))
                store_first(out_x, index, compress(is_usable, load(x, k)), count_true(is_usable))
                store_first(out_y, index, compress(is_usable, load(y, k)), count_true(is_usable))
                store_first(out_z, index, compress(is_usable, load(z, k)), count_true(is_usable))
                index += U(count_true(is_usable))
        else:
            k, turn, end = first, U(0), index + (usable + stride - ONE) // stride
            while index < end:
                out_x[index], out_y[index], out_z[index] = x[k], y[k], z[k]  # written over where it does not count
                counts = U((pillar[k] & excluded) == 0)
                index += counts & U(turn == U(0))
                turn += counts
                turn = U(0) if turn == stride else turn
                k += ONE
        while (index - U(reserved[c])) % U(PAD):
            out_x[index], out_y[index], out_z[index] = F(0), F(0), FAR_ABOVE
            index += ONE
        length[c] = index - U(reserved[c])


@inner(fastmath=FAST)
def _select_rows(first_row, last_row, points, shape, rules, moving, low, pillars, shaping):
    points, moving, low, pillars, shaping = uncounted((points, moving, low, pillars, shaping))
    spacing, (lowest, is_wall) = shape.spacing, pillars
    half = spacing * F(0.5)
    side, low_side = rules.side, rules.low_side
    x, y, z, pillar = points.x, points.y, points.z, points.pillar
    excluded, some_move = EXCLUDED | WALL if rules.exclude_walls else EXCLUDED, moving.mask.shape[0] > 0
    first_node, last_node = first_row * shape.columns, last_row * shape.columns
    begin, end = points.start[first_node], points.start[last_node]
    _number_pillars(points, U(begin), U(end), half, F(side) / spacing, side)
    for i in range(points.active_nodes.row[first_row], points.active_nodes.row[last_row]):
        c = points.active_nodes.nodes[i]
        first, last = U(points.start[c]), U(points.start[c + 1])
        node_x, node_y = (F(c % shape.columns) + F(0.5)) * spacing, (F(c // shape.columns) + F(0.5)) * spacing
        marked = some_move
        if rules.wall_high > F(0):
            apart_x, apart_y = node_x - rules.sensor[0], node_y - rules.sensor[1]
            is_near = apart_x * apart_x + apart_y * apart_y < RAISED_WALL_RANGE * RAISED_WALL_RANGE
            raised = rules.sensor[2] if is_near and rules.exclude_walls else F(np.inf)
            marked |= _mark_walls(z, pillar, points.mark, first, last, lowest, is_wall, rules, raised)
        if some_move:
            _exclude_moving(x, y, pillar, first, last, node_x, node_y, moving)
        marked |= _exclude_marked(points.mark, pillar, first, last)
        n = _count_shaping(pillar, first, last, excluded) if marked else np.int64(last - first)
        _find_lowest(points, first, last, excluded, spacing, low_side, low, c)
        shaping.length[c] = n
    _copy_points(first_row, last_row, points, excluded, rules.limit, shaping)


@njit(nogil=True, cache=True, fastmath=FAST)
def select_points(tasks, chunks, points, shape, rules, moving, low, shaping):
    """Fill `shaping` with the points that shape the surface, `low` with the lowest of each part of a node."""
    parts = chunks.shape[0] - 1
    pillars = np.empty(rules.side**2, np.float32), np.empty(rules.side**2, np.uint16)  # scratch
    i = first_chunk(tasks, ZERO)
    while i < parts:
        _select_rows(chunks[i], chunks[i + 1], points, shape, rules, moving, low, pillars, shaping)
        i = next_chunk(tasks, ZERO)
    barrier(tasks, ZERO, parts)
