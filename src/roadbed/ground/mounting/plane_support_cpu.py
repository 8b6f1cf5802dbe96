# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The points of a scan that are returns, and in how many columns and sectors they support or contradict a plane."""

import math

import numpy as np

from roadbed.kernels.jit import inlined, njit
from roadbed.kernels.numeric import ZERO, F, U
from roadbed.kernels.simd import LANES, STEP, load_points, maximum, splat, store_first
from roadbed.kernels.simd_reductions import compress, count_true

SECTORS = 16
_NEAREST, _FARTHEST = F(1e-6), F(1e15)  # m, of a return: its square fits single precision
_HALF_WAY = math.tan(2 * math.pi / SECTORS)  # there are four sectors in a quarter
_ON, _ABOVE, _BELOW = np.uint8(1), np.uint8(2), np.uint8(4)


@inlined()
def _are_returns(x, y, z):
    """Which of LANES points are no missing returns; NaN is neither small nor large."""
    nothing = splat(F(0))
    wide, deep, high = maximum(x, nothing - x), maximum(y, nothing - y), maximum(z, nothing - z)
    some = (wide > _NEAREST) | (deep > _NEAREST) | (high > _NEAREST)
    return some & (wide < _FARTHEST) & (deep < _FARTHEST) & (high < _FARTHEST)


@inlined()
def _append(x, y, z, rows, n):
    """Add those of LANES points that are no missing returns to the `n` that are there; returns the new number."""
    chosen = _are_returns(x, y, z)
    found = count_true(chosen)
    if found == 0:
        return n
    store_first(rows[0], n, compress(chosen, x), found)
    store_first(rows[1], n, compress(chosen, y), found)
    store_first(rows[2], n, compress(chosen, z), found)
    return n + U(found)


@njit(cache=True)
def returns_of(points):
    """(3, n) the points (N, 3) that are no missing returns; rows are faster to work on."""
    whole, count = U(points.shape[0] // LANES * LANES), ZERO
    last = np.zeros((LANES, 3), np.float32)
    last[: points.shape[0] - np.int64(whole)] = points[np.int64(whole) :]
    for k in range(U(0), whole, STEP):
        count += count_true(_are_returns(*load_points(points, k)))
    count += count_true(_are_returns(*load_points(last, U(0))))
    out, n = np.empty((3, count), np.float32), U(0)
    rows = out[0], out[1], out[2]
    for k in range(U(0), whole, STEP):
        n = _append(*load_points(points, k), rows, n)
    _append(*load_points(last, U(0)), rows, n)
    return out


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


@njit(cache=True)
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
