# SPDX-License-Identifier: Apache-2.0
"""The terrain's layers, evaluated by compiled code: height and gradient."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.kernels.jit import inlined, inner, njit
from roadbed.kernels.numeric import YES, min

PLANE, WAVE, RAMP, CROWN, BANKING, SHOULDER, DITCH, KERB, BUMP = range(9)
ROW = 8  # numbers per layer: its kind, then its parameters


class Field(NamedTuple):
    layers: NDArray[np.float64]  # (L, ROW)
    bends: NDArray[np.float64]  # (B, 3) amplitude, wave number, phase of the centreline


@inlined()
def smooth_step(u):
    """0 below 0, 1 above 1, a cubic between; with its derivative."""
    if u <= 0.0:
        return 0.0, 0.0
    if u >= 1.0:
        return 1.0, 0.0
    return u * u * (3.0 - 2.0 * u), 6.0 * u * (1.0 - u)


@inlined()
def _hump(u):
    """1 at 0, falling smoothly to 0 at -1 and 1; with its derivative."""
    if u <= -1.0 or u >= 1.0:
        return 0.0, 0.0
    rest = 1.0 - u * u
    return rest * rest, -4.0 * u * rest


@inner()
def road_frame(bends, x, y):
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


@inlined()
def _beside(side, d):
    """Distance from the centreline on the given side (0: both), and the sign of its derivative by d."""
    if side > 0.0 or (side == 0.0 and d >= 0.0):
        return d, 1.0
    return -d, -1.0


@inner()
def beyond_kerb(layers, index, x, d):
    """Distance behind the kerb (negative on the street), whether a side street is nearer, and x relative to it."""
    side = layers[index, 7]
    behind = (abs(d) if side == 0.0 else side * d) - layers[index, 1]
    period, half_side_street = layers[index, 4], layers[index, 5]
    if period > 0.0:
        along = x - layers[index, 6]
        along -= period * math.floor(along / period + 0.5)
        if abs(along) - half_side_street < behind:
            return abs(along) - half_side_street, True, along
    return behind, False, 0.0


@inner()
def height(field, x, y, with_slope, with_steps):
    """Height, dz/dx and dz/dy. Without steps, the kerbs (whose slope is local and large) are left out.

    Without slope, only the height is valid: saves the cosines.
    """
    d, d_x, d_y, second, third = road_frame(field.bends, x, y)
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
                mask, mask_slope = smooth_step((abs(d) - start) / (end - start))
                mask_slope *= (1.0 if d >= 0 else -1.0) / (end - start)
            if mask > 0.0:
                angle = b * x + c * y + e
                value, slope = a * math.sin(angle), a * math.cos(angle) if with_slope else 0.0
                h += mask * value
                h_x += mask * slope * b + mask_slope * d_x * value
                h_y += mask * slope * c + mask_slope * d_y * value
        elif kind == RAMP:
            share, slope = smooth_step((x - a) / (b - a))
            h += c * share
            h_x += c * slope / (b - a)
        elif kind == CROWN:
            u = d / b
            h -= a * min(u * u, 1.0)
            if abs(u) < 1.0:
                h_x -= a * 2.0 * u / b * d_x
                h_y -= a * 2.0 * u / b * d_y
        elif kind == BANKING:
            # The lever grows with d over the road and levels off outside it.
            lever = math.tanh(d / (2.0 * b)) * 2.0 * b
            lever_slope = 1.0 - (lever / (2.0 * b)) ** 2
            h -= a * second * lever
            h_x -= a * (third * lever + second * lever_slope * d_x)
            h_y -= a * second * lever_slope * d_y
        elif kind == SHOULDER:
            distance, sign = _beside(a, d)
            share, slope = smooth_step((distance - b) / (c - b))
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
                behind, side_street, along = beyond_kerb(layers, index, x, d)
                share, slope = smooth_step(behind / c)
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


@njit(cache=True, nogil=True)
def evaluate(first, last, field, x, y, out):
    """(N, 3): height, dz/dx, dz/dy."""
    for index in range(first, last):
        out[index, 0], out[index, 1], out[index, 2] = height(field, x[index], y[index], YES, YES)


@njit(cache=True)
def road_coordinate(field, x, y):
    """(N,) lateral distance from the centreline."""
    result = np.empty(x.size)
    for index in range(x.size):
        result[index] = road_frame(field.bends, x[index], y[index])[0]
    return result
