# SPDX-License-Identifier: Apache-2.0
"""The points of a scan that are returns, and in how many columns and sectors they support or contradict a plane."""

import math

import numpy as np

from roadbed.kernels.jit import inlined, njit
from roadbed.kernels.numeric import F, max

SECTORS = 16
NEAREST, FARTHEST = F(1e-6**2), F(1e15**2)  # m^2, of a return: others are missing, far beyond any sensor or NaN
_HALF_WAY = math.tan(2 * math.pi / SECTORS)  # there are four sectors in a quarter
_ON, _ABOVE, _BELOW = np.uint8(1), np.uint8(2), np.uint8(4)


@njit(cache=True, nogil=True)
def returns_of(points, enough):
    """(3, n) every k-th of the points (N, 3), without missing returns: `enough` where there are so many. Work on rows
    is faster."""
    n = points.shape[0]
    stride = max(1, n // enough)
    while True:
        rows, count = np.empty((3, n // stride + 1), np.float32), 0
        for i in range(0, n, stride):
            x, y, z = points[i, 0], points[i, 1], points[i, 2]
            rows[0, count], rows[1, count], rows[2, count] = x, y, z  # written over where it does not count
            count += NEAREST < x * x + y * y + z * z < FARTHEST
        if count >= enough or stride == 1:
            return np.ascontiguousarray(rows[:, :count])
        stride //= 2


@inlined()
def _sector(x, y):
    """Which of the SECTORS around the origin a point lies in."""
    wide, high = abs(x), abs(y)
    if high < wide:
        sector = 0 if high < _HALF_WAY * wide else 1
    else:
        sector = 2 if wide > _HALF_WAY * high else 3
    if x < 0:
        sector = SECTORS // 2 - 1 - sector
    return SECTORS - 1 - sector if y < 0 else sector


@njit(cache=True, nogil=True)
def count_columns(returns, pose, radius, column, on, above, below):
    """Numbers of columns within `radius` with returns on the plane z = 0, with structures above those, and with returns
    below it; and the sectors, as bits, with returns on it. `returns` are (3, n) before the `pose`, lengths in m."""
    a, b, c, d, e, f, g, h, i, u, v, w = pose
    side = math.ceil(2 * radius / column)
    found, sectors = np.zeros(side * side, np.uint8), 0
    for k in range(returns.shape[1]):
        px, py, pz = returns[0, k], returns[1, k], returns[2, k]
        x, y, z = a * px + b * py + c * pz + u, d * px + e * py + f * pz + v, g * px + h * py + i * pz + w
        if x * x + y * y >= radius * radius:
            continue
        here = np.int64((x + radius) / column) * side + np.int64((y + radius) / column)
        if abs(z) < on:
            found[here] |= _ON
            sectors |= 1 << _sector(x, y)
        elif above[0] < z < above[1]:
            found[here] |= _ABOVE
        elif z < -below:
            found[here] |= _BELOW
    on_plane = structures = beneath = 0
    for bits in found:
        on_plane += (bits & _ON) != 0
        structures += (bits & (_ON | _ABOVE)) == _ON | _ABOVE
        beneath += (bits & _BELOW) != 0
    return on_plane, structures, beneath, sectors
