# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Points beside the vehicle: one pass over the scan, in which NaN and infinities are nowhere."""

from __future__ import annotations

from roadbed.compute.cpu import njit


@njit(inline="always")
def _in_vehicle(point, rotation, translation):
    x = rotation[0, 0] * point[0] + rotation[0, 1] * point[1] + rotation[0, 2] * point[2] + translation[0]
    y = rotation[1, 0] * point[0] + rotation[1, 1] * point[1] + rotation[1, 2] * point[2] + translation[1]
    z = rotation[2, 0] * point[0] + rotation[2, 1] * point[1] + rotation[2, 2] * point[2] + translation[2]
    return x, y, z


@njit(cache=True)
def mark_inside(points, rotation, translation, box, inside):
    """`box` is rear, front, right, left, bottom, top. Returns how many points lie in it."""
    found = 0
    for k in range(len(points)):
        x, y, z = _in_vehicle(points[k], rotation, translation)
        within = box[0] < x < box[1] and box[2] < y < box[3] and box[4] < z < box[5]
        inside[k] = within
        found += within
    return found


@njit(cache=True)
def mark_cells(points, rotation, translation, box, cell, occupied):
    """Cells of the box, [x][y] from its rear right corner, that hold a point."""
    for k in range(len(points)):
        x, y, z = _in_vehicle(points[k], rotation, translation)
        if box[0] < x < box[1] and box[2] < y < box[3] and box[4] < z < box[5]:
            column, row = int((x - box[0]) / cell), int((y - box[2]) / cell)
            occupied[min(column, occupied.shape[0] - 1), min(row, occupied.shape[1] - 1)] = True
