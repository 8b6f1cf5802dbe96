# SPDX-License-Identifier: Apache-2.0
"""Functions that CPU kernels of several methods share."""

import math

from roadbed.kernels.jit import inlined, inner
from roadbed.kernels.numeric import max, min


@inlined()
def pose_rows(rotation, translation):
    """The rows of a transform as scalars: a loop that stores floats would reload array elements for every point."""
    return (
        (rotation[0, 0], rotation[0, 1], rotation[0, 2], translation[0]),
        (rotation[1, 0], rotation[1, 1], rotation[1, 2], translation[1]),
        (rotation[2, 0], rotation[2, 1], rotation[2, 2], translation[2]),
    )


@inlined(fastmath={"contract"})
def transform_row(row, x, y, z):
    """One coordinate of the transformed point."""
    return row[0] * x + row[1] * y + row[2] * z + row[3]


@inner()
def fast_azimuth(dx, dy):
    """atan2 by the polynomial of Abramowitz and Stegun 4.4.49, within 0.001 degrees."""
    wide, high = abs(dx), abs(dy)
    steep, longer = high > wide, max(wide, high)
    t = min(wide, high) / longer if longer > 0 else 0.0
    t2 = t * t
    angle = t * (0.9998660 + t2 * (-0.3302995 + t2 * (0.1801410 + t2 * (-0.0851330 + t2 * 0.0208351))))
    if steep:
        angle = math.pi / 2 - angle
    if dx < 0:
        angle = math.pi - angle
    return -angle if dy < 0 else angle
