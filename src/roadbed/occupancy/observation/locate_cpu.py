# SPDX-License-Identifier: Apache-2.0
"""Numba kernel of the observation grid: cell, polar bin and obstacle weight of each point of a sensor.

Points are processed in blocks: the loop over a block has no branches and compiles to vector instructions. Only the
obstacle weights, which need an exponential, are computed one by one.
"""

import math

import numpy as np

from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import U, min
from roadbed.kernels.scratch import scratch
from roadbed.occupancy.model import SUBCELLS
from roadbed.occupancy.observation.arrays import GROUND, HIGH
from roadbed.occupancy.observation.model import SOFT_SIGMAS, SURE_SIGMAS, WEIGHT_ONE
from roadbed.occupancy.observation.observe_cpu import azimuth_bin, nearest_node, plane_at

_BLOCK = 64  # points
(
    _PX, _PY, _PZ, _HEIGHT, _DZ, _NODE, _RAY, _SLOPE, _LOW, _AZIMUTH, _CELL, _SUBCELL, _KIND, _OBSTACLE,
    _VARIANCE, _WEIGHT,
) = (U(k * _BLOCK) for k in range(16))  # fmt: skip
_ROOM = 16 * _BLOCK


@njit(inline="always")
def _place(cloud, grid, ground, model, block):
    """Polar bins, cells and ground nodes of a block of points; -1 outside of them, and for points that do not count."""
    r00, r01, r02 = cloud.rotation[0, 0], cloud.rotation[0, 1], cloud.rotation[0, 2]
    r10, r11, r12 = cloud.rotation[1, 0], cloud.rotation[1, 1], cloud.rotation[1, 2]
    r20, r21, r22 = cloud.rotation[2, 0], cloud.rotation[2, 1], cloud.rotation[2, 2]
    t0, t1, t2 = cloud.translation[0], cloud.translation[1], cloud.translation[2]
    origin_x, origin_y, origin_z = cloud.origin[0], cloud.origin[1], cloud.origin[2]
    plane = ground.plane[0], ground.plane[1], ground.plane[2]
    for i in range(U(_BLOCK)):
        px, py, pz, height = block[_PX + i], block[_PY + i], block[_PZ + i], block[_HEIGHT + i]
        x = r00 * px + r01 * py + r02 * pz + t0
        y = r10 * px + r11 * py + r12 * pz + t1
        z = r20 * px + r21 * py + r22 * pz + t2
        known = abs(height) < np.inf
        dz = height if known else z - plane_at(plane, x, y)
        dx, dy = x - origin_x, y - origin_y
        distance = math.sqrt(dx * dx + dy * dy)
        valid = (abs(px + py + pz) < np.inf) & (dz > -model.low_outlier) & (distance >= model.min_range)

        # The last range bin whose centre the beam passed, a margin before its end.
        passed = np.floor((distance - model.range_margin) / grid.spacing - 0.5) - 1
        end = np.floor(distance / grid.spacing)
        azimuth = azimuth_bin(dx, dy, model.azimuth_bins)
        beam = valid & (passed >= 0)
        low = beam & (dz > model.obstacle_height) & (dz < model.underside) & (end < model.range_bins)
        block[_RAY + i] = azimuth * model.range_bins + min(passed, model.range_bins - 1.0) if beam else -1.0
        block[_LOW + i] = azimuth * model.range_bins + end if low else -1.0
        block[_SLOPE + i] = (z - origin_z) / distance
        block[_AZIMUTH + i] = azimuth

        gx, gy = x - grid.x, y - grid.y
        fine_column = np.floor((grid.cosine * gx + grid.sine * gy) * SUBCELLS / grid.spacing)
        fine_row = np.floor((grid.cosine * gy - grid.sine * gx) * SUBCELLS / grid.spacing)
        column, row = np.floor(fine_column / SUBCELLS), np.floor(fine_row / SUBCELLS)
        inside = valid & (column >= 0) & (row >= 0) & (column < grid.columns) & (row < grid.rows)
        subcell = (fine_row - row * SUBCELLS) * SUBCELLS + (fine_column - column * SUBCELLS)
        block[_CELL + i] = row * grid.columns + column if inside else -1.0
        block[_SUBCELL + i] = subcell if inside else 0.0

        lowest = model.obstacle_height - (SOFT_SIGMAS * model.obstacle_height_sigma if known else 0.0)
        node, _, _ = nearest_node(ground, x, y)
        block[_DZ + i] = dz
        block[_NODE + i] = node if known else -1.0
        block[_OBSTACLE + i] = 1.0 if inside & (dz > lowest) & (dz < model.clearance) else 0.0
        on_ground = inside & known & (dz <= model.obstacle_height)
        block[_KIND + i] = GROUND if on_ground else (HIGH if dz > model.mover_height else 0.0)


@njit(inline="always")
def _look_up(count, ground, block):
    """Variance of the ground under the points."""
    for k in range(count):
        i = U(k)
        node = int(block[_NODE + i])
        block[_VARIANCE + i] = ground.variance[node] if node >= 0 else np.inf


@njit(inline="always")
def _weigh(count, model, block):
    """o_j of possible obstacles: an uncertain ground makes the step from ground to obstacle softer."""
    for i in range(U(_BLOCK)):
        uncertain, most = block[_VARIANCE + i], model.ground_sigma**2
        variance = model.obstacle_height_sigma**2 + (uncertain if uncertain < most else most)
        block[_WEIGHT + i] = -(block[_DZ + i] - model.obstacle_height) / math.sqrt(variance)
    for k in range(count):
        i = U(k)
        exponent = block[_WEIGHT + i]
        some = block[_OBSTACLE + i] > 0 and exponent > -SURE_SIGMAS
        block[_WEIGHT + i] = math.exp(exponent) if some else 0.0
    for i in range(U(_BLOCK)):
        share = 1 / (1 + block[_WEIGHT + i])
        block[_WEIGHT + i] = np.floor(share * WEIGHT_ONE + 0.5) if block[_OBSTACLE + i] > 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def locate_points(first, last, cloud, grid, ground, model, out):
    """Per chosen point: polar bin and slope of its beam, cell and subcell, obstacle weight o_j, its kind, and the
    polar bin where it ends if it is a low obstacle."""
    block = scratch(_ROOM, np.float64)
    for begin in range(first, last, _BLOCK):
        count = min(_BLOCK, last - begin)
        for k in range(count):
            i, j = U(k), cloud.chosen[begin + k]
            block[_PX + i], block[_PY + i] = cloud.points[j, 0], cloud.points[j, 1]
            block[_PZ + i], block[_HEIGHT + i] = cloud.points[j, 2], cloud.heights[j]
        _place(cloud, grid, ground, model, block)
        _look_up(count, ground, block)
        _weigh(count, model, block)
        for k in range(count):
            i, at = U(k), U(begin + k)
            out.ray[at], out.low[at], out.slope[at] = block[_RAY + i], block[_LOW + i], block[_SLOPE + i]
            out.azimuth[at], out.cell[at], out.subcell[at] = block[_AZIMUTH + i], block[_CELL + i], block[_SUBCELL + i]
            out.kind[at], out.weight[at] = block[_KIND + i], block[_WEIGHT + i]
