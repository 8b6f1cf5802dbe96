# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Points on and around the ego vehicle; NaN and infinities are outside of every box. Twin: ego_mask.cl.

Every product and sum is rounded separately, so that a point on a border is on the same side on every device.
"""

import numpy as np

from roadbed.kernels.jit import inlined, njit
from roadbed.kernels.numeric import F, U, min
from roadbed.kernels.simd import LANES, load_points, mask_bits, rounded_sum, store_mask
from roadbed.runtime.primitives_cpu import pose_rows


@inlined()
def _along(axis, x, y, z):
    """One coordinate of a point in the vehicle frame."""
    return axis[0] * x + axis[1] * y + axis[2] * z + axis[3]


@inlined()
def _along_lanes(axis, x, y, z):
    """The same for LANES points."""
    return rounded_sum(rounded_sum(rounded_sum(axis[0] * x, axis[1] * y), axis[2] * z), axis[3])


@inlined()
def _limits(box):
    """The box as scalars: the compiler must assume that writes to other arrays change this array."""
    return box[0], box[1], box[2], box[3], box[4], box[5]


@inlined()
def _is_inside(box, u, v, w):
    """Whether a point is inside the box; for vectors the mask of LANES points."""
    return (box[0] < u) & (u < box[1]) & (box[2] < v) & (v < box[3]) & (box[4] < w) & (w < box[5])


@inlined()
def _are_inside(turn, box, x, y, z):
    """Mask of LANES points in the sensor frame that are inside the box."""
    u, v, w = _along_lanes(turn[0], x, y, z), _along_lanes(turn[1], x, y, z), _along_lanes(turn[2], x, y, z)
    return _is_inside(box, u, v, w)


@njit(nogil=True, cache=True)
def mark_inside(first, last, points, rotation, translation, box, inside):
    """Mark the points of a range that are inside `box`: rear, front, right, left, bottom, top."""
    turn, box = pose_rows(rotation, translation), _limits(box)
    to_x, to_y, to_z = turn
    whole = first + (last - first) // LANES * LANES
    for k in range(first, whole, LANES):
        store_mask(inside, k, _are_inside(turn, box, *load_points(points, k)))
    for k in range(whole, last):
        x, y, z = points[k, 0], points[k, 1], points[k, 2]
        inside[k] = _is_inside(box, _along(to_x, x, y, z), _along(to_y, x, y, z), _along(to_z, x, y, z))


@njit(nogil=True, cache=True)
def copy_without(first, last, points, mask, left):
    """Copy a range of points, masked ones as missing returns."""
    for k in range(U(first), U(last)):
        left[k, 0], left[k, 1], left[k, 2] = points[k, 0], points[k, 1], points[k, 2]
    for k in range(U(first), U(last)):
        if mask[k]:
            left[k, 0] = left[k, 1] = left[k, 2] = F(np.nan)


@njit(cache=True)
def mark_cells(points, rotation, translation, box, per_metre, occupied):
    """Mark the cells of the box, [x][y] from its rear right corner, that hold a point."""
    turn, box = pose_rows(rotation, translation), _limits(box)
    to_x, to_y, to_z = turn
    count = len(points)
    for first in range(0, count, LANES):
        if first + LANES <= count and not mask_bits(_are_inside(turn, box, *load_points(points, first))):
            continue  # most vectors are outside
        for k in range(first, min(first + LANES, count)):
            x, y, z = points[k, 0], points[k, 1], points[k, 2]
            u, v = _along(to_x, x, y, z), _along(to_y, x, y, z)
            if _is_inside(box, u, v, _along(to_z, x, y, z)):
                column, row = int((u - box[0]) * per_metre), int((v - box[2]) * per_metre)
                occupied[min(column, occupied.shape[0] - 1), min(row, occupied.shape[1] - 1)] = True
