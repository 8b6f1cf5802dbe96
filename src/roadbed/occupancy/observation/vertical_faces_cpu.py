# SPDX-License-Identifier: Apache-2.0
"""Numba kernel for sparse sensors: vertical faces are obstacles, even where the ground estimate climbed them.

A sensor of few layers sees little road; returns above each other in one polar bin are a vertical face, not road.
"""

import math

import numpy as np

from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import max, min
from roadbed.occupancy.observation.observe_cpu import azimuth_bin, nearest_node, plane_at


@njit(cache=True)
def raise_vertical_faces(cloud, ground, model, spacing, heights, variance):
    """Heights of returns on faces are measured from the vehicle's plane, and the ground around them becomes unknown.

    A face is a polar bin whose returns span `face` metres of height. Changes `heights` (N,), m over the ground, and
    `variance` (nodes,) in place; both are copies of the ground's. Returns how many heights were changed.
    """
    count = cloud.chosen.shape[0]
    place, bins = np.empty((count, 3)), np.full(count, -1, np.int64)
    low = np.empty(model.azimuth_bins * model.range_bins, np.float32)  # filled where there are points, which are few
    high = np.empty(model.azimuth_bins * model.range_bins, np.float32)
    for k in range(count):
        point = cloud.points[cloud.chosen[k]]
        for i in range(3):
            r = cloud.rotation[i]
            place[k, i] = r[0] * point[0] + r[1] * point[1] + r[2] * point[2] + cloud.translation[i]
        dx, dy = place[k, 0] - cloud.origin[0], place[k, 1] - cloud.origin[1]
        distance = math.sqrt(dx * dx + dy * dy)
        if not math.isfinite(place[k, 2] + distance) or distance < model.min_range:
            continue
        bin_ = int(distance / spacing)
        if bin_ >= model.range_bins:
            continue
        bins[k] = int(azimuth_bin(dx, dy, model.azimuth_bins)) * model.range_bins + bin_
        low[bins[k]], high[bins[k]] = np.inf, -np.inf
    for k in range(count):
        if bins[k] >= 0:
            up = np.float32(place[k, 2] - cloud.origin[2])
            low[bins[k]], high[bins[k]] = min(low[bins[k]], up), max(high[bins[k]], up)
    changed = 0
    for k in range(count):
        if bins[k] < 0 or high[bins[k]] - low[bins[k]] < model.face:
            continue
        x, y, j = place[k, 0], place[k, 1], cloud.chosen[k]
        over = place[k, 2] - plane_at(ground.plane, x, y)
        if not model.obstacle_height < over < model.clearance or heights[j] > model.obstacle_height:
            continue
        heights[j] = over
        changed += 1
        node, at_column, at_row = nearest_node(ground, x, y)
        if node < 0:
            continue
        row, column = int(at_row), int(at_column)
        for r in range(max(row - 1, 0), min(row + 2, ground.rows)):
            for c in range(max(column - 1, 0), min(column + 2, ground.columns)):
                variance[r * ground.columns + c] = np.inf
    return changed
