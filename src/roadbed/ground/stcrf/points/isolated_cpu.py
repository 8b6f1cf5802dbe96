# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Isolated returns below the ground, from reflections and multipath: they must not shape the surface.

Around a stray return many others lie on one layer above it, and next to none at its own height. A pit, a ditch or a
road below a bridge is a surface of its own: there a return has many others at its height. Far away no others may lie
around a stray: there it is one if its ray passed below ground that was seen. Sorted points do not say which of several
sensors saw them: the ray from each must have.
Twin: isolated.cl.
"""

import numpy as np

from roadbed.core.geometry import Float32
from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.arrays import Int32, Shape, SortedPoints
from roadbed.ground.stcrf.sizes import isolated_reach
from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import F, U, max, min
from roadbed.kernels.parallel import parallel_region
from roadbed.kernels.scratch import scratch
from roadbed.kernels.simd import LANES, STEP, lane_indices, load, mask_bits, maximum, splat, store, to_int32, where
from roadbed.kernels.simd_reductions import compress, count_true, min_lanes
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk

_PHASES = 2  # levels, then marks
_BINS, _LAYERS = model.LEVEL_BINS + 1, model.ISOLATED_LAYERS


@merged()
def extent(z, first, last):
    """Lowest and highest point of a node."""
    low, high = splat(-model.NO_LEVEL), splat(-model.NO_LEVEL)
    for k in range(first, last, STEP):
        here, is_point = load(z, k), lane_indices() < F(last - k)
        low = where(is_point & (here < low), here, low)
        high = where(is_point & (splat(F(0)) - here < high), splat(F(0)) - here, high)
    return min_lanes(low), -min_lanes(high)


@merged()
def _level(z, first, last, low, counts):
    """Height of the lowest band of LEVEL_HEIGHT with enough of a node's points; NO_LEVEL: there is none."""
    counts[:] = 0
    for k in range(first, last):
        layer = np.int64((z[k] - low) * (F(2) / model.LEVEL_HEIGHT))
        counts[U(min(layer, model.LEVEL_BINS))] += (
            1  # those above the bins are counted in one more, which is not looked at
        )
    most = 0
    for layer in range(model.LEVEL_BINS - 1):
        most = max(most, counts[layer] + counts[layer + 1])
    for layer in range(model.LEVEL_BINS - 1):
        band = counts[layer] + counts[layer + 1]
        if counts[layer] > 0 and band >= model.LEVEL_FEWEST and F(band) >= model.LEVEL_SHARE * F(most):
            return low + F(layer) * (model.LEVEL_HEIGHT * F(0.5))
    return model.NO_LEVEL


@inlined()
def _is_sampled(row, column):
    """Whether a node is of one of the blocks of which an eighth of the lattice is made."""
    return (3 * (row // model.SAMPLE_BLOCK) + column // model.SAMPLE_BLOCK) % model.SAMPLE_BLOCKS == 0


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
    """The level of each of some active nodes, and its lowest point; -NO_LEVEL: it is flat, with no point below.

    Of a node without a band the level is its highest point, and NO_LEVEL stands for its lowest: all are compared.
    With a `margin`, only of the nodes up to so far from sampled blocks.
    """
    start, z, nodes = points.start, points.z, points.active_nodes.nodes
    for i in range(first_active, last_active):
        c = U(nodes[i])
        if margin > 0 and not _is_near_sample(np.int64(c) // columns, np.int64(c) % columns, margin):
            continue
        first, last = U(start[c]), U(start[c + U(1)])
        low, high = extent(z, first, last)
        found, lowest[c] = low, -model.NO_LEVEL
        if last - first < U(model.LEVEL_FEWEST):
            found = model.NO_LEVEL
        elif high - low > model.LEVEL_DEPTH:
            found, lowest[c] = _level(z, first, last, low, counts), low
        if found == model.NO_LEVEL:
            found, lowest[c] = high, model.NO_LEVEL
        level[c] = found


@merged()
def _highest_level(level, row, column, shape, reach):
    """The highest level of a node and of those around, lowered by a slope for nodes farther away. A steeper rise than
    STEEPEST_LEVEL is a wall."""
    own = level[row * shape.columns + column]
    top = own
    for y in range(max(row - reach, 0), min(row + reach + 1, shape.rows)):
        for x in range(max(column - reach, 0), min(column + reach + 1, shape.columns)):
            away, c = F(max(abs(y - row), abs(x - column))) * shape.spacing, y * shape.columns + x
            top = max(top, min(level[c], own + model.STEEPEST_LEVEL * away) - model.LEVEL_SLOPE * away)
    return top


@inlined()
def _rises(before, here, after, spacing):
    """Whether three levels in a row rise or fall like a slope: beside a wall they rise on one side only."""
    first, second = abs(here - before), abs(after - here)
    one_way = (here > before) == (after > here)
    return (
        one_way
        and min(first, second) > model.LEVEL_SLOPE * spacing
        and max(first, second) <= model.STEEPEST_LEVEL * spacing
    )


@merged()
def _is_slope(level, row, column, shape):
    """Whether the levels rise through a node, from one side to the other."""
    c, columns = row * shape.columns + column, shape.columns
    if row == 0 or column == 0 or row == shape.rows - 1 or column == columns - 1:
        return False
    across = _rises(level[c - 1], level[c], level[c + 1], shape.spacing)
    return across or _rises(level[c - columns], level[c], level[c + columns], shape.spacing)


NOT_ALONE, ALONE, UNDER_SURFACE, LONE = 0, 1, 2, 3


@merged()
def _judge(alike, wide, layers):
    """Whether a return with `alike` others at its height is alone below a surface; and with next to none of the `wide`
    ones below a thin surface. LONE: next to none are at its height, but no surface lies above it either."""
    most = total = 0
    for layer in range(model.ISOLATED_LAYERS - 1):
        most = max(most, layers[layer] + layers[layer + 1])
        total += layers[layer]
    total += layers[model.ISOLATED_LAYERS - 1]
    surface = 0
    for layer in range(model.ISOLATED_LAYERS - 1):
        both = layers[layer] + layers[layer + 1]
        if layers[layer] > 0 and F(both) >= model.ISOLATED_LOWEST * F(most):
            surface = both
            break
    allowed = max(model.ISOLATED_SHARE * F(surface), F(1) if surface >= model.ISOLATED_LONE else F(0))
    if surface < model.ISOLATED_FEWEST or F(alike) > allowed:
        return LONE if alike <= 1 else NOT_ALONE
    thin = surface >= model.ISOLATED_LONE and F(surface) > model.THIN_SURFACE * F(total)
    return UNDER_SURFACE if thin and F(wide) <= model.ISOLATED_WIDE_SHARE * F(surface) else ALONE


@merged()
def _compare(k, points, row, column, shape, reach, codes, layers):
    """Point k with the returns around it: see `_judge`."""
    start, xs, ys, zs, spacing = points.start, points.x, points.y, points.z, shape.spacing
    top, bottom = max(row - reach, 0), min(row + reach + 1, shape.rows)
    left, right = max(column - reach, 0), min(column + reach + 1, shape.columns)
    c = row * shape.columns + column
    most = max(F(model.ISOLATED_LONE), model.ISOLATED_MOST * F(start[c + 1] - start[c]))
    x0, y0, z0, nothing = xs[k], ys[k], zs[k], splat(F(0))
    alike = wide = np.int64(-1)  # the point finds itself
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
            near = (aside <= model.ISOLATED_RADIUS) & (lane_indices() < F(end - q))
            is_alike = near & (maximum(d, nothing - d) <= aside * model.ISOLATED_ALIKE_SLOPE + model.ISOLATED_ALIKE)
            alike += count_true(is_alike & (aside <= model.ISOLATED_ALIKE_RADIUS))
            wide += count_true(is_alike & (aside <= model.ISOLATED_WIDE_RADIUS))
            above = (
                near & (d > aside * model.ISOLATED_ABOVE_SLOPE + model.ISOLATED_ABOVE) & (d < model.ISOLATED_DEEPEST)
            )
            if mask_bits(above):
                store(codes, 0, compress(above, to_int32(d * (F(1) / model.ISOLATED_LAYER))))
                for i in range(count_true(above)):
                    layers[U(min(codes[i], model.ISOLATED_LAYERS - 1))] += 1
            if F(alike) > most:
                return NOT_ALONE
    return _judge(alike, wide, layers)


@merged()
def _has_non_ground(points, c):
    """Whether a return of a node cannot be ground: the level may be that of an object."""
    marked = np.uint8(0)
    for k in range(U(points.start[c]), U(points.start[c + 1])):
        marked |= points.mark[k] & model.NON_GROUND
    return marked > 0


@merged()
def _passed_below(x, y, z, origins, sensor, level, lowest, points, shape):
    """Whether the ray from a sensor to a return passed below ground: below the level of a node with a band, or just
    over it to a return below it, where it met the ground as rays beside it did. The level is lower than the sensor or
    rises from that of the last node like a slope. A crown or a bridge does not, nor in a sparse scan the foot of an
    object."""
    east, north, up = origins[sensor, 0] - x, origins[sensor, 1] - y, origins[sensor, 2] - z
    far = max(abs(east), abs(north)) / shape.spacing
    steps, nearer = np.int64(min(F(model.RAY_NODES), far)), model.NO_LEVEL
    sparse = points.start[points.start.shape[0] - 1] < model.SPARSE_SCAN
    for i in range(1, steps):  # away from the sensor
        part = F(steps - i) / far
        column, row = (x + east * part) / shape.spacing, (y + north * part) / shape.spacing
        if column < F(0) or row < F(0) or column >= F(shape.columns) or row >= F(shape.rows):
            continue
        c = np.int64(row) * shape.columns + np.int64(column)
        here = level[c] if lowest[c] != model.NO_LEVEL else model.NO_LEVEL
        over, rise = here - (z + up * part), (here - nearer) / shape.spacing
        nearer = here
        is_ground = here < origins[sensor, 2] or (rise > model.LEVEL_SLOPE and rise <= model.STEEPEST_LEVEL)
        entered = over > -model.RAY_ENTERS and here - z > model.LEVEL_DEPTH
        is_below = (over > model.RAY_DEPTH or entered) and over < model.ISOLATED_DEEPEST
        if is_ground and is_below and not (sparse and _has_non_ground(points, c)):
            return True
    return False


@inner()
def _look(first_active, last_active, points, shape, reach, marks, origins, room, seen):
    """With `marks`, mark the isolated points of some active nodes. Else `seen` gains how many lie below a thin surface,
    how many points there are, and how many rays passed below ground, of sampled blocks or, in a small scan, of all
    nodes."""
    start, z, mark, nodes = points.start, points.z, points.mark, points.active_nodes.nodes
    lowest, level, codes, layers = room
    everywhere, half, spacing = marks or start[start.shape[0] - 1] < model.SMALL_SCAN, F(0.5), shape.spacing
    for i in range(first_active, last_active):
        c = np.int64(nodes[i])
        row = c // shape.columns
        column = c - row * shape.columns
        if not (everywhere or _is_sampled(row, column)):
            continue
        seen[1] += start[c + 1] - start[c]
        if lowest[c] == -model.NO_LEVEL:
            continue
        limit, around = -model.NO_LEVEL, reach
        if lowest[c] > model.NO_LEVEL:
            level_ground = start[c + 1] - start[c] >= model.ISOLATED_ENOUGH and not _is_slope(level, row, column, shape)
            around = np.int64(0) if level_ground else reach
            limit = _highest_level(level, row, column, shape, around) - model.LEVEL_DEPTH
        for k in range(U(start[c]), U(start[c + 1]) if lowest[c] < limit else U(0)):
            if z[k] < limit:
                found = _compare(k, points, row, column, shape, around, codes, layers)
                seen[0] += found == UNDER_SURFACE
                if found == LONE:
                    x, y = points.x[k] + (F(column) + half) * spacing, points.y[k] + (F(row) + half) * spacing
                    below = origins.shape[0] > 0
                    for sensor in range(origins.shape[0]):
                        below = below and _passed_below(x, y, z[k], origins, sensor, level, lowest, points, shape)
                    seen[2] += below
                    found = ALONE if below else NOT_ALONE
                mark[k] |= model.ISOLATED if marks and found != NOT_ALONE else np.uint8(0)


@njit(nogil=True, cache=True)
def _look_for_isolated(tasks, chunks, points, shape, reach, marks, origins, room):
    """With `marks`, add ISOLATED to the marks of returns that lie alone below others; else count, see `_look`.

    `chunks` are ranges of rows of nodes; `origins` are those of the sensors, (K, 3), or (0, 3) where there is none;
    `room`: scratch (nodes,) and (nodes,), the second NO_LEVEL at first, and (chunks, 3) counts.
    """
    parts, active, (lowest, level, seen) = chunks.shape[0] - 1, points.active_nodes.row, room
    counts, layers = scratch(_BINS, np.int32), scratch(_LAYERS, np.int32)
    everywhere = marks or points.start[points.start.shape[0] - 1] < model.SMALL_SCAN
    found, margin = (lowest, level, scratch(LANES, np.int32), layers), 0 if everywhere else max(reach, 1)
    for phase in range(_PHASES):
        part = first_chunk(tasks, phase)
        while part < parts:
            first, last = active[chunks[part]], active[chunks[part + 1]]
            if phase == 0:
                _find_levels(first, last, points, shape.columns, margin, lowest, level, counts)
            else:
                _look(first, last, points, shape, reach, marks, origins, found, seen[part])
            part = next_chunk(tasks, phase)
        barrier(tasks, phase, parts)


class IsolatedReturns:
    """Finds isolated returns below the ground, with memory for one lattice."""

    def __init__(self, shape: Shape) -> None:
        self._shape, self._reach = shape, isolated_reach(float(shape.spacing))
        self._lowest, self._level = np.empty((2, shape.rows * shape.columns), np.float32)

    def mark(self, points: SortedPoints, chunks: Int32, origins: Float32, single_thread: bool) -> bool:
        """Mark them as ISOLATED, in a scan that has strays: some lie below a thin surface, or in a sparse scan rays
        passed below ground; whether it has. `chunks` are ranges of rows that cost about the same; `origins`: see
        `_look_for_isolated`."""
        strays, returns, rays = self._look(points, chunks, origins, single_thread, marks=False)
        every = np.float32(returns)
        found = bool(strays >= model.FEWEST_STRAYS and np.float32(strays) >= model.STRAY_SHARE * every)
        if points.start[-1] < model.SPARSE_SCAN:
            found |= bool(rays >= model.FEWEST_RAYS and np.float32(rays) >= model.RAY_SHARE * every)
        if found:
            self._look(points, chunks, origins, single_thread, marks=True)
        return found

    def _look(
        self, points: SortedPoints, chunks: Int32, origins: Float32, single_thread: bool, marks: bool
    ) -> list[int]:
        """Mark isolated returns, or count them and all returns where a scan with strays shows them."""
        seen = np.zeros((len(chunks) - 1, 3), np.int64)
        self._level.fill(model.NO_LEVEL)
        room = self._lowest, self._level, seen
        given = chunks, points, self._shape, self._reach, np.bool_(marks), origins, room
        parallel_region(_look_for_isolated, _PHASES, *given, single_thread=single_thread)
        return seen.sum(axis=0).tolist()
