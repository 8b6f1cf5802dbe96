# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The plane of the nearest ground, by consensus of the lowest returns and reweighted least squares."""

from __future__ import annotations

import math

import numpy as np

from roadbed.compute.cpu import FAST, F, U, inner, njit, normal_equations, solve3

_OUTLIER_GAP = F(0.3)  # m: a return this far under the second lowest of its cell is noise
_NEAREST = F(1)  # m, closer returns are the vehicle's
_INLIER = 0.2  # m
_BELOW_PENALTY = 0.5  # ground below a plane speaks against it, things above do not


@njit(cache=True)
def lowest_returns(points, stride, cell, radius, highest, lowest, second, out):
    """The lowest return of each cell with at least two, as rows x, y, z of `out`; returns how many, and which share of
    the returns within `radius` was not too high to be looked at: every `stride`-th. `lowest` and `second` are scratch.
    """
    near = low = 0
    side = lowest.shape[0]
    lowest_z, second_z = np.full((side, side), F(np.inf)), np.full((side, side), F(np.inf))
    for row in range(side):
        for column in range(side):
            lowest[row, column] = second[row, column] = -1
    scale = F(1) / cell
    for i in range(0, points.shape[0], stride):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        squared = x * x + y * y
        if not (squared < radius * radius and squared >= _NEAREST * _NEAREST and z > -highest * F(100)):
            continue
        near += 1
        if not z <= highest:
            continue
        low += 1
        row, column = U(np.int32((y + radius) * scale)), U(np.int32((x + radius) * scale))
        if z >= second_z[row, column]:
            continue
        if z < lowest_z[row, column]:
            second_z[row, column], second[row, column] = lowest_z[row, column], lowest[row, column]
            lowest_z[row, column], lowest[row, column] = z, i
        else:
            second_z[row, column], second[row, column] = z, i
    n = 0
    for row in range(side):
        for column in range(side):
            a, b = lowest[row, column], second[row, column]
            if b >= 0:
                chosen = a if points[b, 2] - points[a, 2] < _OUTLIER_GAP else b
                out[0, n], out[1, n], out[2, n] = points[chosen, 0], points[chosen, 1], points[chosen, 2]
                n += 1
    return n, low / max(near, 1)


@inner()
def _random(state, n):
    """Next state of a linear congruential generator and an index below n: the same on every machine."""
    state = np.uint32(state * np.uint32(1664525) + np.uint32(1013904223))
    return state, np.int64(state >> np.uint32(8)) % n


@inner(fastmath=FAST)
def _consensus(x, y, z, weight, height, slope_x, slope_y):
    """Weighted score of a plane; without a branch, so that the loop vectorises: it runs once per trial."""
    score = 0.0
    for m in range(U(x.shape[0])):
        d = z[m] + height - slope_x * x[m] - slope_y * y[m]
        share = d * (1 / _INLIER)
        beyond = -_BELOW_PENALTY if d < 0 else 0.0
        score += weight[m] * (1 - share * share if abs(d) < _INLIER else beyond)
    return score


@inner()
def _refined(x, y, z, weight, height, slope_x, slope_y, near):
    """One reweighted least-squares step; `near` is scratch: the weights of what lies near the plane."""
    for m in range(x.shape[0]):
        d = z[m] + height - slope_x * x[m] - slope_y * y[m]
        sigma = 0.10 if d > 0 else 0.15
        near[m] = weight[m] * math.exp(-0.5 * (d / sigma) ** 2)
    level, slope_x, slope_y = solve3(*normal_equations(x, y, z, near, 0.5))
    return -level, slope_x, slope_y


@njit(cache=True)
def fit_plane(x, y, z, weight, lowest_height, highest_height, steepest, trials):
    """z = slope_x x + slope_y y - height; returns height, slopes and quality = score / total weight (0: none found)."""
    n = x.shape[0]
    best, best_height, best_x, best_y = 0.0, 0.0, 0.0, 0.0
    state = np.uint32(12345)
    for _ in range(trials):
        state, i = _random(state, n)
        state, j = _random(state, n)
        state, k = _random(state, n)
        x1, y1, z1 = x[j] - x[i], y[j] - y[i], z[j] - z[i]
        x2, y2, z2 = x[k] - x[i], y[k] - y[i], z[k] - z[i]
        area = x1 * y2 - x2 * y1
        if abs(area) < 4.0:
            continue
        slope_x = (z1 * y2 - z2 * y1) / area
        slope_y = (x1 * z2 - x2 * z1) / area
        height = slope_x * x[i] + slope_y * y[i] - z[i]
        if slope_x**2 + slope_y**2 > steepest**2 or height < lowest_height or height > highest_height:
            continue
        score = _consensus(x, y, z, weight, height, slope_x, slope_y)
        if score > best:
            best, best_height, best_x, best_y = score, height, slope_x, slope_y
    if best <= 0:
        return 0.0, 0.0, 0.0, 0.0
    near = np.empty(n)
    for _ in range(6):
        best_height, best_x, best_y = _refined(x, y, z, weight, best_height, best_x, best_y, near)
    total = 0.0
    for m in range(n):
        total += weight[m]
    return best_height, best_x, best_y, best / total
