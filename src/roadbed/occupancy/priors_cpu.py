# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that bring layers of cells to where the grid is now: float32 arrays (layers, rows, columns)."""

from __future__ import annotations

import math

import numpy as np

from roadbed.compute.cpu import U
from roadbed.compute.kernels import njit


@njit(cache=True, nogil=True, allocates=False)
def roll_layers(first, last, layers, columns, rows, out):
    """P6, rolling: the grid moved by whole cells; cells that enter are zero, which is unknown."""
    count, height, width = layers.shape
    begin = min(max(0, -columns), width)  # of the columns that were there before
    end = max(min(width, width - columns), begin)
    for row in range(first, last):
        old_row = row + rows
        stays = 0 <= old_row < height
        for layer in range(count):
            for column in range(U(begin if stays else width)):
                out[layer, row, column] = 0
            for column in range(U(begin), U(end if stays else begin)):
                out[layer, row, column] = layers[layer, old_row, U(np.int64(column) + columns)]
            for column in range(U(end if stays else width), U(width)):
                out[layer, row, column] = 0


@njit(cache=True, nogil=True, allocates=False)
def interpolate_layers(first, last, layers, rotation, shift, out):
    """P6, interpolating (the paper's): each new cell from four old ones; `p_old = rotation p_new + shift`, in cells."""
    count, height, width = layers.shape
    for row in range(first, last):
        for column in range(width):
            x = rotation[0, 0] * column + rotation[0, 1] * row + shift[0]
            y = rotation[1, 0] * column + rotation[1, 1] * row + shift[1]
            left, low = math.floor(x), math.floor(y)
            fx, fy = x - left, y - low
            for layer in range(count):
                total = 0.0
                for k in range(4):
                    old_column, old_row = left + (k & 1), low + (k >> 1)
                    if 0 <= old_row < height and 0 <= old_column < width:
                        w = (fx if k & 1 else 1 - fx) * (fy if k >> 1 else 1 - fy)
                        total += w * layers[layer, old_row, old_column]
                out[layer, row, column] = total
