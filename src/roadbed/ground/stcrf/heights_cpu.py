# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Heights over the surface, and what a node's points say of it together: bands of heights per pillar, counters."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, ONE, F, U, inner
from roadbed.compute.lanes import STEP, load, none_of, numbers, splat, total, where
from roadbed.ground.stcrf.model import (
    BELOW,
    NEAR,
    NEAR_HIGH,
    ON_GROUND,
    OPEN_HIGH,
    OPEN_NEAR,
    RAISED,
    SEEN_GROUND,
    VOTE_LOWEST,
    VOTE_TOP,
    WALL_RETURNS,
    WALL_TOP,
)  # fmt: skip
from roadbed.ground.stcrf.places_cpu import MARGIN
from roadbed.ground.stcrf.select_cpu import PILLAR, WALL


@inner(fastmath={"contract"})  # the same sum for a point wherever it stands in a vector
def measure_heights(row, points, columns, mean, dz):
    """dz of every point of a row of nodes to the plane of its node; in node order, where the loops vectorise."""
    start, x, y, z, listed = points.start, points.x, points.y, points.z, points.listed
    for i in range(U(listed.row[row]), U(listed.row[row + 1])):
        c = U(listed.nodes[i])
        first, last = U(start[c]), U(start[c + ONE])
        column = c - U(row * columns) + ONE
        h, sx, sy = mean[0, column], mean[1, column], mean[2, column]
        for k in range(first, last):
            dz[k] = z[k] - (h + sx * x[k] + sy * y[k])


@inner()
def list_near(first_listed, last_listed, points, rules, dz, near, near_count):
    """Points over which more than their own height decides, per node from its start on: a quarter of a scan.

    Of a range of listed nodes.
    """
    start = points.start
    lowest, highest = min(min(rules.foot, VOTE_LOWEST), rules.smooth_threshold), max(rules.standing, VOTE_TOP)
    for i in range(U(first_listed), U(last_listed)):
        c = U(points.listed.nodes[i])
        first, place = U(start[c]), U(start[c])
        for k in range(first, U(start[c + ONE])):
            near[place] = k  # written over where it does not count: cheaper than a branch
            place += U(1) if (dz[k] >= lowest) & (dz[k] < highest) else U(0)
        near_count[c] = place - first


@inner()
def _count_node(dz, pillar, first, last, clear_threshold):
    """The counters of one node."""
    nothing, one = splat(F(0)), splat(F(1))
    near = near_high = open_near = open_high = seen = wall = nothing
    for k in range(first, last, STEP):
        d, is_point = load(dz, k), numbers() < F(last - k)
        is_open, is_near = none_of(pillar, k, WALL), is_point & (d >= BELOW) & (d < clear_threshold)
        is_high = is_near & (d >= RAISED)
        on_ground, low = is_point & is_open & (d > -ON_GROUND) & (d < ON_GROUND), is_point & (d < WALL_TOP)
        near, near_high = near + where(is_near, one, nothing), near_high + where(is_high, one, nothing)
        open_near = open_near + where(is_near & is_open, one, nothing)
        open_high = open_high + where(is_high & is_open, one, nothing)
        seen = seen + where(on_ground, one, nothing)
        wall = wall + where(low, one, nothing) - where(low & is_open, one, nothing)
    return total(near), total(near_high), total(open_near), total(open_high), total(seen), total(wall)


@inner(fastmath=FAST)
def count_row(row, points, columns, rules, work, counters):
    """Per pillar of a row of nodes how many points lie in each band of heights; per node the counters of the model."""
    start, pillar, listed = points.start, points.pillar, points.listed
    dz, near, near_count, bands = work.dz, work.near, work.near_count, work.bands
    counters[:] = 0
    for i in range(U(listed.row[row]), U(listed.row[row + 1])):
        c = U(listed.nodes[i])
        column = c - U(row * columns) + U(MARGIN)
        first, last = U(start[c]), U(start[c + ONE])
        if first == last:
            continue
        counts = _count_node(dz, pillar, first, last, rules.clear_threshold)
        counters[NEAR, column], counters[NEAR_HIGH, column] = np.int32(counts[0]), np.int32(counts[1])
        counters[OPEN_NEAR, column], counters[OPEN_HIGH, column] = np.int32(counts[2]), np.int32(counts[3])
        counters[SEEN_GROUND, column], counters[WALL_RETURNS, column] = np.int32(counts[4]), np.int32(counts[5])
        if near_count[c] == 0:
            continue
        bands[c] = 0
        for place in range(first, first + U(near_count[c])):
            k = U(near[place])
            d = dz[k]
            if d >= rules.foot and d < rules.standing:
                # The band's number: how many of the limits lie below d.
                band = int(d >= rules.threshold) + int(d >= rules.clear_threshold)
                band += int(d >= rules.highest) + int(d >= rules.top)
                bands[c, pillar[k] & PILLAR, band] += np.uint16(1)
