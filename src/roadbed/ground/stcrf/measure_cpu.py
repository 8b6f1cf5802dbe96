# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Heights over the surface, and what the labels need to count: per node and per fine column."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, F, U, exp2_negative, njit
from roadbed.ground.stcrf.select_cpu import COLUMN, WALL

BANDS = 5  # foot..threshold, ..clear, ..highest, ..top, ..standing

# Counters of a node, as planes of one array.
NEAR, NEAR_HIGH, OPEN_NEAR, OPEN_HIGH, SEEN_GROUND, WALL_RETURNS, COUNTERS = 0, 1, 2, 3, 4, 5, 6
_BELOW, _RAISED, _ON_GROUND, _WALL_TOP = F(-0.3), F(0.08), F(0.10), F(2.5)  # m


@njit(cache=True, fastmath=FAST)
def measure_heights(first_node, last_node, start, x, y, z, mean, columns, up, down, dz, probability):
    """dz of every point to the plane of its node, and c_j; in node order, where the loops vectorise."""
    for c in range(first_node, last_node):
        first, last = U(start[c]), U(start[c + 1])
        if first == last:
            continue
        row = c // columns
        column = c - row * columns + 1
        h, sx, sy = mean[row + 1, 0, column], mean[row + 1, 1, column], mean[row + 1, 2, column]
        for k in range(first, last):
            dz[k] = z[k] - (h + sx * x[k] + sy * y[k])
    for k in range(U(start[first_node]), U(start[last_node])):
        probability[k] = exp2_negative(dz[k] * dz[k] * (up if dz[k] >= F(0) else down))


@njit(cache=True, fastmath=FAST)
def _count_node(dz, column, first, last, clear_threshold):
    """The counters of one node, as float32 and without a branch: whole numbers are exact, and the loop vectorises."""
    near = near_high = open_near = open_high = seen = wall = F(0)
    for k in range(first, last):
        d = dz[k]
        is_open = F(0) if column[k] & WALL else F(1)
        is_near = F(1) if (d >= _BELOW) & (d < clear_threshold) else F(0)
        is_high = is_near if d >= _RAISED else F(0)
        near += is_near
        near_high += is_high
        open_near += is_near * is_open
        open_high += is_high * is_open
        seen += is_open if abs(d) < _ON_GROUND else F(0)
        wall += F(1) - is_open if d < _WALL_TOP else F(0)
    return near, near_high, open_near, open_high, seen, wall


@njit(cache=True, fastmath=FAST)
def count_bands(first_node, last_node, start, dz, column, columns, rules, bands, counters):
    """Per column how many points lie in each band of heights; per node the counters above."""
    for c in range(first_node, last_node):
        first, last = U(start[c]), U(start[c + 1])
        row = c // columns
        at = c - row * columns
        if first == last:
            for counter in range(COUNTERS):
                counters[counter, row, at] = 0
            continue
        for inside in range(bands.shape[1]):
            for band in range(BANDS):
                bands[c, inside, band] = 0
        counts = _count_node(dz, column, first, last, rules.clear_threshold)
        counters[NEAR, row, at], counters[NEAR_HIGH, row, at] = np.int32(counts[0]), np.int32(counts[1])
        counters[OPEN_NEAR, row, at], counters[OPEN_HIGH, row, at] = np.int32(counts[2]), np.int32(counts[3])
        counters[SEEN_GROUND, row, at], counters[WALL_RETURNS, row, at] = np.int32(counts[4]), np.int32(counts[5])
        for k in range(first, last):
            d = dz[k]
            if d >= rules.foot and d < rules.standing:
                # The band's number: how many of the limits lie below d.
                band = int(d >= rules.threshold) + int(d >= rules.clear_threshold)
                band += int(d >= rules.highest) + int(d >= rules.top)
                bands[c, column[k] & COLUMN, band] += np.uint16(1)
