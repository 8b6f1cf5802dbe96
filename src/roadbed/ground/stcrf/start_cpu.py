# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The coarse start: the lowest points on a lattice of wide nodes, and its surface as the fine nodes' expectation."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, ONE, F, U, inner, njit
from roadbed.ground.stcrf.model import COARSE_KNOWS, FAR_ABOVE
from roadbed.ground.stcrf.select_cpu import PAD, UNSEEN


@njit(cache=True, fastmath=FAST)
def gather_lowest(start, low, shape, ratio, coarse_shape, shaping):
    """The lowest points of each `ratio` x `ratio` block of nodes, relative to its middle, padded as the EM wants."""
    total = 0
    middle = F(0.5) * F(ratio - 1)
    x, y, z, reserved, length = shaping.x, shaping.y, shaping.z, shaping.reserved, shaping.length
    rows, columns, spacing = shape.rows, shape.columns, shape.spacing
    for coarse_row in range(coarse_shape.rows):
        for coarse_column in range(coarse_shape.columns):
            c = coarse_row * coarse_shape.columns + coarse_column
            reserved[c] = total
            for row in range(coarse_row * ratio, min((coarse_row + 1) * ratio, rows)):
                for column in range(coarse_column * ratio, min((coarse_column + 1) * ratio, columns)):
                    node = row * columns + column
                    if start[node] == start[node + 1]:
                        continue
                    for part in range(low.shape[1]):
                        if low[node, part, 2] < UNSEEN:
                            x[total] = low[node, part, 0] + (F(column - coarse_column * ratio) - middle) * spacing
                            y[total] = low[node, part, 1] + (F(row - coarse_row * ratio) - middle) * spacing
                            z[total] = low[node, part, 2]
                            total += 1
            while (total - reserved[c]) % PAD:
                x[total], y[total], z[total] = F(0), F(0), FAR_ABOVE
                total += 1
            length[c] = total - reserved[c]
    reserved[coarse_shape.rows * coarse_shape.columns] = total


@njit(cache=True)
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


@inner(fastmath=FAST)
def _blend_row(p00, mean, weight, v, j, most, wide, sums):
    """Adds a row of coarse nodes, as seen from the line v, to weights, weighted heights and weighted slopes."""
    across = (v - F(j)) * wide
    for i in range(U(sums.shape[1])):
        w = weight * min(p00[j + 1, i + ONE], most)
        sums[0, i] += w
        sums[1, i] += w * (mean[j + 1, 0, i + ONE] + across * mean[j + 1, 2, i + ONE])
        sums[2, i] += w * mean[j + 1, 1, i + ONE]
        sums[3, i] += w * mean[j + 1, 2, i + ONE]


@njit(nogil=True, cache=True, fastmath=FAST)
def spread_coarse(first_row, last_row, p00, mean, coarse_shape, ratio, most, columns, expected):
    """Blend the four coarse planes around each fine node of some rows, weighted by what they know.

    Where they know nothing, `expected` stays as it is.
    """
    wide, last_column, last_line = coarse_shape.spacing, coarse_shape.columns - 1, coarse_shape.rows - 1
    sums = np.empty((4, coarse_shape.columns), np.float32)
    for row in range(first_row, last_row):
        v = (F(row) + F(0.5)) / F(ratio) - F(0.5)
        sums[:] = F(0)
        for j in range(np.int32(np.floor(v)), np.int32(np.floor(v)) + 2):
            _blend_row(p00, mean, F(1) - abs(v - F(j)), v, min(max(j, 0), last_line), most, wide, sums)
        for c in range(1, columns + 1):
            u = (F(c) - F(0.5)) / F(ratio) - F(0.5)
            i = np.int32(np.floor(u))
            right = u - F(i)
            left = F(1) - right
            a, b = min(max(i, 0), last_column), min(max(i + 1, 0), last_column)
            total = left * sums[0, a] + right * sums[0, b]
            if total > COARSE_KNOWS:
                along_a, along_b = (u - F(a)) * wide, (u - F(b)) * wide
                height = left * (sums[1, a] + along_a * sums[2, a]) + right * (sums[1, b] + along_b * sums[2, b])
                expected[row + 1, 0, c] = height / total
                expected[row + 1, 1, c] = (left * sums[2, a] + right * sums[2, b]) / total
                expected[row + 1, 2, c] = (left * sums[3, a] + right * sums[3, b]) / total
