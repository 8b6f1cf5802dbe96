# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that move layers to the present grid: float32 arrays (layers, rows, columns)."""

import numpy as np

from roadbed.kernels.jit import inlined, merged, njit
from roadbed.kernels.numeric import U, max, min


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def interpolate_layers(first, last, layers, rotation, shift, out):
    """P6, interpolating (the paper's): each new cell from four old ones; `p_old = rotation p_new + shift`, in cells."""
    places = np.empty(
        (6, layers.shape[2])
    )  # per cell of a row: column and row of the first old cell, weights of the four
    for row in range(first, last):
        _place_row(row, rotation, shift, places)
        _interpolate_row(row, layers, places, out)


@merged()
def _place_row(row, rotation, shift, places):
    xx, xy, yx, yy = rotation[0, 0], rotation[0, 1], rotation[1, 0], rotation[1, 1]
    shift_x, shift_y = shift[0], shift[1]
    for column in range(U(places.shape[1])):
        x = xx * np.int64(column) + xy * row + shift_x
        y = yx * np.int64(column) + yy * row + shift_y
        left, low = np.floor(x), np.floor(y)
        fx, fy = x - left, y - low
        places[0, column] = left
        places[1, column] = low
        places[2, column] = (1 - fx) * (1 - fy)
        places[3, column] = fx * (1 - fy)
        places[4, column] = (1 - fx) * fy
        places[5, column] = fx * fy


@merged()
def _interpolate_row(row, layers, places, out):
    """In runs of cells whose old cells are neighbours in the same two rows, which is most of a row."""
    count, height, width = layers.shape
    begin = 0
    while begin < width:
        low, offset = int(places[1, begin]), int(places[0, begin]) - begin
        end = begin + 1
        while end < width and places[0, end] == end + offset and places[1, end] == low:
            end += 1
        # Cells of the run whose old cells all lie inside the grid.
        first = min(max(-offset, begin), end) if 0 <= low < height - 1 else end
        last = max(min(width - 1 - offset, end), first)
        for layer in range(count):
            for column in range(begin, first):
                out[layer, row, column] = _at_rim(layers[layer], column + offset, low, places, column)
            _blend(layers, (U(layer), U(low), U(first + offset)), places, U(row), U(first), U(last - first), out)
            for column in range(last, end):
                out[layer, row, column] = _at_rim(layers[layer], column + offset, low, places, column)
        begin = end


@merged()
def _blend(layers, old, places, row, first, count, out):
    """`count` cells from `first` on, by places: slices would take as long to make as ten cells."""
    layer, low, left = old
    for k in range(count):
        to, at, next_ = first + k, left + k, left + k + U(1)
        total = places[2, to] * layers[layer, low, at] + places[3, to] * layers[layer, low, next_]
        above = low + U(1)
        out[layer, row, to] = (
            total + places[4, to] * layers[layer, above, at] + places[5, to] * layers[layer, above, next_]
        )


@inlined()
def _at_rim(layer, left, low, places, column):
    """One cell of which some old cells may lie outside of the grid, where everything is unknown."""
    total = 0.0
    for k in range(4):
        old_column, old_row = left + (k & 1), low + (k >> 1)
        if 0 <= old_row < layer.shape[0] and 0 <= old_column < layer.shape[1]:
            total += places[2 + k, column] * layer[old_row, old_column]
    return total
