# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Numba kernel that moves the points of tracked objects to where these are at the frame's time. Device: movers.cl."""

from roadbed.kernels.jit import njit


@njit(cache=True, nogil=True)
def move_points(first, last, points, point_time, movers, moved):
    """Copy points first to last; those in the box of a mover, where it was when they were measured, move with it."""
    for i in range(first, last):
        x, y, z, lag = float(points[i, 0]), float(points[i, 1]), float(points[i, 2]), float(point_time[i])
        moved[i, 0], moved[i, 1], moved[i, 2] = x, y, z
        for k in range(movers.shape[0]):
            mover = movers[k]
            ahead = mover.ahead[0] * x + mover.ahead[1] * y + mover.ahead[2] * z + mover.ahead[3]
            if not abs(ahead - lag * mover.speed[0]) <= mover.reach[0]:
                continue
            aside = mover.aside[0] * x + mover.aside[1] * y + mover.aside[2] * z + mover.aside[3]
            if abs(aside - lag * mover.speed[1]) <= mover.reach[1]:
                moved[i, 0] = x - lag * mover.velocity[0]
                moved[i, 1] = y - lag * mover.velocity[1]
                moved[i, 2] = z - lag * mover.velocity[2]
                break
