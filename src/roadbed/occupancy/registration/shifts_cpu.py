# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that lay points over a picture with many shifts at once: each adds its surroundings to the scores.

That is one run of numbers, and so vector instructions. Places are subcells; `model.py` says what a picture is."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from roadbed.kernels.jit import inner, njit
from roadbed.kernels.numeric import U
from roadbed.occupancy.model import FREE_BIT, NEAR_SHIFT, SUBCELLS

_ROW_BITS = (1 << SUBCELLS) - 1


def _pairs() -> NDArray[np.int16]:
    """g of a row of four subcells by its bits, the fifth says that the cell is free: those at even x as one number, and
    those at odd x."""
    found = [[1 if bits >> k & 1 else -(bits >> SUBCELLS) for k in (0, 2, 1, 3)] for bits in range(2 << SUBCELLS)]
    return np.array(found, np.int8).view(np.int16)


_PAIRS = _pairs()


@njit(inline="always")
def agreement(picture, x, y):
    """g: 1 within a subcell of a return, -1 where the cell is free, 0 elsewhere."""
    if x < 0 or y < 0:
        return 0
    column, row = x // SUBCELLS, y // SUBCELLS
    if row >= picture.shape[0] or column >= picture.shape[1]:
        return 0
    there = picture[row, column]
    if (there >> (NEAR_SHIFT + (y % SUBCELLS) * SUBCELLS + x % SUBCELLS)) & 1:
        return 1
    return -((there >> FREE_BIT) & 1)


@njit(inline="always")
def older_place(x, y, between):
    """Where a subcell of now was in the older grid."""
    cx, cy = x + 0.5, y + 0.5
    return (
        math.floor(between.xx * cx + between.xy * cy + between.x),
        math.floor(between.yx * cx + between.yy * cy + between.y),
    )


@njit(inline="always")
def _by_whole_cells(between):
    turned = between.xx != 1 or between.yy != 1 or between.xy != 0 or between.yx != 0
    return not turned and between.x % SUBCELLS == 0 and between.y % SUBCELLS == 0


@inner()
def _agreements(picture, between, left, low, window):
    """g from the cell (left, low) of now on, [y % 2][x % 2][y // 2][x // 2]: every second subcell beside the next."""
    if not _by_whole_cells(between):
        for j in range(2 * window.shape[2]):
            for i in range(2 * window.shape[3]):
                x, y = older_place(left * SUBCELLS + i, low * SUBCELLS + j, between)
                window[j % 2, i % 2, j // 2, i // 2] = agreement(picture, x, y)
        return
    pairs = window.view(np.int16)
    pairs[:] = 0
    left += int(between.x) // SUBCELLS
    low += int(between.y) // SUBCELLS
    for row in range(max(low, 0), min(low + pairs.shape[2] // 2, picture.shape[0])):
        for column in range(max(left, 0), min(left + pairs.shape[3], picture.shape[1])):
            there, j, i = picture[row, column], 2 * (row - low), column - left
            free = ((there >> FREE_BIT) & 1) << SUBCELLS
            for k in range(SUBCELLS):
                bits = ((there >> (NEAR_SHIFT + k * SUBCELLS)) & _ROW_BITS) | free
                pairs[k % 2, 0, j + k // 2, i] = _PAIRS[bits, 0]
                pairs[k % 2, 1, j + k // 2, i] = _PAIRS[bits, 1]


@inner()
def scores_around(points, picture, between, reach):
    """Sum of g at `points` + d for every second shift d from -reach to reach, [y][x]; further columns mean nothing."""
    lowest_x, lowest_y, highest_x, highest_y = points[0, 0], points[0, 1], points[0, 0], points[0, 1]
    for k in range(points.shape[0]):
        lowest_x, highest_x = min(lowest_x, points[k, 0]), max(highest_x, points[k, 0])
        lowest_y, highest_y = min(lowest_y, points[k, 1]), max(highest_y, points[k, 1])
    left, low = (lowest_x - reach) // SUBCELLS, (lowest_y - reach) // SUBCELLS
    wide, high = (highest_x + reach) // SUBCELLS - left + 1, (highest_y + reach) // SUBCELLS - low + 1
    # One row more, as scores are as wide as the window: a point then adds one run of numbers to them.
    window = np.empty((2, 2, high * SUBCELLS // 2 + 1, wide * SUBCELLS // 2), np.int8)
    _agreements(picture, between, left, low, window)
    scores = np.zeros((reach + 1, window.shape[3]), np.int16)
    found, sums = window.reshape(-1), scores.reshape(-1)
    for k in range(points.shape[0]):
        x, y = points[k, 0] - reach - left * SUBCELLS, points[k, 1] - reach - low * SUBCELLS
        begin = (((y % 2) * 2 + x % 2) * window.shape[2] + y // 2) * window.shape[3] + x // 2
        for i in range(U(sums.shape[0])):
            sums[i] += found[U(begin) + i]
    return scores
