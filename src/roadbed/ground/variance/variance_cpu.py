# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Grid variance on the CPU, without fast math: every backend gives the same cells and labels. Twin: variance.cl."""

from typing import NamedTuple

import numpy as np

from roadbed.ground.variance import model
from roadbed.kernels.jit import inner, merged, njit
from roadbed.kernels.numeric import F, max, min
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk


class GridRules(NamedTuple):
    """VarianceConfig for kernels."""

    rows: np.int32
    columns: np.int32
    cells_per_metre: np.float32
    limits: np.ndarray  # x_min, x_max, y_min, y_max
    fewest: int
    largest_variance: np.float32
    tolerance: np.float32


class SortBuffers(NamedTuple):
    """Memory of the sort. What a frame has written per cell is cleared by the next one: cost follows the points."""

    count: np.ndarray  # (slices, cells) points of each slice in each cell, then where its next height goes
    touched: np.ndarray  # (slices, points) cells with points of each slice
    touched_count: np.ndarray  # (slices,)
    number: np.ndarray  # (cells,) of each cell with points among them; -1: empty
    variance: np.ndarray  # (cells,) m^2, of cells with enough points; -1: others
    occupied: np.ndarray  # (points,) the cells with points
    start: np.ndarray  # (points + 1,) where the heights of each of them begin
    z: np.ndarray  # (points,) heights by cell
    place: np.ndarray  # (points,) cell of each point, later its number; -1: none
    occupied_count: np.ndarray  # (1,)


@inner()
def _assign(points, rules, buffers, s, first, last):
    """Write the cell of each point of a slice; -1 outside the limits, for missing returns and for NaN."""
    limits, columns, per_metre = rules.limits, rules.columns, rules.cells_per_metre
    count, touched, place = buffers.count[s], buffers.touched[s], buffers.place
    found = np.int32(0)
    for i in range(first, last):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        inside = (
            x >= limits[0] and x < limits[1] and y >= limits[2] and y < limits[3] and abs(z) < model.FARTHEST_HEIGHT
        )
        if inside and (x != F(0) or y != F(0) or z != F(0)):
            # Products, because not all devices round a float32 quotient correctly.
            column, row = np.int32((x - limits[0]) * per_metre), np.int32((y - limits[2]) * per_metre)
            c = min(row, rules.rows - 1) * columns + min(column, columns - 1)
            place[i] = c
            if count[c] == 0:
                touched[found] = c
                found += 1
            count[c] += 1
        else:
            place[i] = -1
    buffers.touched_count[s] = found


@merged()
def _number(buffers):
    """Number the cells with points, and turn the counts of slices into where their heights go."""
    count, slices = buffers.count, buffers.count.shape[0]
    found, total = np.int32(0), np.int32(0)
    for s in range(slices):
        for k in range(buffers.touched_count[s]):
            c = buffers.touched[s, k]
            if buffers.number[c] < 0:
                buffers.number[c], buffers.occupied[found], buffers.start[found] = found, c, total
                found += 1
                for other in range(slices):
                    here = count[other, c]
                    if here > 0:  # a slice clears only the cells that it has touched
                        count[other, c] = total
                        total += here
    buffers.start[found], buffers.occupied_count[0] = total, found


@merged()
def _scatter(points, buffers, s, first, last):
    """Write the heights of a slice by cell, and the number of the cell of each point."""
    count, z, place, number = buffers.count[s], buffers.z, buffers.place, buffers.number
    for i in range(first, last):
        c = place[i]
        if c >= 0:
            z[count[c]] = points[i, 2]
            count[c] += 1
            place[i] = number[c]


@merged()
def _clear(buffers, s, slices):
    """Forget what the last frame wrote per cell."""
    for k in range(buffers.touched_count[s]):
        buffers.count[s, buffers.touched[s, k]] = 0
    occupied = buffers.occupied_count[0]
    for k in range(s * occupied // slices, (s + 1) * occupied // slices):
        buffers.number[buffers.occupied[k]] = -1
        buffers.variance[buffers.occupied[k]] = F(-1)


SORT_PHASES = 4


@njit(nogil=True, cache=True)
def sort_heights(tasks, points, rules, buffers):
    """Phase 1: heights sorted by cell; `buffers.count` has one row per slice of the points."""
    slices, n = buffers.count.shape[0], points.shape[0]
    for phase in range(SORT_PHASES):
        parts = 1 if phase == 2 else slices
        s = first_chunk(tasks, phase)
        while s < parts:
            first, last = s * n // slices, (s + 1) * n // slices
            if phase == 0:
                _clear(buffers, s, slices)
            elif phase == 1:
                _assign(points, rules, buffers, s, first, last)
            elif phase == 2:
                _number(buffers)
            else:
                _scatter(points, buffers, s, first, last)
            s = next_chunk(tasks, phase)
        barrier(tasks, phase, parts)


@inner()
def _shift_of(low, high, n):
    """By how many bits deviations are shortened so that n squares fit in 63 bits; 0 unless a cell is metres high."""
    shift, extent = 0, (high - low) * model.UNITS_PER_METRE
    while extent * extent * F(n) > model.MOST_SQUARES:
        extent *= F(0.5)
        shift += 1
    return shift


@inner()
def _describe(buffers, cells, fewest, first, last):
    """Phase 2 for a range of cells: mean, population variance (second pass), extremes.

    Sums are integers of 2^-24 m, so that every backend finds the same whatever the order of the points.
    """
    start, z = buffers.start, buffers.z
    for c in range(first, last):
        n = start[c + 1] - start[c]
        low = high = z[start[c]]
        total = squares = np.int64(0)
        for k in range(start[c], start[c + 1]):
            total += np.int64(z[k] * model.UNITS_PER_METRE)
            low = min(low, z[k])
            high = max(high, z[k])
        middle, shift = total // n, _shift_of(low, high, n)
        for k in range(start[c], start[c + 1]):
            off = (np.int64(z[k] * model.UNITS_PER_METRE) - middle) >> shift
            squares += off * off
        unit = F(1 << shift) * model.METRES_PER_UNIT
        cells.mean[c], cells.variance[c] = F(middle) * model.METRES_PER_UNIT, F(squares) / F(n) * (unit * unit)
        cells.points[c], cells.lowest[c], cells.highest[c] = n, low, high
        if n >= fewest:
            buffers.variance[cells.cell[c]] = cells.variance[c]


@inner()
def _is_ground(variance, c, rules):
    """Phase 3: a cell is ground by its variance; one with too few points by the mean of its 3 x 3 patch."""
    if variance[c] >= F(0):
        return variance[c] < rules.largest_variance
    row = c // rules.columns
    column, total, n = c - row * rules.columns, F(0), 0
    for y in range(max(row - 1, 0), min(row + 2, rules.rows)):
        for other in range(y * rules.columns + max(column - 1, 0), y * rules.columns + min(column + 2, rules.columns)):
            if variance[other] >= F(0):
                total += variance[other]
                n += 1
    return n > 0 and total < rules.largest_variance * F(n)


@merged()
def _label(points, place, rules, cells, out, first, last):
    """Phase 4: label a range of points."""
    (label, probability, height), mean = out, cells.mean
    for j in range(first, last):
        c = place[j]
        label[j], probability[j], height[j] = model.UNKNOWN, F(0), F(np.nan)
        if c >= 0:
            label[j] = model.OBSTACLE
            if cells.ground[c]:
                height[j] = points[j, 2] - mean[c]
                if abs(height[j]) < rules.tolerance:
                    label[j], probability[j] = model.GROUND, F(1)


DESCRIBE, CLASSIFY, LABEL, PHASES = range(4)
_PARTS = 64


@njit(nogil=True, cache=True)
def classify(tasks, begin, end, points, buffers, rules, cells, out):
    """Phases `begin` to `end` of DESCRIBE, CLASSIFY, LABEL: statistics of the cells with points (`OccupiedCells`),
    which are ground, labels. `out`: label, probability and height per point.
    """
    size, n = cells.cell.shape[0], points.shape[0]
    for phase in range(begin, end):
        i = first_chunk(tasks, phase)
        while i < _PARTS:
            first, last = i * size // _PARTS, (i + 1) * size // _PARTS
            if phase == DESCRIBE:
                _describe(buffers, cells, rules.fewest, first, last)
            elif phase == CLASSIFY:
                for c in range(first, last):
                    cells.ground[c] = _is_ground(buffers.variance, cells.cell[c], rules)
            else:
                _label(points, buffers.place, rules, cells, out, i * n // _PARTS, (i + 1) * n // _PARTS)
            i = next_chunk(tasks, phase)
        barrier(tasks, phase, _PARTS)
