# SPDX-License-Identifier: Apache-2.0
"""Numba kernel that lays a rectangle around what is seen of an object: mostly two of its sides, an L."""

from __future__ import annotations

import math

import numpy as np

from roadbed.compute.kernels import njit
from roadbed.occupancy.model import SIDE_FLOOR


@njit(cache=True)
def best_heading(points, headings):
    """Which of the headings (K,) lets points (N, 2) lie nearest to the sides of the rectangle around them.

    Closeness after Zhang et al. 2017 (Efficient L-shape fitting for vehicle detection): the sum of inverse distances to
    the nearer of the two sides that a point could lie on.
    """
    best, found = -1.0, 0
    for k in range(headings.shape[0]):
        cosine, sine = math.cos(headings[k]), math.sin(headings[k])
        low_u = low_v = np.inf
        high_u = high_v = -np.inf
        for i in range(points.shape[0]):
            u = cosine * points[i, 0] + sine * points[i, 1]
            v = cosine * points[i, 1] - sine * points[i, 0]
            low_u, high_u = min(low_u, u), max(high_u, u)
            low_v, high_v = min(low_v, v), max(high_v, v)
        closeness = 0.0
        for i in range(points.shape[0]):
            u = cosine * points[i, 0] + sine * points[i, 1]
            v = cosine * points[i, 1] - sine * points[i, 0]
            side = min(min(u - low_u, high_u - u), min(v - low_v, high_v - v))
            closeness += 1 / max(side, SIDE_FLOOR)
        if closeness > best:
            best, found = closeness, k
    return found
