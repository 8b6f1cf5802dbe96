# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Grid variance on the CPU. No fast math: cells and thresholds decide alike on every backend."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.compute.cpu import F, njit, prange
from roadbed.ground.variance.model import FARTHEST_HEIGHT, GROUND, OBSTACLE, UNKNOWN


class GridRules(NamedTuple):
    """VarianceConfig as plain numbers; see there."""

    rows: int
    columns: np.int32
    spacing: np.float32
    limits: np.ndarray  # x_min, x_max, y_min, y_max
    fewest: int
    largest_variance: float
    tolerance: np.float32


class SortedHeights(NamedTuple):
    """Heights in the order of their cells, those of cell c from start[c] to start[c + 1]; the cell of every point."""

    start: np.ndarray
    z: np.ndarray
    cell: np.ndarray


class Cells(NamedTuple):
    """Per cell; see frames.VarianceCells."""

    mean: np.ndarray
    variance: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    ground: np.ndarray


@njit(cache=True)
def _assign(points, rules, cell, count, first, last):
    """Cell of each point of a slice, -1 outside the limits, without a return or not finite."""
    limits, columns = rules.limits, rules.columns
    for i in range(first, last):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        inside = x >= limits[0] and x < limits[1] and y >= limits[2] and y < limits[3] and abs(z) < FARTHEST_HEIGHT
        if inside and (x != F(0) or y != F(0) or z != F(0)):
            column = np.int32((x - limits[0]) / rules.spacing)
            row = np.int32((y - limits[2]) / rules.spacing)
            index = row * columns + min(column, columns - 1)
            if index < count.shape[0]:
                cell[i] = index
                count[index] += 1
                continue
        cell[i] = -1


@njit(parallel=True, cache=True)
def sort_heights(points, rules, count, out):
    """Phase 1: heights in cell order by a stable counting sort; `count` has one row per slice of the points."""
    start, z, cell = out.start, out.z, out.cell
    slices, cells, n = count.shape[0], count.shape[1], points.shape[0]
    for s in prange(slices):
        for c in range(cells):
            count[s, c] = 0
        first, last = s * n // slices, (s + 1) * n // slices
        _assign(points, rules, cell, count[s], first, last)
    total = 0
    for c in range(cells):
        start[c] = total
        for s in range(slices):
            here = count[s, c]
            count[s, c] = total
            total += here
    start[cells] = total
    for s in prange(slices):
        for i in range(s * n // slices, (s + 1) * n // slices):
            c = cell[i]
            if c >= 0:
                z[count[s, c]] = points[i, 2]
                count[s, c] += 1


@njit(cache=True)
def _describe(start, z, cells, first, last):
    """Phase 2 for a range of cells: mean, population variance in a second pass, extremes; NaN in empty cells."""
    mean, variance, lowest, highest = cells.mean, cells.variance, cells.lowest, cells.highest
    for c in range(first, last):
        n = start[c + 1] - start[c]
        if n == 0:
            mean[c] = variance[c] = lowest[c] = highest[c] = F(np.nan)
            continue
        low = high = z[start[c]]
        total = 0.0
        for k in range(start[c], start[c + 1]):
            total += z[k]
            low = min(low, z[k])
            high = max(high, z[k])
        middle = total / n
        squares = 0.0
        for k in range(start[c], start[c + 1]):
            squares += (z[k] - middle) ** 2
        mean[c], variance[c], lowest[c], highest[c] = F(middle), F(squares / n), low, high


@njit(cache=True)
def _is_ground(start, variance, c, rules):
    """Phase 3: a cell's own variance decides; a sparse cell asks the well-filled cells of its 3 x 3 patch."""
    rows, columns, fewest, largest = rules.rows, np.int64(rules.columns), rules.fewest, rules.largest_variance
    if start[c + 1] - start[c] >= fewest:
        return variance[c] < largest
    row, column = c // columns, c % columns
    total, n = 0.0, 0
    for other_row in range(max(row - 1, 0), min(row + 2, rows)):
        first = other_row * columns + max(column - 1, 0)
        last = other_row * columns + min(column + 2, columns)
        if start[last] - start[first] < fewest:  # most of the area is empty: one look per row, not three
            continue
        for other in range(first, last):
            if start[other + 1] - start[other] >= fewest:
                total += variance[other]
                n += 1
    return n > 0 and total / n < largest


@njit(parallel=True, cache=True)
def classify(points, heights, rules, out, label, probability, height):
    """Phases 2 to 4: statistics of the cells, ground cells, labels of the points."""
    start, z, cell = heights.start, heights.z, heights.cell
    mean, variance, ground = out.mean, out.variance, out.ground
    cells = start.shape[0] - 1
    parts = 64
    for i in prange(parts):
        _describe(start, z, out, i * cells // parts, (i + 1) * cells // parts)
    for i in prange(parts):
        for c in range(i * cells // parts, (i + 1) * cells // parts):
            ground[c] = _is_ground(start, variance, c, rules)
    for j in prange(points.shape[0]):
        c = cell[j]
        label[j], probability[j], height[j] = UNKNOWN, F(0), F(np.nan)
        if c >= 0:
            label[j] = OBSTACLE
            if ground[c]:
                height[j] = points[j, 2] - mean[c]
                if abs(height[j]) < rules.tolerance:
                    label[j], probability[j] = GROUND, F(1)
