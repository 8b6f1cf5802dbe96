# SPDX-License-Identifier: Apache-2.0
"""The first surface of a cloud without a sensor: low percentiles of coarse cells, connected by slopes, not by steps.

The filter then sees heights over this surface, so that its level start lies near the ground everywhere.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from roadbed.core.geometry import Float64

_CELL = 2.0  # m, smallest cell
_POINTS_PER_CELL = 16  # mean number in cells of a sparse cloud
_MOST_CELLS = 4_000_000
_PERCENTILE = 0.05  # of the heights in a cell
_OBJECT_RADIUS = 64.0  # m, half the width of the widest building that is looked under
_SEED_HEIGHT = 0.5  # m over the lowest surroundings at which a cell is ground for sure
_PIT = 1.0  # m below all cells around: a stray return
_STEEPEST = 0.7  # slope between cells: the angle of repose of soil
_SLOPE_OF_WIDE_CELLS, _STEP = 0.3, 2.0  # and m; between distant cells a rise is a wall from the larger of both on
_REFINEMENTS = 2  # corrections by the low percentile of heights over the surface, which a slope does not bias
_GAP = 2  # empty cells that are bridged
_PLATEAU = 1000.0  # m^2 from which an area behind steps may be ground
_OBJECT = 2.0  # m over the low percentile of a cell
_OBJECT_SHARE = 0.2  # of the points of a cell so high: an object stands there
_OBJECT_CELLS = 0.05  # of the cells of such an area: trees and cars stand on ground, hardly anything on roofs
_SIDES = ((0, 1), (1, 0), (1, 1), (1, -1))
Neighbours = tuple[NDArray[np.intp], NDArray[np.intp], Float64]
Slices = tuple[slice, slice]
Passes = list[tuple[Slices, Slices, NDArray[np.bool_]]]  # cells, their neighbours, and where no wall is between them


@dataclass(frozen=True, eq=False)
class StartSurface:
    """Heights at the middles of square cells, bilinear between them and constant beyond."""

    x0: float  # m, middle of cell [0][0]
    y0: float
    cell: float  # m
    height: Float64  # (rows, columns) m
    roof: float = 0.0  # m^2, largest area behind steps that is not ground

    def at(self, x: Float64, y: Float64) -> Float64:
        """m, height at each position."""
        (south, north, up), (west, east, right) = self._between(x, y)
        low = self.height[south, west] * (1 - right) + self.height[south, east] * right
        high = self.height[north, west] * (1 - right) + self.height[north, east] * right
        return low * (1 - up) + high * up

    def slope_at(self, x: Float64, y: Float64) -> tuple[Float64, Float64]:
        """dz/dx and dz/dy at each position."""
        (south, north, up), (west, east, right) = self._between(x, y)
        h, inverse = self.height, 1 / self.cell
        slope_x = (h[south, east] - h[south, west]) * (1 - up) + (h[north, east] - h[north, west]) * up
        slope_y = (h[north, west] - h[south, west]) * (1 - right) + (h[north, east] - h[south, east]) * right
        return slope_x * inverse, slope_y * inverse

    def _between(self, x: Float64, y: Float64) -> tuple[Neighbours, Neighbours]:
        rows, columns = self.height.shape
        return _neighbours((y - self.y0) / self.cell, rows), _neighbours((x - self.x0) / self.cell, columns)


def _neighbours(position: Float64, count: int) -> Neighbours:
    """Indices before and after each position, and the share of the way between them."""
    position = np.clip(position, 0, count - 1)
    before = np.minimum(position.astype(np.intp), max(count - 2, 0))
    return before, np.minimum(before + 1, count - 1), position - before


def start_surface(points: Float64) -> StartSurface:
    """The first surface under finite points (N, 3), N > 0, z up, m."""
    x, y, z = points.T
    west, south = x.min(), y.min()
    size = _cell_size(x - west, y - south)
    columns, rows = int((x.max() - west) / size) + 1, int((y.max() - south) / size) + 1
    index = ((y - south) / size).astype(np.int64) * columns + ((x - west) / size).astype(np.int64)
    shape = rows, columns
    low = _low_percentiles(index, z, shape)
    low[low < _lowest_around(low) - _PIT] = np.nan
    passes = _passes(low, size)
    ground = _connected(_seeds(low, size), passes)
    high = np.bincount(index[z > low.ravel()[index] + _OBJECT], minlength=low.size)
    objects = (high > _OBJECT_SHARE * np.bincount(index, minlength=low.size)).reshape(shape)
    roof = _add_plateaus(ground, np.isnan(low), objects, passes, size)
    height = _filled(np.where(ground, low, np.nan))
    for _ in range(_REFINEMENTS):
        surface = StartSurface(west + size / 2, south + size / 2, size, height)
        over = _low_percentiles(index, z - surface.at(x, y), shape)
        over[~ground | (np.abs(over) > _STEEPEST * size + _SEED_HEIGHT)] = np.nan
        height = height + _filled(over)
    return StartSurface(west + size / 2, south + size / 2, size, height, roof)


def _cell_size(x: Float64, y: Float64) -> float:
    """m: at least `_CELL`, wider where points are sparse or the cloud is vast."""
    size = max(_CELL, math.sqrt((x.max() + _CELL) * (y.max() + _CELL) / _MOST_CELLS))
    while True:
        columns = int(x.max() / size) + 1
        occupied = len(np.unique((y / size).astype(np.int64) * columns + (x / size).astype(np.int64)))
        if len(x) >= _POINTS_PER_CELL * occupied or occupied == 1:
            return size
        size *= max(1.1, min(2.0, math.sqrt(_POINTS_PER_CELL * occupied / len(x))))


def _low_percentiles(index: NDArray[np.int64], z: Float64, shape: tuple[int, int]) -> Float64:
    """(rows, columns) low percentile of the heights in each cell, NaN where it has no points."""
    order = np.lexsort((z, index))
    count = np.bincount(index, minlength=shape[0] * shape[1])
    first = np.cumsum(count) - count
    low = np.full(len(count), np.nan)
    filled = count > 0
    low[filled] = z[order[(first + (_PERCENTILE * count).astype(np.int64))[filled]]]
    return low.reshape(shape)


def _seeds(low: Float64, size: float) -> NDArray[np.bool_]:
    """Cells hardly higher than the opening of the heights: in any window as wide as a building some are ground."""
    radius = max(1, round(_OBJECT_RADIUS / size))
    eroded = _slide(np.where(np.isnan(low), np.inf, low), radius, np.minimum, np.inf)
    opened = _slide(np.where(np.isinf(eroded), -np.inf, eroded), radius, np.maximum, -np.inf)
    with np.errstate(invalid="ignore"):
        return low - opened <= _SEED_HEIGHT


def _slide(values: Float64, radius: int, pick: np.ufunc, empty: float) -> Float64:
    """Minimum or maximum in a square window around each cell; `empty` beyond the border."""
    values = np.pad(values, radius, constant_values=empty)
    for axis in (0, 1):
        values = pick.reduce(sliding_window_view(values, 2 * radius + 1, axis), axis=-1)
    return values


def _passes(low: Float64, size: float) -> Passes:
    """Neighbouring cells, also over small gaps, and where no step as high as a wall is between them."""
    passes, empty = [], np.isnan(low)
    for (dy, dx), steps in product(_SIDES, range(1, _GAP + 2)):
        if steps * abs(dy) >= low.shape[0] or steps * abs(dx) >= low.shape[1]:
            continue
        distance = size * steps
        limit = min(_STEEPEST * distance, max(_STEP, _SLOPE_OF_WIDE_CELLS * distance))
        here, there = _pair(steps * dy, steps * dx)
        with np.errstate(invalid="ignore"):
            passable = np.abs(low[here] - low[there]) <= limit
        for between in range(1, steps):
            passable &= empty[_between(low.shape, (dy, dx), between, steps)]
        passes.append((here, there, passable))
    return passes


def _connected(ground: NDArray[np.bool_], passes: Passes) -> NDArray[np.bool_]:
    """Ground cells, and all that are reached from them."""
    count = -1
    while count != (count := int(np.count_nonzero(ground))):
        for here, there, passable in passes:
            ground[there] |= ground[here] & passable
            ground[here] |= ground[there] & passable
    return ground


def _add_plateaus(
    ground: NDArray[np.bool_], empty: NDArray[np.bool_], objects: NDArray[np.bool_], passes: Passes, size: float
) -> float:
    """Add large areas behind steps on which objects stand to the ground; m^2 of the largest other one, a roof."""
    apart, enough = ~ground & ~empty, _PLATEAU / size**2
    if np.count_nonzero(apart) < enough:
        return 0.0
    number = np.where(apart, np.arange(1, ground.size + 1).reshape(ground.shape), 0)
    before = np.zeros_like(number)
    while not np.array_equal(number, before):  # each area takes the highest number of its cells
        before = number.copy()
        for here, there, passable in passes:
            joined = passable & apart[here] & apart[there]
            highest = np.where(joined, np.maximum(number[here], number[there]), 0)
            number[here] = np.maximum(number[here], highest)
            number[there] = np.maximum(number[there], highest)
    inside = ~_slide(np.where(apart, 0.0, 1.0), 1, np.maximum, 1.0).astype(np.bool_)  # not at its border: a wall there
    cells = np.bincount(number.ravel())
    with_objects = np.bincount(number[objects & inside], minlength=len(cells))
    cells[0] = 0
    large = cells >= enough
    plateaus = large & (with_objects > _OBJECT_CELLS * cells)
    ground |= plateaus[number]
    return float(cells[large & ~plateaus].max(initial=0)) * size**2


def _pair(dy: int, dx: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Slices of cells and of their neighbours at (dy, dx), dy >= 0."""
    rows = slice(0, -dy or None), slice(dy, None)
    columns = (slice(0, -dx or None), slice(dx, None)) if dx >= 0 else (slice(-dx, None), slice(0, dx))
    return (rows[0], columns[0]), (rows[1], columns[1])


def _between(shape: tuple[int, int], side: tuple[int, int], step: int, steps: int) -> tuple[slice, slice]:
    """Slices of the cells `step` sides after those of `_pair`, which are `steps` sides apart."""
    (dy, dx), (rows, columns) = side, shape
    first_column = step * dx if dx >= 0 else (step - steps) * dx
    width, height = columns - steps * abs(dx), rows - steps * dy
    return slice(step * dy, step * dy + height), slice(first_column, first_column + width)


def _lowest_around(values: Float64) -> Float64:
    """The lowest of the eight cells around each; -inf where there is none."""
    padded = np.pad(np.where(np.isnan(values), np.inf, values), 1, constant_values=np.inf)
    rows, columns = values.shape
    lowest = np.full(values.shape, np.inf)
    for dy in range(3):
        for dx in range(3):
            if (dy, dx) != (1, 1):
                lowest = np.minimum(lowest, padded[dy : dy + rows, dx : dx + columns])
    return np.where(np.isinf(lowest), -np.inf, lowest)


def _filled(values: Float64) -> Float64:
    """Unknown cells from known ones around: means of ever wider cells, blended level by level; 0 if none is known."""
    known = ~np.isnan(values)
    if known.all():
        return values
    if not known.any():
        return np.zeros(values.shape)
    rows, columns = values.shape
    padded = np.pad(values, ((0, rows % 2), (0, columns % 2)), constant_values=np.nan)
    four = np.stack([padded[a::2, b::2] for a in (0, 1) for b in (0, 1)])
    count = np.count_nonzero(~np.isnan(four), axis=0)
    wide = np.where(count > 0, np.nansum(four, axis=0) / np.maximum(count, 1), np.nan)
    coarse = StartSurface(0.5, 0.5, 2.0, _filled(wide))
    y, x = np.nonzero(~known)
    filled = values.copy()
    filled[y, x] = coarse.at(x.astype(np.float64), y.astype(np.float64))
    return filled
