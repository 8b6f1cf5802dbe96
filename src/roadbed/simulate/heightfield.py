# SPDX-License-Identifier: Apache-2.0
"""The terrain's layers, evaluated by compiled code: height, gradient, bounds, and where a ray meets the ground."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

PLANE, WAVE, RAMP, CROWN, BANKING, SHOULDER, DITCH, KERB, BUMP = range(9)
ROW = 8  # numbers per layer: its kind, then its parameters
_MISS = math.inf
_SMALLEST_STEP, _SMALLEST_STEP_AT_KERB = 0.05, 0.008  # m; less than the features they must not jump over
_PRECISION = 1e-5  # m


class Field(NamedTuple):
    layers: NDArray[np.float64]  # (L, ROW)
    bends: NDArray[np.float64]  # (B, 3) amplitude, wave number, phase of the centreline


@njit
def _smooth_step(u):
    """0 below 0, 1 above 1, a cubic between; with its derivative."""
    if u <= 0.0:
        return 0.0, 0.0
    if u >= 1.0:
        return 1.0, 0.0
    return u * u * (3.0 - 2.0 * u), 6.0 * u * (1.0 - u)


@njit
def _hump(u):
    """1 at 0, falling smoothly to 0 at -1 and 1; with its derivative."""
    if u <= -1.0 or u >= 1.0:
        return 0.0, 0.0
    rest = 1.0 - u * u
    return rest * rest, -4.0 * u * rest


@njit(cache=True)
def _road(bends, x, y):
    """Lateral distance d from the centreline, its gradient, and second and third derivative of the centreline."""
    centre = first = second = third = 0.0
    for index in range(bends.shape[0]):
        amplitude, k = bends[index, 0], bends[index, 1]
        sine, cosine = math.sin(k * x + bends[index, 2]), math.cos(k * x + bends[index, 2])
        centre += amplitude * sine
        first += amplitude * k * cosine
        second -= amplitude * k * k * sine
        third -= amplitude * k * k * k * cosine
    stretch = math.sqrt(1.0 + first * first)
    distance = (y - centre) / stretch
    d_x = -first / stretch - distance * first * second / (stretch * stretch)
    return distance, d_x, 1.0 / stretch, second, third


@njit
def _beside(side, d):
    """Distance from the centreline on the wanted side, and the sign of its derivative by d."""
    if side > 0.0 or (side == 0.0 and d >= 0.0):
        return d, 1.0
    return -d, -1.0


@njit
def _beyond_kerb(layers, index, x, d):
    """Distance behind the kerb (negative on the street); and where along x from the side street, if that is nearer."""
    side = layers[index, 7]
    behind = (abs(d) if side == 0.0 else side * d) - layers[index, 1]
    period, half_side_street = layers[index, 4], layers[index, 5]
    if period > 0.0:
        along = x - layers[index, 6]
        along -= period * math.floor(along / period + 0.5)
        if abs(along) - half_side_street < behind:
            return abs(along) - half_side_street, True, along
    return behind, False, 0.0


@njit(cache=True)
def height(field, x, y, with_slope=True, with_steps=True):
    """Height, dz/dx and dz/dy. Without steps, the kerbs (whose slope is local and large) are left out.

    Without slope, only the height is valid: saves the cosines.
    """
    d, d_x, d_y, second, third = _road(field.bends, x, y)
    layers = field.layers
    h = h_x = h_y = 0.0
    for index in range(layers.shape[0]):
        kind = int(layers[index, 0])
        # Single numbers instead of a view of the row, which would cost more than the layer itself.
        a, b, c, e = layers[index, 1], layers[index, 2], layers[index, 3], layers[index, 4]
        if kind == PLANE:
            h += a + b * x + c * y
            h_x += b
            h_y += c
        elif kind == WAVE:
            mask, mask_slope = 1.0, 0.0
            start, end = layers[index, 5], layers[index, 6]
            if end > start:
                mask, mask_slope = _smooth_step((abs(d) - start) / (end - start))
                mask_slope *= (1.0 if d >= 0 else -1.0) / (end - start)
            if mask > 0.0:
                angle = b * x + c * y + e
                value, slope = a * math.sin(angle), a * math.cos(angle) if with_slope else 0.0
                h += mask * value
                h_x += mask * slope * b + mask_slope * d_x * value
                h_y += mask * slope * c + mask_slope * d_y * value
        elif kind == RAMP:
            share, slope = _smooth_step((x - a) / (b - a))
            h += c * share
            h_x += c * slope / (b - a)
        elif kind == CROWN:
            u = d / b
            h -= a * min(u * u, 1.0)
            if abs(u) < 1.0:
                h_x -= a * 2.0 * u / b * d_x
                h_y -= a * 2.0 * u / b * d_y
        elif kind == BANKING:
            # The lever grows with d over the road and levels off beside it.
            lever = math.tanh(d / (2.0 * b)) * 2.0 * b
            lever_slope = 1.0 - (lever / (2.0 * b)) ** 2
            h -= a * second * lever
            h_x -= a * (third * lever + second * lever_slope * d_x)
            h_y -= a * second * lever_slope * d_y
        elif kind == SHOULDER:
            distance, sign = _beside(a, d)
            share, slope = _smooth_step((distance - b) / (c - b))
            h += e * share
            h_x += e * slope * sign * d_x / (c - b)
            h_y += e * slope * sign * d_y / (c - b)
        elif kind == DITCH:
            distance, sign = _beside(a, d)
            share, slope = _hump((distance - b) / c)
            h -= e * share
            h_x -= e * slope * sign * d_x / c
            h_y -= e * slope * sign * d_y / c
        elif kind == KERB:
            if with_steps:
                behind, side_street, along = _beyond_kerb(layers, index, x, d)
                share, slope = _smooth_step(behind / c)
                h += b * share
                slope *= b / c
                if side_street:
                    h_x += slope * (1.0 if along >= 0 else -1.0)
                else:
                    sign = 1.0 if d >= 0 else -1.0
                    h_x += slope * sign * d_x
                    h_y += slope * sign * d_y
        elif kind == BUMP:
            share, slope = _hump((x - a) / b)
            h += c * share
            h_x += c * slope / b
    return h, h_x, h_y


@njit(cache=True, parallel=True)
def evaluate(field, x, y):
    """(N, 3): height, dz/dx, dz/dy."""
    result = np.empty((x.size, 3))
    for index in prange(x.size):
        h, h_x, h_y = height(field, x[index], y[index])
        result[index, 0], result[index, 1], result[index, 2] = h, h_x, h_y
    return result


@njit(cache=True)
def evaluate_few(field, x, y):
    """As `evaluate`, without the cost of starting threads."""
    result = np.empty((x.size, 3))
    for index in range(x.size):
        h, h_x, h_y = height(field, x[index], y[index])
        result[index, 0], result[index, 1], result[index, 2] = h, h_x, h_y
    return result


@njit(cache=True)
def road_coordinate(field, x, y):
    """(N,) lateral distance from the centreline."""
    result = np.empty(x.size)
    for index in range(x.size):
        result[index] = _road(field.bends, x[index], y[index])[0]
    return result


@njit(cache=True)
def _steps_within(field, x, y, radius):
    """Lowest and highest rise of the kerbs within `radius`, and their steepest slope there."""
    d, d_x, d_y, _, _ = _road(field.bends, x, y)
    reach = radius * max(1.0, math.hypot(d_x, d_y)) * 1.1
    layers = field.layers
    low = high = steepest = 0.0
    for index in range(layers.shape[0]):
        if int(layers[index, 0]) != KERB:
            continue
        rise, face = layers[index, 2], layers[index, 3]
        behind = _beyond_kerb(layers, index, x, d)[0]
        near, _ = _smooth_step((behind - reach) / face)
        far, _ = _smooth_step((behind + reach) / face)
        low += min(rise * near, rise * far)
        high += max(rise * near, rise * far)
        if near < 1.0 and far > 0.0:
            steepest += 1.5 * abs(rise) / face * max(1.0, math.hypot(d_x, d_y)) * 1.1
    return low, high, steepest


@njit(cache=True, parallel=True)
def bound_squares(field, column_0, row_0, columns, rows):
    """Lowest and highest height and steepest slope in squares of 1 m."""
    low, high, steepest = np.empty((rows, columns)), np.empty((rows, columns)), np.empty((rows, columns))
    for row in prange(rows):
        for column in range(columns):
            x, y = column_0 + column + 0.5, row_0 + row + 0.5
            centre, centre_x, centre_y = height(field, x, y, True, False)
            gradient, bending = 0.0, 0.0
            for sample in range(8):
                angle = sample * math.pi / 4
                reach = 0.5 if sample % 2 == 0 else 0.7071
                _, h_x, h_y = height(field, x + reach * math.cos(angle), y + reach * math.sin(angle), True, False)
                gradient = max(gradient, math.hypot(h_x, h_y))
                bending = max(bending, math.hypot(h_x - centre_x, h_y - centre_y))
            # Between the nine samples the gradient strays by less than it does from the centre to them.
            smooth = max(gradient, math.hypot(centre_x, centre_y)) + 0.5 * bending + 1e-4
            step_low, step_high, step_slope = _steps_within(field, x, y, 0.7072)
            low[row, column] = centre - 0.7072 * smooth + step_low
            high[row, column] = centre + 0.7072 * smooth + step_high
            steepest[row, column] = smooth + step_slope
    return low, high, steepest


@njit(cache=True)
def _march(field, origin, ray, begin, end, closing, smallest_step):
    """First meeting of ray and ground in [begin, end], where the gap shrinks by at most `closing` per metre."""
    t = begin
    above = t
    gap = origin[2] + ray[2] * t - height(field, origin[0] + ray[0] * t, origin[1] + ray[1] * t, False)[0]
    gap_above = gap
    while True:
        if gap < _PRECISION:
            return t
        if t >= end:
            return _MISS
        above, gap_above = t, gap
        t = min(t + max(gap / closing, smallest_step), end)
        gap = origin[2] + ray[2] * t - height(field, origin[0] + ray[0] * t, origin[1] + ray[1] * t, False)[0]
        if gap <= 0.0:
            break
    # Regula falsi (Illinois) between the last place above the ground and the first below it.
    below, gap_below = t, gap
    for _ in range(40):
        if below - above < _PRECISION:
            break
        t = (above * gap_below - below * gap_above) / (gap_below - gap_above)
        gap = origin[2] + ray[2] * t - height(field, origin[0] + ray[0] * t, origin[1] + ray[1] * t, False)[0]
        if abs(gap) < _PRECISION:
            return t
        if gap > 0.0:
            above, gap_above = t, gap
            gap_below *= 0.5
        else:
            below, gap_below = t, gap
            gap_above *= 0.5
    return 0.5 * (above + below)


@njit(cache=True)
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
