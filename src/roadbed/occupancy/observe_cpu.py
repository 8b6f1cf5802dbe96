# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of the observation grid: points to polar table and cell counts."""

from __future__ import annotations

import math

import numpy as np

from roadbed.compute.kernels import inner, njit
from roadbed.occupancy.model import (
    MARKING_WEIGHT,
    MOST_WEIGHT,
    NO_BEAM,
)

HALVES = 2  # of `collect`


# Places are whole numbers as floats, which a vector of them stays.


@njit(cache=True, inline="always")
def nearest_node(ground, x, y):
    """Number, column and row of a node of the ground; the number is -1 outside of it."""
    column = np.floor((x - ground.x0) / ground.spacing + 0.5)
    row = np.floor((y - ground.y0) / ground.spacing + 0.5)
    within = (column >= 0) & (row >= 0) & (column < ground.columns) & (row < ground.rows)
    return (row * ground.columns + column if within else -1.0), column, row


@njit(cache=True, inline="always")
def plane_at(plane, x, y):
    return plane[0] + plane[1] * x + plane[2] * y


@njit(cache=True, inline="always")
def azimuth_bin(dx, dy, bins):
    return min(np.floor(azimuth_part(dx, dy, bins)), bins - 1.0)


@njit(cache=True, inline="always")
def azimuth_part(dx, dy, bins):
    """The full turn from -pi on, in bins."""
    return (_azimuth(dx, dy) + math.pi) * (bins / (2 * math.pi))


@njit(cache=True, inline="always")
def _azimuth(dx, dy):
    """atan2 by the polynomial of Abramowitz and Stegun 4.4.49, within 0.001 degrees: the bins are far wider."""
    wide, high = abs(dx), abs(dy)
    steep, longer = high > wide, max(wide, high)
    t = min(wide, high) / longer if longer > 0 else 0.0
    t2 = t * t
    angle = t * (0.9998660 + t2 * (-0.3302995 + t2 * (0.1801410 + t2 * (-0.0851330 + t2 * 0.0208351))))
    if steep:
        angle = math.pi / 2 - angle
    if dx < 0:
        angle = math.pi - angle
    return -angle if dy < 0 else angle


@njit(cache=True, nogil=True, allocates=False)
def collect(first, last, located, out):
    """Scatter the points: lowest slope per polar bin of beams and of low obstacles; per cell obstacle weight, hit
    subcells and ground returns. A range is of the two HALVES, of which each may be done by its own thread."""
    for half in range(first, last):
        if half == 0:
            _collect_beams(located, out)
        else:
            _collect_returns(located, out)


@inner()
def _collect_beams(located, out):
    table, cover = out.table.reshape(-1), out.cover.reshape(-1)
    table[:] = NO_BEAM
    cover[:] = NO_BEAM
    for k in range(located.ray.shape[0]):
        ray, low, slope = located.ray[k], located.low[k], located.slope[k]
        if ray >= 0 and slope < table[ray]:
            table[ray] = slope
        if low >= 0:
            cover[low] = min(cover[low], slope)


@inner()
def _collect_returns(located, out):
    out.hits[:] = 0
    out.surface[:] = 0
    out.ground_seen[:] = 0
    for k in range(located.cell.shape[0]):
        cell = located.cell[k]
        if cell < 0:
            continue
        if out.hits[cell] < MOST_WEIGHT:
            out.hits[cell] += located.weight[k]
        if located.weight[k] > MARKING_WEIGHT:
            out.surface[cell] |= np.uint16(1 << located.subcell[k])
        out.ground_seen[cell] |= located.on_ground[k]


@njit(cache=True, nogil=True, allocates=False)
def running_minimum(first, last, table, farthest):
    """From far to near: a beam that ended further out passed every nearer bin of its azimuth. (rays, bins)"""
    for azimuth in range(first, last):
        k = table.shape[1] - 1
        while k >= 0 and table[azimuth, k] >= NO_BEAM:
            k -= 1
        farthest[azimuth] = k
        lowest = NO_BEAM
        while k >= 0:
            lowest = min(lowest, table[azimuth, k])
            table[azimuth, k] = lowest
            k -= 1


@njit(cache=True, nogil=True, allocates=False)
def spread_cover(first, last, cover, bins):
    """What stands low in a bin covers the next `bins` bins behind it: there is room for its body. (rays, bins)

    In: lowest slope of low obstacles per bin. Out: the slope under which a beam passes beneath something.
    """
    for azimuth in range(first, last):
        low = 0
        for k in range(cover.shape[1]):
            low += cover[azimuth, k] < NO_BEAM
        if low == 0:
            for k in range(cover.shape[1]):
                cover[azimuth, k] = -NO_BEAM
            continue
        slope, until = -NO_BEAM, -1
        for k in range(cover.shape[1]):
            found = cover[azimuth, k]
            cover[azimuth, k] = slope if k <= until else -NO_BEAM
            if found < NO_BEAM:
                slope = max(slope, found) if k <= until else found
                until = k + bins
