# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Heights over the surface, and what the labels need to count: per node and per fine column."""

from __future__ import annotations

import numpy as np

from roadbed.ground.columns_cpu import COLUMN, WALL
from roadbed.ground.numeric_cpu import FAST, F, njit

BANDS = 5  # foot..threshold, ..clear, ..highest, ..top, ..standing

# Counters of a node, as planes of one array.
NEAR, NEAR_HIGH, OPEN_NEAR, OPEN_HIGH, SEEN_GROUND, WALL_RETURNS, COUNTERS = 0, 1, 2, 3, 4, 5, 6
_BELOW, _RAISED, _ON_GROUND, _WALL_TOP = F(-0.3), F(0.08), F(0.10), F(2.5)  # m


@njit(cache=True, fastmath=FAST)
def measure_heights(first_node, last_node, start, x, y, z, mean, columns, dz):
    """dz of every point to the plane of its node."""
    for c in range(first_node, last_node):
        first, last = start[c], start[c + 1]
        if first == last:
            continue
        row = c // columns
        column = c - row * columns + 1
        h, sx, sy = mean[row + 1, 0, column], mean[row + 1, 1, column], mean[row + 1, 2, column]
        node_x, node_y, node_z, out = x[first:last], y[first:last], z[first:last], dz[first:last]
        for k in range(last - first):
            out[k] = node_z[k] - (h + sx * node_x[k] + sy * node_y[k])


@njit(cache=True, fastmath=FAST)
def count_bands(first_node, last_node, start, dz, column, columns, rules, bands, counters):
    """Per column how many points lie in each band of heights; per node the counters above."""
    for c in range(first_node, last_node):
        first, last = start[c], start[c + 1]
        near = near_high = open_near = open_high = seen = wall = 0
        if first < last:
            for inside in range(bands.shape[1]):
                for band in range(BANDS):
                    bands[c, inside, band] = 0
        for k in range(first, last):
            d = dz[k]
            in_wall = column[k] & WALL != 0
            if d >= _BELOW and d < rules.clear_threshold:
                high = d >= _RAISED
                near += 1
                near_high += high
                open_near += not in_wall
                open_high += high and not in_wall
            wall += in_wall and d < _WALL_TOP
            seen += not in_wall and abs(d) < _ON_GROUND
            if d >= rules.foot and d < rules.standing:
                # The band's number: how many of the limits lie below d.
                band = int(d >= rules.threshold) + int(d >= rules.clear_threshold)
                band += int(d >= rules.highest) + int(d >= rules.top)
                bands[c, column[k] & COLUMN, band] += np.uint16(1)
        at = c // columns, c % columns
        counters[NEAR][at], counters[NEAR_HIGH][at] = near, near_high
        counters[OPEN_NEAR][at], counters[OPEN_HIGH][at] = open_near, open_high
        counters[SEEN_GROUND][at], counters[WALL_RETURNS][at] = seen, wall
