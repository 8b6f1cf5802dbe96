# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Points beside the vehicle: one pass over the scan, in which NaN and infinities are nowhere."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import F, U, njit


@njit(inline="always")
def _along(axis, point, rotation, translation):
    return (
        rotation[axis, 0] * point[0] + rotation[axis, 1] * point[1] + rotation[axis, 2] * point[2] + translation[axis]
    )


@njit(nogil=True, cache=True, allocates=False)
def mark_inside(first, last, points, rotation, translation, box, inside):
    """Which points of a range lie inside `box`: rear, front, right, left, bottom, top."""
    for k in range(first, last):
        inside[k] = False
        y = _along(1, points[k], rotation, translation)  # most points are told by it alone
        if not box[2] < y < box[3]:
            continue
        x = _along(0, points[k], rotation, translation)
        if box[0] < x < box[1] and box[4] < _along(2, points[k], rotation, translation) < box[5]:
            inside[k] = True


@njit(nogil=True, cache=True, allocates=False)
def copy_without(first, last, points, own, left):
    """A range of points, the own vehicle's as missing returns."""
    for k in range(U(first), U(last)):
        left[k, 0], left[k, 1], left[k, 2] = points[k, 0], points[k, 1], points[k, 2]
    for k in range(U(first), U(last)):
        if own[k]:
            left[k, 0] = left[k, 1] = left[k, 2] = F(np.nan)


@njit(cache=True, allocates=False)
def mark_cells(points, rotation, translation, box, cell, occupied):
    """Cells of the box, [x][y] from its rear right corner, that hold a point."""
    for k in range(len(points)):
        y = _along(1, points[k], rotation, translation)  # most points are told by it alone
        if not box[2] < y < box[3]:
            continue
        x = _along(0, points[k], rotation, translation)
        if box[0] < x < box[1] and box[4] < _along(2, points[k], rotation, translation) < box[5]:
            column, row = int((x - box[0]) / cell), int((y - box[2]) / cell)
            occupied[min(column, occupied.shape[0] - 1), min(row, occupied.shape[1] - 1)] = True
