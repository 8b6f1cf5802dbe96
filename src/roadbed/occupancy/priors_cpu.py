# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that bring a grid's layers to where the grid is now. Layers are float32 of shape (rows, columns)."""

from __future__ import annotations

import math

from numba import njit, prange


@njit(cache=True, parallel=True)
def roll_priors(static, dynamic, free, maturity, columns, rows, out_static, out_dynamic, out_free, out_maturity):
    """P6, rolling: the grid moved by whole cells; cells that enter are unknown."""
    height, width = static.shape
    for row in prange(height):
        old_row = row + rows
        for column in range(width):
            old_column = column + columns
            if 0 <= old_row < height and 0 <= old_column < width:
                out_static[row, column] = static[old_row, old_column]
                out_dynamic[row, column] = dynamic[old_row, old_column]
                out_free[row, column] = free[old_row, old_column]
                out_maturity[row, column] = maturity[old_row, old_column]
            else:
                out_static[row, column] = 0
                out_dynamic[row, column] = 0
                out_free[row, column] = 0
                out_maturity[row, column] = 0


@njit(cache=True, parallel=True)
def interpolate_priors(
    static, dynamic, free, maturity, rotation, shift, out_static, out_dynamic, out_free, out_maturity
):
    """P6, interpolating (the paper's): each new cell from four old ones; `p_old = rotation p_new + shift`, in cells."""
    height, width = static.shape
    for row in prange(height):
        for column in range(width):
            x = rotation[0, 0] * column + rotation[0, 1] * row + shift[0]
            y = rotation[1, 0] * column + rotation[1, 1] * row + shift[1]
            left, low = math.floor(x), math.floor(y)
            fx, fy = x - left, y - low
            s = d = e = q = 0.0
            for k in range(4):
                old_column, old_row = left + (k & 1), low + (k >> 1)
                if 0 <= old_row < height and 0 <= old_column < width:
                    w = (fx if k & 1 else 1 - fx) * (fy if k >> 1 else 1 - fy)
                    s += w * static[old_row, old_column]
                    d += w * dynamic[old_row, old_column]
                    e += w * free[old_row, old_column]
                    q += w * maturity[old_row, old_column]
            out_static[row, column] = s
            out_dynamic[row, column] = d
            out_free[row, column] = e
            out_maturity[row, column] = q
