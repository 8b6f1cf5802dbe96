# SPDX-License-Identifier: Apache-2.0
"""Intersection of a ray with the ground: bounds per square metre skip most of the ray, then the surface is searched."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.kernels.jit import inner, njit
from roadbed.kernels.numeric import NO, YES, max, min
from roadbed.kernels.parallel import parallel_for
from roadbed.simulate.heightfield import KERB, Field, beyond_kerb, height, road_frame, smooth_step

_MISS = math.inf
_SMALLEST_STEP, _SMALLEST_STEP_AT_KERB = 0.05, 0.008  # m; less than the features they must not jump over
_PRECISION = 1e-5  # m
_FLAT = 0.02  # change of the gradient within a square that still counts as a plane


class Bounds(NamedTuple):
    """Conservative bounds of the height in squares of 1 m."""

    column_0: int  # x of the first square's edge, whole metres
    row_0: int
    low: NDArray[np.float64]  # (rows, columns) m
    high: NDArray[np.float64]
    steepest: NDArray[np.float64]  # upper bound of the gradient's length
    flat: NDArray[np.bool_]  # nearly a plane


@inner()
def _steps_within(field, x, y, radius):
    """Lowest and highest rise of the kerbs within `radius`, and their steepest slope there."""
    d, d_x, d_y, _, _ = road_frame(field.bends, x, y)
    reach = radius * max(1.0, math.hypot(d_x, d_y)) * 1.1
    layers = field.layers
    low = high = steepest = 0.0
    for index in range(layers.shape[0]):
        if int(layers[index, 0]) != KERB:
            continue
        rise, face = layers[index, 2], layers[index, 3]
        behind = beyond_kerb(layers, index, x, d)[0]
        near, _ = smooth_step((behind - reach) / face)
        far, _ = smooth_step((behind + reach) / face)
        low += min(rise * near, rise * far)
        high += max(rise * near, rise * far)
        if near < 1.0 and far > 0.0:
            steepest += 1.5 * abs(rise) / face * max(1.0, math.hypot(d_x, d_y)) * 1.1
    return low, high, steepest


def bound_squares(field: Field, column_0: int, row_0: int, columns: int, rows: int) -> Bounds:
    """Of `rows` x `columns` squares, the first of which begins at (column_0, row_0)."""
    low, high, steepest = (np.empty((rows, columns)) for _ in range(3))
    bounds = Bounds(column_0, row_0, low, high, steepest, np.empty((rows, columns), np.bool_))
    parallel_for(_bound_rows, rows, field, bounds)
    return bounds


@njit(cache=True, nogil=True)
def _bound_rows(first, last, field, bounds):
    column_0, row_0, low, high, steepest, flat = bounds
    for row in range(first, last):
        for column in range(low.shape[1]):
            x, y = column_0 + column + 0.5, row_0 + row + 0.5
            centre, centre_x, centre_y = height(field, x, y, YES, NO)
            gradient, bending = 0.0, 0.0
            for sample in range(8):
                angle = sample * math.pi / 4
                reach = 0.5 if sample % 2 == 0 else 0.7071
                _, h_x, h_y = height(field, x + reach * math.cos(angle), y + reach * math.sin(angle), YES, NO)
                gradient = max(gradient, math.hypot(h_x, h_y))
                bending = max(bending, math.hypot(h_x - centre_x, h_y - centre_y))
            # Between the nine samples the gradient varies by less than from the centre to the samples.
            smooth = max(gradient, math.hypot(centre_x, centre_y)) + bending + 1e-4
            step_low, step_high, step_slope = _steps_within(field, x, y, 0.7072)
            low[row, column] = centre - 0.7072 * smooth + step_low
            high[row, column] = centre + 0.7072 * smooth + step_high
            steepest[row, column] = smooth + step_slope
            flat[row, column] = bending < _FLAT and step_slope == 0.0


@inner()
def _march(field, origin, ray, begin, end, closing, smallest_step):
    """First meeting of ray and ground in [begin, end], where the gap shrinks by at most `closing` per metre."""
    t = begin
    above = t
    gap = origin[2] + ray[2] * t - height(field, origin[0] + ray[0] * t, origin[1] + ray[1] * t, NO, YES)[0]
    gap_above = gap
    while True:
        if gap < _PRECISION:
            return t
        if t >= end:
            return _MISS
        above, gap_above = t, gap
        t = min(t + max(gap / closing, smallest_step), end)
        gap = origin[2] + ray[2] * t - height(field, origin[0] + ray[0] * t, origin[1] + ray[1] * t, NO, YES)[0]
        if gap <= 0.0:
            break
    # Regula falsi (Illinois) between the last point above the ground and the first below it.
    below, gap_below = t, gap
    for _ in range(40):
        if below - above < _PRECISION:
            break
        t = (above * gap_below - below * gap_above) / (gap_below - gap_above)
        gap = origin[2] + ray[2] * t - height(field, origin[0] + ray[0] * t, origin[1] + ray[1] * t, NO, YES)[0]
        if abs(gap) < _PRECISION:
            return t
        if gap > 0.0:
            above, gap_above = t, gap
            gap_below *= 0.5
        else:
            below, gap_below = t, gap
            gap_above *= 0.5
    return 0.5 * (above + below)


@inner()
def _meet_plane(field, origin, ray, begin, end):
    """As `_march` where the ground is nearly a plane: Newton's method. Negative if it does not converge."""
    t = begin
    for _ in range(6):
        h, h_x, h_y = height(field, origin[0] + ray[0] * t, origin[1] + ray[1] * t, YES, YES)
        gap = origin[2] + ray[2] * t - h
        if abs(gap) < _PRECISION:
            return t if t <= end else _MISS
        if gap < 0.0 and t <= begin:
            return begin
        closing = h_x * ray[0] + h_y * ray[1] - ray[2]
        if closing <= 0.0:
            return -1.0
        t = max(begin, t + gap / closing)
        if t > end + 1.0:
            return _MISS
    return -1.0


@inner()
def meet_ground(field, bounds, origin, ray, limit):
    """Distance along the ray to the ground, infinity when it leaves the bounded area or exceeds `limit`."""
    rows, columns = bounds.high.shape
    x, y = origin[0] - bounds.column_0, origin[1] - bounds.row_0
    column, row = math.floor(x), math.floor(y)
    level = math.hypot(ray[0], ray[1])
    step_x = 1 if ray[0] > 0 else -1
    step_y = 1 if ray[1] > 0 else -1
    stride_x = 1.0 / abs(ray[0]) if ray[0] != 0.0 else _MISS
    stride_y = 1.0 / abs(ray[1]) if ray[1] != 0.0 else _MISS
    next_x = ((column + (1 if step_x > 0 else 0)) - x) / ray[0] if ray[0] != 0.0 else _MISS
    next_y = ((row + (1 if step_y > 0 else 0)) - y) / ray[1] if ray[1] != 0.0 else _MISS
    t = 0.0
    while 0 <= column < columns and 0 <= row < rows and t < limit:
        leave = min(min(next_x, next_y), limit)
        lowest = origin[2] + (ray[2] * leave if ray[2] < 0.0 else ray[2] * t)
        if lowest <= bounds.high[row, column]:
            begin = t
            if ray[2] < 0.0:  # skip the part of the square that passes above its highest ground
                begin = max(t, (bounds.high[row, column] - origin[2]) / ray[2])
            hit = _meet_plane(field, origin, ray, begin, leave) if bounds.flat[row, column] else -1.0
            if hit < 0.0:
                closing = max(bounds.steepest[row, column] * level - ray[2], 1e-6)
                smallest_step = _SMALLEST_STEP if bounds.steepest[row, column] < 2.0 else _SMALLEST_STEP_AT_KERB
                hit = _march(field, origin, ray, begin, leave, closing, smallest_step)
            if hit < limit:
                return hit
        t = leave
        if next_x < next_y:
            column += step_x
            next_x += stride_x
        else:
            row += step_y
            next_y += stride_y
    return _MISS
