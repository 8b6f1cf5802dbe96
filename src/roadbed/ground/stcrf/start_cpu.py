# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The coarse start: the lowest points on a lattice of wide nodes, and its surface as the fine nodes' expectation."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, ONE, F, U, inner, njit
from roadbed.ground.stcrf.model import COARSE_KNOWS, FAR_ABOVE
from roadbed.ground.stcrf.select_cpu import PAD, UNSEEN


@njit(cache=True, fastmath=FAST)
def gather_lowest(start, listed, low, shape, ratio, coarse_shape, shaping, counts):
    """The lowest points of each `ratio` x `ratio` block of nodes, relative to its middle, padded as the EM wants.

    `counts` takes how many there are.
    """
    total = count = 0
    next_listed = np.empty(ratio, np.int32)  # of each row of the block
    middle = F(0.5) * F(ratio - 1)
    x, y, z, reserved, length = shaping.x, shaping.y, shaping.z, shaping.reserved, shaping.length
    rows, columns, spacing = shape.rows, shape.columns, shape.spacing
    for coarse_row in range(coarse_shape.rows):
        shaping.listed.row[coarse_row] = count
        first_row, last_row = coarse_row * ratio, min((coarse_row + 1) * ratio, rows)
        for row in range(first_row, last_row):
            next_listed[row - first_row] = listed.row[row]
        for coarse_column in range(coarse_shape.columns):
            c = coarse_row * coarse_shape.columns + coarse_column
            reserved[c] = total
            for row in range(first_row, last_row):
                while next_listed[row - first_row] < listed.row[row + 1]:
                    node = listed.nodes[next_listed[row - first_row]]
                    column = node - row * columns
                    if column >= (coarse_column + 1) * ratio:
                        break
                    next_listed[row - first_row] += 1
                    if start[node] == start[node + 1]:
                        continue
                    for part in range(low.shape[1]):
                        # Written over where nothing was seen: cheaper than a branch.
                        x[total] = low[node, part, 0] + (F(column - coarse_column * ratio) - middle) * spacing
                        y[total] = low[node, part, 1] + (F(row - coarse_row * ratio) - middle) * spacing
                        z[total] = low[node, part, 2]
                        total += low[node, part, 2] < UNSEEN
            counts[coarse_row, coarse_column] = total - reserved[c]
            while (total - reserved[c]) % PAD:
                x[total], y[total], z[total] = F(0), F(0), FAR_ABOVE
                total += 1
            length[c] = total - reserved[c]
            shaping.listed.nodes[count] = c  # written over where it does not count
            count += length[c] > 0
    shaping.listed.row[coarse_shape.rows] = count
    reserved[coarse_shape.rows * coarse_shape.columns] = total


@njit(cache=True, allocates=False)
def expect_carried(planes, shape, ratio, coarse_shape, mean, expected):
    """The carried plane in the middle of each wide node is where its EM starts."""
    for coarse_row in range(coarse_shape.rows):
        row = min(coarse_row * ratio + ratio // 2, shape.rows - 1)
        for coarse_column in range(coarse_shape.columns):
            column = min(coarse_column * ratio + ratio // 2, shape.columns - 1)
            for k in range(3):
                plane = planes[row + 1, k, column + 1]
                mean[coarse_row + 1, k, coarse_column + 1] = plane
                expected[coarse_row + 1, k, coarse_column + 1] = plane


@inner()
def _wide_before(place, ratio):
    """The wide node whose middle lies at or before that of a fine one, and how far beyond it, in wide nodes.

    Counted in halves of fine nodes: in the very middle of a wide node those beside it weigh nothing, where the rounding
    of a fraction would leave them more than a node that hardly knows anything.
    """
    halves = np.int32(2 * place + 1 - ratio)
    before = halves // np.int32(2 * ratio)
    return before, F(halves - np.int32(2 * ratio) * before) / F(2 * ratio)


@inner(fastmath=FAST)
def _between_nodes(ratio, columns, last, places, east):
    """Which wide nodes lie to the west and east of each fine one, and how far it lies to the east of the first."""
    for c in range(columns):
        i, beyond = _wide_before(c, ratio)
        west, following = max(i, 0), min(i + 1, last)
        places[0, c], places[1, c] = west, following
        east[0, c], east[1, c], east[2, c] = beyond, F(i - west) + beyond, F(i - following) + beyond


@inner(fastmath=FAST)
def _blend_row(p00, mean, weight, across, j, most, sums):
    """Adds a row of coarse nodes, `across` m away, to weights, weighted heights and weighted slopes."""
    for i in range(U(sums.shape[1])):
        w = weight * min(p00[j + 1, i + ONE], most)
        sums[0, i] += w
        sums[1, i] += w * (mean[j + 1, 0, i + ONE] + across * mean[j + 1, 2, i + ONE])
        sums[2, i] += w * mean[j + 1, 1, i + ONE]
        sums[3, i] += w * mean[j + 1, 2, i + ONE]


@inner(fastmath=FAST)
def _blend_columns(sums, places, east, wide, before, expected):
    """The planes between wide nodes of a row; without branches, so that the loop vectorises."""
    for c in range(U(places.shape[1])):
        a, b, right = places[0, c], places[1, c], east[0, c]
        left = F(1) - right
        total = left * sums[0, a] + right * sums[0, b]
        is_known = total > COARSE_KNOWS
        divisor = total if is_known else F(1)
        along_a, along_b = east[1, c] * wide, east[2, c] * wide
        height = left * (sums[1, a] + along_a * sums[2, a]) + right * (sums[1, b] + along_b * sums[2, b])
        slope_x, slope_y = left * sums[2, a] + right * sums[2, b], left * sums[3, a] + right * sums[3, b]
        expected[0, c + ONE] = height / divisor if is_known else before[0, c + ONE]
        expected[1, c + ONE] = slope_x / divisor if is_known else before[1, c + ONE]
        expected[2, c + ONE] = slope_y / divisor if is_known else before[2, c + ONE]


@njit(nogil=True, cache=True, fastmath=FAST)
def spread_coarse(first_row, last_row, p00, mean, coarse_shape, ratio, most, columns, before, expected):
    """Blend the four coarse planes around each fine node of some rows, weighted by what they know.

    Where they know nothing, what was expected `before` still is.
    """
    wide, last_line = coarse_shape.spacing, coarse_shape.rows - 1
    sums = np.empty((4, coarse_shape.columns), np.float32)
    places, east = np.empty((2, columns), np.uint64), np.empty((3, columns), np.float32)
    _between_nodes(ratio, columns, coarse_shape.columns - 1, places, east)
    for row in range(first_row, last_row):
        j, beyond = _wide_before(row, ratio)
        south, north = max(j, 0), min(j + 1, last_line)
        sums[:] = F(0)
        _blend_row(p00, mean, F(1) - beyond, (F(j - south) + beyond) * wide, south, most, sums)
        _blend_row(p00, mean, beyond, (F(j - north) + beyond) * wide, north, most, sums)
        _blend_columns(sums, places, east, wide, before[row + 1], expected[row + 1])
