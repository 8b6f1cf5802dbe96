# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Grid variance on the CPU, without fast math: every backend gives the same cells and labels. Twin: variance.cl."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.ground.variance.model import (
    FARTHEST_HEIGHT,
    GROUND,
    METRES_PER_UNIT,
    MOST_SQUARES,
    OBSTACLE,
    UNITS_PER_METRE,
    UNKNOWN,
)
from roadbed.kernels.jit import inner, merged, njit
from roadbed.kernels.numeric import F
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk
from roadbed.runtime.primitives_cpu import cell_starts


class GridRules(NamedTuple):
    """VarianceConfig for kernels."""

    rows: np.int32
    columns: np.int32
    cells_per_metre: np.float32
    limits: np.ndarray  # x_min, x_max, y_min, y_max
    fewest: int
    largest_variance: np.float32
    tolerance: np.float32


class SortedHeights(NamedTuple):
    """Heights sorted by cell, those of cell c at start[c]..start[c + 1], and the cell of every point."""

    start: np.ndarray
    z: np.ndarray
    cell: np.ndarray


class Cells(NamedTuple):
    """Statistics per cell; see core.frames.VarianceCells."""

    mean: np.ndarray
    variance: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    ground: np.ndarray


@inner()
def _assign(points, rules, cell, count, first, last):
    """Write the cell of each point of a slice; -1 outside the limits, for missing returns and for NaN."""
    limits, columns, per_metre = rules.limits, rules.columns, rules.cells_per_metre
    for i in range(first, last):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        inside = x >= limits[0] and x < limits[1] and y >= limits[2] and y < limits[3] and abs(z) < FARTHEST_HEIGHT
        if inside and (x != F(0) or y != F(0) or z != F(0)):
            # Products, because not all devices round a float32 quotient correctly.
            column, row = np.int32((x - limits[0]) * per_metre), np.int32((y - limits[2]) * per_metre)
            index = min(row, rules.rows - 1) * columns + min(column, columns - 1)
            cell[i] = index
            count[index] += 1
        else:
            cell[i] = -1


@merged()
def _scatter(points, cell, count, z, first, last):
    """Write the heights of a slice in cell order; `count` holds the next free index of each cell."""
    for i in range(first, last):
        c = cell[i]
        if c >= 0:
            z[count[c]] = points[i, 2]
            count[c] += 1


SORT_PHASES = 3


@njit(nogil=True, cache=True)
def sort_heights(tasks, points, rules, count, out):
    """Phase 1: sort heights by cell with a stable counting sort; `count` has one row per slice of the points."""
    slices, n = count.shape[0], points.shape[0]
    for phase in range(SORT_PHASES):
        parts = 1 if phase == 1 else slices
        s = first_chunk(tasks, phase)
        while s < parts:
            first, last = s * n // slices, (s + 1) * n // slices
            if phase == 0:
                count[s, :] = 0
                _assign(points, rules, out.cell, count[s], first, last)
            elif phase == 1:
                cell_starts(count, out.start)
            else:
                _scatter(points, out.cell, count[s], out.z, first, last)
            s = next_chunk(tasks, phase)
        barrier(tasks, phase, parts)


@inner()
def _shift_of(low, high, n):
    """By how many bits deviations are shortened so that n squares fit in 63 bits; 0 unless a cell is metres high."""
    shift, extent = 0, (high - low) * UNITS_PER_METRE
    while extent * extent * F(n) > MOST_SQUARES:
        extent *= F(0.5)
        shift += 1
    return shift


@inner()
def _describe(start, z, cells, first, last):
    """Phase 2 for a range of cells: mean, population variance (second pass), extremes; NaN in empty cells.

    Sums are integers of 2^-24 m, so that every backend finds the same whatever the order of the points.
    """
    mean, variance, lowest, highest = cells.mean, cells.variance, cells.lowest, cells.highest
    for c in range(first, last):
        n = start[c + 1] - start[c]
        if n == 0:
            mean[c] = variance[c] = lowest[c] = highest[c] = F(np.nan)
            continue
        low = high = z[start[c]]
        total = squares = np.int64(0)
        for k in range(start[c], start[c + 1]):
            total += np.int64(z[k] * UNITS_PER_METRE)
            low = min(low, z[k])
            high = max(high, z[k])
        middle, shift = total // n, _shift_of(low, high, n)
        for k in range(start[c], start[c + 1]):
            off = (np.int64(z[k] * UNITS_PER_METRE) - middle) >> shift
            squares += off * off
        unit = F(1 << shift) * METRES_PER_UNIT
        mean[c], variance[c] = F(middle) * METRES_PER_UNIT, F(squares) / F(n) * (unit * unit)
        lowest[c], highest[c] = low, high


@inner()
def _is_ground(start, variance, c, rules):
    """Phase 3: a cell is ground by its variance; one with too few points by the mean of its 3 x 3 patch."""
    rows, columns, fewest, largest = rules.rows, np.int64(rules.columns), rules.fewest, rules.largest_variance
    if start[c + 1] - start[c] >= fewest:
        return variance[c] < largest
    row, column = c // columns, c % columns
    total, n = F(0), 0
    for other_row in range(max(row - 1, 0), min(row + 2, rows)):
        first = other_row * columns + max(column - 1, 0)
        last = other_row * columns + min(column + 2, columns)
        if start[last] - start[first] < fewest:  # most of the area is empty: one test per row, not three
            continue
        for other in range(first, last):
            if start[other + 1] - start[other] >= fewest:
                total += variance[other]
                n += 1
    return n > 0 and total < largest * F(n)


@merged()
def _label(points, heights, rules, cells, out, first, last):
    """Phase 4: label a range of points."""
    (label, probability, height), mean = out, cells.mean
    for j in range(first, last):
        c = heights.cell[j]
        label[j], probability[j], height[j] = UNKNOWN, F(0), F(np.nan)
        if c >= 0:
            label[j] = OBSTACLE
            if cells.ground[c]:
                height[j] = points[j, 2] - mean[c]
                if abs(height[j]) < rules.tolerance:
                    label[j], probability[j] = GROUND, F(1)


DESCRIBE, CLASSIFY, LABEL, PHASES = range(4)
_PARTS = 64


@njit(nogil=True, cache=True)
def classify(tasks, points, heights, rules, cells, out):
    """Phases 2 to 4: cell statistics, ground cells, labels. `out`: label, probability and height per point."""
    start, n = heights.start, points.shape[0]
    size = start.shape[0] - 1
    for phase in range(PHASES):
        i = first_chunk(tasks, phase)
        while i < _PARTS:
            first, last = i * size // _PARTS, (i + 1) * size // _PARTS
            if phase == DESCRIBE:
                _describe(start, heights.z, cells, first, last)
            elif phase == CLASSIFY:
                for c in range(first, last):
                    cells.ground[c] = _is_ground(start, cells.variance, c, rules)
            else:
                _label(points, heights, rules, cells, out, i * n // _PARTS, (i + 1) * n // _PARTS)
            i = next_chunk(tasks, phase)
        barrier(tasks, phase, _PARTS)
