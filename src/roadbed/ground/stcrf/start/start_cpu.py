# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The coarse start: the lowest points on a lattice of coarse nodes, and its planes as expected planes of fine nodes."""

import numpy as np

from roadbed.ground.stcrf.model import COARSE_KNOWS, FAR_ABOVE
from roadbed.ground.stcrf.points.active_columns_cpu import (
    NODE_COST,
    clear_outside,
    fill_expected,
    find_active_columns,
    partition_rows,
)
from roadbed.ground.stcrf.points.select_cpu import PAD, UNSEEN
from roadbed.kernels.jit import inner, merged, njit
from roadbed.kernels.numeric import FAST, NO, ONE, F, U, max, min
from roadbed.kernels.simd import LANES, STEP, load, splat, store, where


@merged()
def _gather_lowest(active_nodes, low, shape, ratio, coarse_shape, shaping, counts):
    """Gather the lowest points of each `ratio` x `ratio` block of nodes, relative to its middle, padded to vectors.

    `counts` receives their number.
    """
    total = count = 0
    next_active = np.empty(ratio, np.int32)  # for each row of the block
    middle = F(0.5) * F(ratio - 1)
    x, y, z, reserved, length = shaping.x, shaping.y, shaping.z, shaping.reserved, shaping.length
    rows, columns, spacing = shape.rows, shape.columns, shape.spacing
    for coarse_row in range(coarse_shape.rows):
        shaping.active_nodes.row[coarse_row] = count
        first_row, last_row = coarse_row * ratio, min((coarse_row + 1) * ratio, rows)
        if active_nodes.row[first_row] == active_nodes.row[last_row]:
            first, last = coarse_row * coarse_shape.columns, (coarse_row + 1) * coarse_shape.columns
            reserved[first:last], length[first:last], counts[coarse_row] = total, 0, 0
            continue
        for row in range(first_row, last_row):
            next_active[row - first_row] = active_nodes.row[row]
        for coarse_column in range(coarse_shape.columns):
            c = coarse_row * coarse_shape.columns + coarse_column
            reserved[c] = total
            for row in range(first_row, last_row):
                while next_active[row - first_row] < active_nodes.row[row + 1]:
                    node = active_nodes.nodes[next_active[row - first_row]]
                    column = node - row * columns
                    if column >= (coarse_column + 1) * ratio:
                        break
                    next_active[row - first_row] += 1
                    for part in range(low.shape[1]):
                        # A missing point is overwritten by the next: cheaper than a branch.
                        x[total] = low[node, part, 0] + (F(column - coarse_column * ratio) - middle) * spacing
                        y[total] = low[node, part, 1] + (F(row - coarse_row * ratio) - middle) * spacing
                        z[total] = low[node, part, 2]
                        total += low[node, part, 2] < UNSEEN
            counts[coarse_row, coarse_column] = total - reserved[c]
            while (total - reserved[c]) % PAD:
                x[total], y[total], z[total] = F(0), F(0), FAR_ABOVE
                total += 1
            length[c] = total - reserved[c]
            shaping.active_nodes.nodes[count] = c  # overwritten by the next node if it has no points
            count += length[c] > 0
    shaping.active_nodes.row[coarse_shape.rows] = count
    reserved[coarse_shape.rows * coarse_shape.columns] = total


@njit(cache=True, fastmath=FAST)
def begin_coarse(points, low, shape, ratio, reach, field, lowest, counts):
    """Find the lowest points of coarse nodes, the active columns around them, and ranges of rows of about equal cost.

    `field` is the coarse lattice: its shape, information, active columns, written columns, and ranges of rows.
    """
    coarse_shape, information, active_columns, written, chunks = field
    _gather_lowest(points.active_nodes, low, shape, ratio, coarse_shape, lowest, counts)
    find_active_columns(lowest.active_nodes, information[0], NO, coarse_shape, reach, active_columns)
    clear_outside(information, written, active_columns)
    partition_rows(lowest.reserved, coarse_shape, chunks, NODE_COST)


@njit(cache=True)
def start_level(height, active_columns, expected, mean):
    """Expect a level surface within the active columns, and start from it everywhere: planes of earlier scans are
    overwritten also where no point is near."""
    fill_expected(expected, active_columns, height)
    mean[:, 0], mean[:, 1:] = height, F(0)


@njit(cache=True)
def expect_carried(planes, shape, ratio, coarse_shape, mean, expected):
    """Start the EM of each coarse node from the carried plane in its middle."""
    for coarse_row in range(coarse_shape.rows):
        row = min(coarse_row * ratio + ratio // 2, shape.rows - 1)
        for coarse_column in range(coarse_shape.columns):
            column = min(coarse_column * ratio + ratio // 2, shape.columns - 1)
            for k in range(3):
                plane = planes[row + 1, k, column + 1]
                mean[coarse_row + 1, k, coarse_column + 1] = plane
                expected[coarse_row + 1, k, coarse_column + 1] = plane


@inner()
def _coarse_before(index, ratio):
    """The last coarse node whose middle is not beyond that of a fine node, and the distance to it in coarse nodes.

    The distance is counted in halves of fine nodes, so that the weight of the next coarse node is exactly zero in the
    middle of a coarse node: a rounding error could outweigh a node with little information.
    """
    halves = np.int32(2 * index + 1 - ratio)
    before = halves // np.int32(2 * ratio)
    return before, F(halves - np.int32(2 * ratio) * before) / F(2 * ratio)


@merged()
def _distances(ratio, columns, last, distance):
    """Distances of each fine node to the coarse node before it, and to the two that are blended, in coarse nodes."""
    for c in range(columns):
        i, beyond = _coarse_before(c, ratio)
        west, east = max(i, 0), min(i + 1, last)
        distance[0, c], distance[1, c], distance[2, c] = beyond, F(i - west) + beyond, F(i - east) + beyond


@merged()
def _blend_row(information, mean, weight, across, first, last, sums):
    """Add a row of coarse nodes, `across` m away, to the sums of weights, weighted heights and weighted slopes."""
    for i in range(U(first), U(last), STEP):
        w, slope_y = load(information, (0, i)) * weight, load(mean, (2, i))
        store(sums, (0, i), load(sums, (0, i)) + w)
        store(sums, (1, i), load(sums, (1, i)) + w * (load(mean, (0, i)) + slope_y * across))
        store(sums, (2, i), load(sums, (2, i)) + w * load(mean, (1, i)))
        store(sums, (3, i), load(sums, (3, i)) + w * slope_y)


@merged()
def _repeat(sums, coarse_columns, ratio, first, last, west, east):
    """Copy the sums of the coarse nodes to the west and east of each fine node in a range of columns.

    Whole vectors are written; the next coarse node overwrites what is too much.
    """
    i = (first - ratio // 2) // ratio
    while i < coarse_columns and ratio // 2 + i * ratio < last:
        begin, a, b = ratio // 2 + i * ratio, U(max(i, 0) + 1), U(min(i + 1, coarse_columns - 1) + 1)
        for c in range(U(max(begin, 0)), U(min(begin + ratio, last)), STEP):
            for k in range(U(4)):
                store(west, (k, c), splat(sums[k, a]))
                store(east, (k, c), splat(sums[k, b]))
        i += 1


@inner()
def _blend_columns(sums, between, shape, ratio, columns, before, expected):
    """Blend the planes of a row of coarse nodes for a range of columns, in whole vectors. `between` is scratch: sums to
    the west and east of each column, and distances."""
    (west, east, distance), (first, last), spacing = between, columns, shape.spacing
    if last <= first:
        return
    _repeat(sums, shape.columns, ratio, first, last + LANES, west, east)
    for c in range(U(first), U(last), STEP):
        right = load(distance, (0, c))
        left = F(1) - right
        total = left * load(west, (0, c)) + right * load(east, (0, c))
        is_known = total > COARSE_KNOWS
        divisor = where(is_known, total, splat(F(1)))
        height_west = load(west, (1, c)) + load(distance, (1, c)) * spacing * load(west, (2, c))
        height_east = load(east, (1, c)) + load(distance, (2, c)) * spacing * load(east, (2, c))
        height = left * height_west + right * height_east
        slope_x = left * load(west, (2, c)) + right * load(east, (2, c))
        slope_y = left * load(west, (3, c)) + right * load(east, (3, c))
        at = c + ONE
        store(expected, (0, at), where(is_known, height / divisor, load(before, (0, at))))
        store(expected, (1, at), where(is_known, slope_x / divisor, load(before, (1, at))))
        store(expected, (2, at), where(is_known, slope_y / divisor, load(before, (2, at))))


@njit(nogil=True, cache=True, fastmath=FAST)
def blend_coarse(first_row, last_row, coarse, ratio, columns, active_columns, inside, before, expected):
    """Blend the four coarse planes around each fine node of some rows, weighted by their information: for nodes
    `inside` of the active columns, or for the others. `coarse`: information, planes, active columns and shape.

    Where the coarse nodes have no information, the planes `before` are kept; outside of the active columns `before` and
    `expected` are the same array, whose values inside are then undefined.
    """
    information, mean, known, shape = coarse
    spacing, last_line = shape.spacing, shape.rows - 1
    sums = np.empty((4, mean.shape[2]), np.float32)
    room = columns + 2 * LANES
    between = np.zeros((4, room), np.float32), np.zeros((4, room), np.float32), np.zeros((3, room), np.float32)
    _distances(ratio, columns, shape.columns - 1, between[2])
    for row in range(first_row, last_row):
        j, beyond = _coarse_before(row, ratio)
        lo, hi = known.wide_lo[j + 1], max(known.wide_lo[j + 1], known.wide_hi[j + 1])
        first, last = active_columns.lo[row] - 1, max(active_columns.lo[row], active_columns.hi[row]) - 1
        begin, end = (first, last) if inside else (max((lo - 2) * ratio, 0), min(hi * ratio, columns))
        covered = lo == hi or (first <= begin and end <= last)
        if begin == end or (covered and not inside):
            continue
        sums[:] = F(0)
        for line, weight in ((max(j, 0), F(1) - beyond), (min(j + 1, last_line), beyond)):
            across = (F(j - line) + beyond) * spacing
            _blend_row(information[line + 1], mean[line + 1], weight, across, lo, hi, sums)
        old, new = before[row + 1], expected[row + 1]
        if inside or first == last:
            _blend_columns(sums, between, shape, ratio, (begin, end), old, new)
        else:
            _blend_columns(sums, between, shape, ratio, (begin, min(first, end)), old, new)
            _blend_columns(sums, between, shape, ratio, (max(last, begin), end), old, new)
