# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that score many shifts of some points over a bitmap at once: each point adds its neighbourhood to them.

That is one contiguous run of numbers, and so vector instructions. Positions are subcells; bitmaps: see `model.py`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from roadbed.kernels.jit import inner, njit
from roadbed.kernels.numeric import U, max, min
from roadbed.occupancy.model import SUBCELLS
from roadbed.occupancy.registration.model import FREE_BIT, NEAR_SHIFT

_ROW_BITS = (1 << SUBCELLS) - 1


def _pairs() -> NDArray[np.int16]:
    """g of a row of four subcells by its bits, of which the fifth says that the cell is free: those at even x packed in
    one number, then those at odd x."""
    found = [[1 if bits >> k & 1 else -(bits >> SUBCELLS) for k in (0, 2, 1, 3)] for bits in range(2 << SUBCELLS)]
    return np.array(found, np.int8).view(np.int16)


_PAIRS = _pairs()


@njit(inline="always")
def agreement(bitmap, x, y):
    """g: 1 within a subcell of a return, -1 where the cell is free, 0 elsewhere."""
    if x < 0 or y < 0:
        return 0
    column, row = x // SUBCELLS, y // SUBCELLS
    if row >= bitmap.shape[0] or column >= bitmap.shape[1]:
        return 0
    there = bitmap[row, column]
    if (there >> (NEAR_SHIFT + (y % SUBCELLS) * SUBCELLS + x % SUBCELLS)) & 1:
        return 1
    return -((there >> FREE_BIT) & 1)


@njit(inline="always")
def older_place(x, y, transform):
    """Position of a present subcell in the older grid."""
    cx, cy = x + 0.5, y + 0.5
    return (
        math.floor(transform.xx * cx + transform.xy * cy + transform.x),
        math.floor(transform.yx * cx + transform.yy * cy + transform.y),
    )


@njit(inline="always")
def _by_whole_cells(transform):
    turned = transform.xx != 1 or transform.yy != 1 or transform.xy != 0 or transform.yx != 0
    return not turned and transform.x % SUBCELLS == 0 and transform.y % SUBCELLS == 0


@inner()
def _agreements(bitmap, transform, left, low, window):
    """g from the present cell (left, low) on, [y % 2][x % 2][y // 2][x // 2]: every second subcell is contiguous."""
    if not _by_whole_cells(transform):
        for j in range(2 * window.shape[2]):
            for i in range(2 * window.shape[3]):
                x, y = older_place(left * SUBCELLS + i, low * SUBCELLS + j, transform)
                window[j % 2, i % 2, j // 2, i // 2] = agreement(bitmap, x, y)
        return
    pairs = window.view(np.int16)
    pairs[:] = 0
    left += int(transform.x) // SUBCELLS
    low += int(transform.y) // SUBCELLS
    for row in range(max(low, 0), min(low + pairs.shape[2] // 2, bitmap.shape[0])):
        for column in range(max(left, 0), min(left + pairs.shape[3], bitmap.shape[1])):
            there, j, i = bitmap[row, column], 2 * (row - low), column - left
            free = ((there >> FREE_BIT) & 1) << SUBCELLS
            for k in range(SUBCELLS):
                bits = ((there >> (NEAR_SHIFT + k * SUBCELLS)) & _ROW_BITS) | free
                pairs[k % 2, 0, j + k // 2, i] = _PAIRS[bits, 0]
                pairs[k % 2, 1, j + k // 2, i] = _PAIRS[bits, 1]


@inner()
def scores_around(points, bitmap, transform, reach):
    """Sum of g at `points` + d for every second shift d from -reach to reach, [y][x]; further columns are undefined."""
    lowest_x, lowest_y, highest_x, highest_y = points[0, 0], points[0, 1], points[0, 0], points[0, 1]
    for k in range(points.shape[0]):
        lowest_x, highest_x = min(lowest_x, points[k, 0]), max(highest_x, points[k, 0])
        lowest_y, highest_y = min(lowest_y, points[k, 1]), max(highest_y, points[k, 1])
    left, low = (lowest_x - reach) // SUBCELLS, (lowest_y - reach) // SUBCELLS
    wide, high = (highest_x + reach) // SUBCELLS - left + 1, (highest_y + reach) // SUBCELLS - low + 1
    # One row more, as scores are as wide as the window: a point then adds one contiguous run to them.
    window = np.empty((2, 2, high * SUBCELLS // 2 + 1, wide * SUBCELLS // 2), np.int8)
    _agreements(bitmap, transform, left, low, window)
    scores = np.zeros((reach + 1, window.shape[3]), np.int16)
    found, sums = window.reshape(-1), scores.reshape(-1)
    for k in range(points.shape[0]):
        x, y = points[k, 0] - reach - left * SUBCELLS, points[k, 1] - reach - low * SUBCELLS
        begin = (((y % 2) * 2 + x % 2) * window.shape[2] + y // 2) * window.shape[3] + x // 2
        for i in range(U(sums.shape[0])):
            sums[i] += found[U(begin) + i]
    return scores
