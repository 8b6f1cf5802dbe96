# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Numba kernels that fit a rectangle to the visible part of an object: mostly two of its sides, an L."""

import math

import numpy as np

from roadbed.kernels.jit import inner, njit
from roadbed.kernels.numeric import max, min
from roadbed.kernels.scratch import scratch

_SIDE_FLOOR = 0.05  # m; a point this near to a side of a box lies on it
HAS_SIDES = 1.2  # m; smaller objects show no sides to fit
_TURNS, _TURN = 21, math.radians(2.0)  # headings tried around the direction of motion


@njit(cache=True, error_model="numpy")
def fit_box(points, heading, width):
    """Centre (x, y), extent (along, across) and heading of the rectangle around points (N, 2) that represent squares of
    `width` metres; objects without sides get the given heading."""
    low_x, low_y, high_x, high_y = _bounds(points, 1.0, 0.0)
    if max(high_x - low_x, high_y - low_y) >= HAS_SIDES:
        heading = _best_heading(points, heading)
    cosine, sine = math.cos(heading), math.sin(heading)
    low_u, low_v, high_u, high_v = _bounds(points, cosine, sine)
    u, v = (low_u + high_u) / 2, (low_v + high_v) / 2
    return cosine * u - sine * v, sine * u + cosine * v, high_u - low_u + width, high_v - low_v + width, heading


@inner(error_model="numpy")
def _best_heading(points, around):
    """The heading near `around` for which points are nearest to the sides of their rectangle.

    Closeness after Zhang et al. 2017 (Efficient L-shape fitting for vehicle detection): the sum of inverse distances to
    the nearer of the two sides that a point could lie on. All headings are tried together, point by point.
    """
    cosine, sine, closeness = scratch(_TURNS, np.float64), scratch(_TURNS, np.float64), scratch(_TURNS, np.float64)
    low_u, high_u = scratch(_TURNS, np.float64), scratch(_TURNS, np.float64)
    low_v, high_v = scratch(_TURNS, np.float64), scratch(_TURNS, np.float64)
    for k in range(_TURNS):
        heading = around + (k - _TURNS // 2) * _TURN
        cosine[k], sine[k] = math.cos(heading), math.sin(heading)
        low_u[k], high_u[k], low_v[k], high_v[k] = np.inf, -np.inf, np.inf, -np.inf
    for i in range(points.shape[0]):
        x, y = points[i, 0], points[i, 1]
        for k in range(_TURNS):
            u, v = cosine[k] * x + sine[k] * y, cosine[k] * y - sine[k] * x
            low_u[k], high_u[k] = min(low_u[k], u), max(high_u[k], u)
            low_v[k], high_v[k] = min(low_v[k], v), max(high_v[k], v)
    for i in range(points.shape[0]):
        x, y = points[i, 0], points[i, 1]
        for k in range(_TURNS):
            u, v = cosine[k] * x + sine[k] * y, cosine[k] * y - sine[k] * x
            side = min(min(u - low_u[k], high_u[k] - u), min(v - low_v[k], high_v[k] - v))
            closeness[k] += 1 / max(side, _SIDE_FLOOR)
    found = 0
    for k in range(_TURNS):
        if closeness[k] > closeness[found]:
            found = k
    return around + (found - _TURNS // 2) * _TURN


@inner(error_model="numpy")
def _bounds(points, cosine, sine):
    """Least and greatest coordinates of points along and across an axis."""
    low_u = low_v = np.inf
    high_u = high_v = -np.inf
    for i in range(points.shape[0]):
        u = cosine * points[i, 0] + sine * points[i, 1]
        v = cosine * points[i, 1] - sine * points[i, 0]
        low_u, high_u = min(low_u, u), max(high_u, u)
        low_v, high_v = min(low_v, v), max(high_v, v)
    return low_u, low_v, high_u, high_v
