# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Pose noise absorbed: a scan's height and tilt against the prior surface, by reweighted least squares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.compute.cpu import FAST, HALF_LOG2_E, F, U, exp2_negative, fast_normal_equations, inner, njit, solve3
from roadbed.ground.stcrf.model import FARTHEST_SAMPLE, FIRM, FIT_SIGMAS, FIT_STEPS, NEAR_SAMPLE, NODE_LIMIT


class Samples(NamedTuple):
    """Room for samples: x, y from the sensor and height over the prior's plane (3, n), their nodes, and their number
    per node, which is zero before and after."""

    values: np.ndarray
    node: np.ndarray
    count: np.ndarray


@njit(cache=True)
def sample_residuals(points, standing, stride, rotation, translation, shape, radius, information, mean, samples):
    """Every `stride`-th point over a firm node of the prior: x and y from the centre, and height over its plane.

    What stands says nothing about how the ground lies: four layers see more sides of cars than road, and would be
    lifted onto them. Returns how many samples were written.
    """
    rows, columns, spacing = shape.rows, shape.columns, shape.spacing
    centre_x, centre_y = translation[0], translation[1]
    sample, node, count = samples.values, samples.node, samples.count
    scale = F(1) / spacing
    some_stand = standing.shape[0] > 0
    n = 0
    for i in range(0, points.shape[0], stride):
        if some_stand and standing[i]:
            continue
        px, py, pz = points[i, 0], points[i, 1], points[i, 2]
        x = rotation[0, 0] * px + rotation[0, 1] * py + rotation[0, 2] * pz + translation[0]
        y = rotation[1, 0] * px + rotation[1, 1] * py + rotation[1, 2] * pz + translation[1]
        if not ((x - centre_x) ** 2 + (y - centre_y) ** 2 < radius * radius):
            continue
        u, v = x * scale, y * scale
        if not (u >= F(0) and v >= F(0) and u < columns and v < rows):
            continue
        column, row = np.int32(u), np.int32(v)
        if information[row + 1, 0, column + 1] < FIRM or (px == F(0) and py == F(0) and pz == F(0)):
            continue
        z = rotation[2, 0] * px + rotation[2, 1] * py + rotation[2, 2] * pz + translation[2]
        h, sx, sy = mean[row + 1, 0, column + 1], mean[row + 1, 1, column + 1], mean[row + 1, 2, column + 1]
        dx, dy = x - (F(column) + F(0.5)) * spacing, y - (F(row) + F(0.5)) * spacing
        dz = z - (h + sx * dx + sy * dy)
        if not abs(dz) < FARTHEST_SAMPLE:
            continue
        sample[0, n], sample[1, n], sample[2, n] = x - centre_x, y - centre_y, dz
        node[n] = row * columns + column
        count[node[n]] += 1
        n += 1
    return n


@inner(fastmath=FAST)
def _weigh(x, y, dz, limited, plane, sigma, weight):
    """Weight of each sample around the present plane, and how much of them lies on it."""
    lift, a, b = plane
    scale = HALF_LOG2_E / (sigma * sigma)
    near = F(0)
    for k in range(U(x.shape[0])):
        rest = dz[k] - (lift + a * x[k] + b * y[k])
        weight[k] = limited[k] * exp2_negative(rest * rest * scale)
    for k in range(U(x.shape[0])):
        rest = dz[k] - (lift + a * x[k] + b * y[k])
        near += limited[k] if abs(rest) < NEAR_SAMPLE else F(0)
    return near


@njit(cache=True)
def fit_tilt(samples, n):
    """dz = lift + a x + b y over the samples; returns lift, a, b and the share of samples then on the surface."""
    sample, node, count = samples.values, samples.node, samples.count
    x, y, dz = sample[0, :n], sample[1, :n], sample[2, :n]
    limited, weight = np.empty(n, np.float32), np.empty(n, np.float32)
    total = 0.0
    for k in range(n):
        limited[k] = F(min(1.0, NODE_LIMIT / count[node[k]]))
        total += limited[k]
    lift = a = b = 0.0
    share = 0.0
    for step in range(FIT_STEPS):
        near = _weigh(x, y, dz, limited, (F(lift), F(a), F(b)), F(FIT_SIGMAS[step]), weight)
        lift, a, b = solve3(*fast_normal_equations(x, y, dz, weight, 1.0))
        share = near / max(total, 1e-9)
    for k in range(n):
        count[node[k]] = 0
    return lift, a, b, share
