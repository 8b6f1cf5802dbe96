# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Alignment: fits the height and tilt of a scan to the prior surface by reweighted least squares. Twin: align.cl."""

from typing import NamedTuple

import numpy as np

from roadbed.ground.stcrf.model import FARTHEST_SAMPLE, FIRM, FIT_SIGMAS, FIT_STEPS, NEAR_SAMPLE, NODE_LIMIT
from roadbed.kernels.jit import inlined, njit
from roadbed.kernels.numeric import FAST, HALF_LOG2_E, ONE, F, U, exp2_negative, max, min, normal_equations, solve3
from roadbed.runtime.primitives_cpu import pose_rows, transform_row


class Samples(NamedTuple):
    """Room for samples (3, n): change of the height over the prior's plane by the slopes a and b of a turn, and that
    height; their nodes, and the number of samples per node, which is zero before and after a fit."""

    values: np.ndarray
    node: np.ndarray
    count: np.ndarray


@njit(cache=True)
def sample_residuals(points, non_ground, stride, rotation, translation, shape, radius, information, mean, samples):
    """Sample every `stride`-th point over a firm node of the prior.

    Non-ground points are left out: a sensor of four layers sees more car sides than road, which would lift the scan.
    Returns the number of samples, and of points over firm nodes at any height.
    """
    rows, columns, spacing = shape.rows, shape.columns, shape.spacing
    centre_x, centre_y, centre_z = translation[0], translation[1], translation[2]
    sample, node, count = samples.values, samples.node, samples.count
    scale, wide, long = F(1) / spacing, F(columns), F(rows)
    has_non_ground = non_ground.shape[0] > 0
    to_x, to_y, to_z = pose_rows(rotation, translation)
    n = over = 0
    # Without branches, which could not be predicted: a point that does not count is overwritten by the next.
    for i in range(U(0), U(points.shape[0]), U(stride)):
        px, py, pz = points[i, 0], points[i, 1], points[i, 2]
        x, y = transform_row(to_x, px, py, pz), transform_row(to_y, px, py, pz)
        u, v = x * scale, y * scale
        is_near = (x - centre_x) ** 2 + (y - centre_y) ** 2 < radius * radius
        is_return = (px != F(0)) | (py != F(0)) | (pz != F(0))
        inside = (u >= F(0)) & (v >= F(0)) & (u < wide) & (v < long) & is_near & is_return
        if has_non_ground:
            inside &= not non_ground[i]
        column, row = U(np.int32(u if inside else F(0))), U(np.int32(v if inside else F(0)))
        planes = mean[row + ONE]
        h, sx, sy = planes[0, column + ONE], planes[1, column + ONE], planes[2, column + ONE]
        dx, dy = x - (F(column) + F(0.5)) * spacing, y - (F(row) + F(0.5)) * spacing
        z = transform_row(to_z, px, py, pz)
        dz = z - (h + sx * dx + sy * dy)
        firm = inside & (information[row + ONE, 0, column + ONE] >= FIRM)
        counts = firm & (abs(dz) < FARTHEST_SAMPLE)
        cell = row * U(columns) + column
        # A turn also shifts a point sideways, by its height over the sensor, and so up or down the slope of its node.
        sample[0, n], sample[1, n] = x - centre_x + sx * (z - centre_z), y - centre_y + sy * (z - centre_z)
        sample[2, n], node[n] = dz, cell
        count[cell] += counts
        n += counts
        over += firm
    return n, over


@inlined(fastmath=FAST)  # not `inner`: called, it would be optimised once where it is compiled and twice in the cache
def _weigh(x, y, dz, limited, plane, sigma, weight):
    """Weight of each sample around the current plane; returns the sum of weights of those on it."""
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
    """Fit dz = lift + a x + b y to the samples; returns lift, the slopes a and b of the turn about the sensor,
    and the share of samples on the surface after it."""
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
        lift, a, b = solve3(*normal_equations(x, y, dz, weight, 1.0))
        share = near / max(total, 1e-9)
    for k in range(n):
        count[node[k]] = 0
    return lift, a, b, share
