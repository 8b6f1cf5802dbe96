# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Isolated returns below the ground, from reflections and multipath: they must not shape the surface.

Around a stray return many others lie on one layer above it, and next to none at its own height. A pit, a ditch or a
road below a bridge is a surface of its own: there a return has many others at its height.
Twin: isolated.cl.
"""

from __future__ import annotations

import numpy as np

from roadbed.ground.stcrf.arrays import Int32, Shape, SortedPoints
from roadbed.ground.stcrf.model import (
    FEWEST_STRAYS,
    ISOLATED,
    ISOLATED_ABOVE,
    ISOLATED_ABOVE_SLOPE,
    ISOLATED_ALIKE,
    ISOLATED_ALIKE_RADIUS,
    ISOLATED_ALIKE_SLOPE,
    ISOLATED_DEEPEST,
    ISOLATED_ENOUGH,
    ISOLATED_FEWEST,
    ISOLATED_LAYER,
    ISOLATED_LAYERS,
    ISOLATED_LONE,
    ISOLATED_LOWEST,
    ISOLATED_RADIUS,
    ISOLATED_SHARE,
    LEVEL_BINS,
    LEVEL_DEPTH,
    LEVEL_FEWEST,
    LEVEL_HEIGHT,
    LEVEL_SHARE,
    LEVEL_SLOPE,
    NO_LEVEL,
    NON_GROUND,
    SAMPLE_BLOCK,
    SAMPLE_BLOCKS,
    SMALL_SCAN,
    STEEPEST_LEVEL,
    STRAY_SHARE,
    THIN_SURFACE,
)  # fmt: skip
from roadbed.ground.stcrf.sizes import isolated_reach
from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import FAST, F, U
from roadbed.kernels.parallel import parallel_region
from roadbed.kernels.simd import LANES, STEP, lane_indices, load, mask_bits, maximum, splat, store, to_int32, where
from roadbed.kernels.simd_reductions import compress, count_true, min_lanes
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk

_PHASES = 2  # levels, then marks


@merged()
def _extent(z, first, last):
    """Lowest and highest point of a node."""
    low, high = splat(-NO_LEVEL), splat(-NO_LEVEL)
    for k in range(first, last, STEP):
        here, is_point = load(z, k), lane_indices() < F(last - k)
        low = where(is_point & (here < low), here, low)
        high = where(is_point & (splat(F(0)) - here < high), splat(F(0)) - here, high)
    return min_lanes(low), -min_lanes(high)


@inner()
def _level(z, first, last, low, counts):
    """Height of the lowest band of LEVEL_HEIGHT with enough of a node's points; NO_LEVEL: there is none."""
    counts[:] = 0
    for k in range(first, last):
        layer = np.int64((z[k] - low) * (F(2) / LEVEL_HEIGHT))
        counts[U(min(layer, LEVEL_BINS))] += 1  # those above the bins are counted in one more, which is not looked at
    most = 0
    for layer in range(LEVEL_BINS - 1):
        most = max(most, counts[layer] + counts[layer + 1])
    for layer in range(LEVEL_BINS - 1):
        band = counts[layer] + counts[layer + 1]
        if counts[layer] > 0 and band >= LEVEL_FEWEST and F(band) >= LEVEL_SHARE * F(most):
            return low + F(layer) * (LEVEL_HEIGHT * F(0.5))
    return NO_LEVEL


@inlined()
def _is_sampled(row, column):
    """Whether a node is of one of the blocks of which an eighth of the lattice is made."""
    return (3 * (row // SAMPLE_BLOCK) + column // SAMPLE_BLOCK) % SAMPLE_BLOCKS == 0


@merged()
def _is_near_sample(row, column, margin):
    """Whether a node lies so near a sampled block that the nodes there are compared with it."""
    for y in (row - margin, row + margin):
        for x in (column - margin, column + margin):
            if _is_sampled(max(y, 0), max(x, 0)):
                return True
    return False


@inner()
def _find_levels(first_active, last_active, points, columns, margin, lowest, level, counts):
    """The level of each of some active nodes, and its lowest point if that lies below; -NO_LEVEL: it does not.

    Of a node without a band, the level is its highest point, and its lowest one is compared with the nodes around.
    With a `margin`, only of the nodes up to so far from sampled blocks.
    """
    start, z, nodes = points.start, points.z, points.active_nodes.nodes
    for i in range(first_active, last_active):
        c = U(nodes[i])
        if margin > 0 and not _is_near_sample(np.int64(c) // columns, np.int64(c) % columns, margin):
            continue
        first, last = U(start[c]), U(start[c + U(1)])
        low, high = _extent(z, first, last)
        few = last - first < U(LEVEL_FEWEST)
        found = low
        if few or high - low > LEVEL_DEPTH:
            found = NO_LEVEL if few else _level(z, first, last, low, counts)
        level[c] = found if found > NO_LEVEL else high
        lowest[c] = NO_LEVEL if found == NO_LEVEL else low if low < found - LEVEL_DEPTH else -NO_LEVEL


@merged()
def _highest_level(level, row, column, shape, reach):
    """The highest level around a node, lowered by a slope for nodes farther away."""
    top = NO_LEVEL
    for y in range(max(row - reach, 0), min(row + reach + 1, shape.rows)):
        for x in range(max(column - reach, 0), min(column + reach + 1, shape.columns)):
            away = max(abs(y - row), abs(x - column))
            top = max(top, level[y * shape.columns + x] - LEVEL_SLOPE * shape.spacing * F(away))
    return top


@inlined()
def _difference(level, before, here, after, spacing):
    """Slope of the levels of three nodes in a row, of which some may have none."""
    low, middle, high = level[before], level[here], level[after]
    if low > NO_LEVEL and high > NO_LEVEL:
        return (high - low) / (F(2) * spacing)
    if low > NO_LEVEL:
        return (middle - low) / spacing
    return (high - middle) / spacing if high > NO_LEVEL else F(0)


@merged()
def _slope(level, row, column, shape):
    """Slope of the levels around a node with points; level where it is too steep to be believed, or at the border."""
    c, columns = row * shape.columns + column, shape.columns
    if row == 0 or column == 0 or row == shape.rows - 1 or column == columns - 1:
        return F(0), F(0)
    slope_x = _difference(level, c - 1, c, c + 1, shape.spacing)
    slope_y = _difference(level, c - columns, c, c + columns, shape.spacing)
    if max(abs(slope_x), abs(slope_y)) > STEEPEST_LEVEL:
        return F(0), F(0)
    return slope_x, slope_y


NOT_ALONE, ALONE, UNDER_SURFACE = 0, 1, 2


@merged()
def _judge(alike, layers):
    """Whether a return with so many others at its height is alone below a surface, and below a thin one."""
    most = total = 0
    for layer in range(ISOLATED_LAYERS - 1):
        most = max(most, layers[layer] + layers[layer + 1])
        total += layers[layer]
    total += layers[ISOLATED_LAYERS - 1]
    surface = 0
    for layer in range(ISOLATED_LAYERS - 1):
        both = layers[layer] + layers[layer + 1]
        if layers[layer] > 0 and F(both) >= ISOLATED_LOWEST * F(most):
            surface = both
            break
    allowed = max(ISOLATED_SHARE * F(surface), F(1) if surface >= ISOLATED_LONE else F(0))
    if surface < ISOLATED_FEWEST or F(alike) > allowed:
        return NOT_ALONE
    thin = surface >= ISOLATED_LONE and F(surface) > THIN_SURFACE * F(total)
    return UNDER_SURFACE if thin else ALONE


@inner()
def _compare(k, points, row, column, shape, reach, slope, codes, layers):
    """Point k with the returns around it, in heights over the slope of the levels: see `_judge`."""
    start, xs, ys, zs, spacing = points.start, points.x, points.y, points.z, shape.spacing
    top, bottom = max(row - reach, 0), min(row + reach + 1, shape.rows)
    left, right = max(column - reach, 0), min(column + reach + 1, shape.columns)
    most = np.int64(0)
    for y in range(top, bottom):
        most += start[y * shape.columns + right] - start[y * shape.columns + left]
    x0, y0, z0, alike, nothing = xs[k], ys[k], zs[k], np.int64(-1), splat(F(0))  # the point finds itself
    layers[:] = 0
    across = right - left
    own = (row - top) * across + column - left
    for turn in range((bottom - top) * across):
        here = own if turn == 0 else turn - 1 if turn <= own else turn  # its own node first: most are not alone there
        y, x = top + here // across, left + here % across
        c = U(y * shape.columns + x)
        east, north, end = F(x - column) * spacing - x0, F(y - row) * spacing - y0, U(start[c + U(1)])
        for q in range(U(start[c]), end, STEP):
            u, v, d = load(xs, q) + east, load(ys, q) + north, load(zs, q) - z0
            aside = maximum(maximum(u, nothing - u), maximum(v, nothing - v))
            over, near = d - u * slope[0] - v * slope[1], (aside <= ISOLATED_RADIUS) & (lane_indices() < F(end - q))
            tolerance = aside * ISOLATED_ALIKE_SLOPE + ISOLATED_ALIKE
            is_other = maximum(d, nothing - d) > tolerance
            close = near & (aside <= ISOLATED_ALIKE_RADIUS)
            alike += count_true(close) - count_true(close & is_other & (maximum(over, nothing - over) > tolerance))
            above = near & is_other & (over > aside * ISOLATED_ABOVE_SLOPE + ISOLATED_ABOVE) & (over < ISOLATED_DEEPEST)
            if mask_bits(above):
                store(codes, 0, compress(above, to_int32(over * (F(1) / ISOLATED_LAYER))))
                for i in range(count_true(above)):
                    layers[U(min(codes[i], ISOLATED_LAYERS - 1))] += 1
        if alike > 1 and F(alike) > ISOLATED_SHARE * F(most):
            return NOT_ALONE
    return _judge(alike, layers)


@inner()
def _mark(first_active, last_active, points, shape, reach, sample, room, seen):
    """Mark the isolated points of some active nodes, or of those of sampled blocks. `seen` gains how many lie below a
    thin surface, and how many points there are, both of sampled blocks or, in a small scan, of all nodes."""
    start, z, mark, nodes = points.start, points.z, points.mark, points.active_nodes.nodes
    lowest, level, codes, layers = room
    small = start[start.shape[0] - 1] < SMALL_SCAN
    for i in range(first_active, last_active):
        c = np.int64(nodes[i])
        row = c // shape.columns
        column = c - row * shape.columns
        counts = small or _is_sampled(row, column)
        if sample and not counts:
            continue
        seen[1] += start[c + 1] - start[c] if counts else 0
        if lowest[c] == -NO_LEVEL:
            continue
        limit = level[c] - LEVEL_DEPTH
        if lowest[c] == NO_LEVEL:
            limit = _highest_level(level, row, column, shape, reach) - LEVEL_DEPTH
        slope = _slope(level, row, column, shape)
        around = np.int64(0) if start[c + 1] - start[c] >= ISOLATED_ENOUGH else reach
        for k in range(U(start[c]), U(start[c + 1])):
            if z[k] < limit:
                found = _compare(k, points, row, column, shape, around, slope, codes, layers)
                mark[k] |= ISOLATED if found != NOT_ALONE else np.uint8(0)
                seen[0] += counts and found == UNDER_SURFACE


@njit(nogil=True, cache=True, fastmath=FAST)
def _mark_isolated(tasks, chunks, points, shape, reach, sample, room):
    """Add ISOLATED to the marks of returns that lie alone below others; with `sample`, in sampled blocks only.

    `chunks` are ranges of rows of nodes; `room`: scratch (nodes,) and (nodes,), the second NO_LEVEL at first, and
    (chunks, 2) counts.
    """
    parts, active, (lowest, level, seen) = chunks.shape[0] - 1, points.active_nodes.row, room
    counts, layers = np.empty(LEVEL_BINS + 1, np.int32), np.empty(ISOLATED_LAYERS, np.int32)
    scratch, margin = (lowest, level, np.empty(LANES, np.int32), layers), max(reach, 1) if sample else 0
    for phase in range(_PHASES):
        part = first_chunk(tasks, phase)
        while part < parts:
            first, last = active[chunks[part]], active[chunks[part + 1]]
            if phase == 0:
                _find_levels(first, last, points, shape.columns, margin, lowest, level, counts)
            else:
                _mark(first, last, points, shape, reach, sample, scratch, seen[part])
            part = next_chunk(tasks, phase)
        barrier(tasks, phase, parts)


class IsolatedReturns:
    """Finds isolated returns below the ground, with memory for one lattice."""

    def __init__(self, shape: Shape) -> None:
        self._shape, self._reach = shape, isolated_reach(float(shape.spacing))
        self._lowest, self._level = np.empty((2, shape.rows * shape.columns), np.float32)

    def mark(self, points: SortedPoints, chunks: Int32, single_thread: bool) -> None:
        """Mark them as ISOLATED, in a scan that has strays. `chunks` are ranges of rows that cost about the same."""
        count = int(points.start[-1])
        if not self._has_strays(points, chunks, single_thread, sample=count >= SMALL_SCAN):
            points.mark[:count] &= NON_GROUND
        elif count >= SMALL_SCAN:
            self._has_strays(points, chunks, single_thread, sample=False)

    def _has_strays(self, points: SortedPoints, chunks: Int32, single_thread: bool, sample: bool) -> bool:
        """Mark isolated returns everywhere or in a sample of the nodes; whether some lie below a thin surface."""
        seen = np.zeros((len(chunks) - 1, 2), np.int64)
        self._level.fill(NO_LEVEL)
        room = self._lowest, self._level, seen
        given = chunks, points, self._shape, self._reach, np.bool_(sample), room
        parallel_region(_mark_isolated, _PHASES, *given, single_thread=single_thread)
        strays, returns = seen.sum(axis=0).tolist()
        return bool(strays >= FEWEST_STRAYS and np.float32(strays) >= STRAY_SHARE * np.float32(returns))
