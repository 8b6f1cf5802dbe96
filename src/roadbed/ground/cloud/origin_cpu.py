# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Kernels of the origin test: points per box, and points behind others in the same direction."""

import math

import numpy as np

from roadbed.ground.mounting.plane_support_cpu import squared_range
from roadbed.kernels.jit import inlined, njit
from roadbed.kernels.numeric import FAST, F, U, max, min
from roadbed.kernels.simd import LANES, load_points, store

_DIRECTION, _NEARER = 0.25, 0.5  # degrees; share of the range at which the nearer point lies
_BLOCK = 256  # points that stay in cache
_FARTHEST_BOX = 10**6  # boxes from the origin, so that the number of a box fits 64 bits
_MULTIPLIER = np.int64(0x1E3779B97F4A7C15)  # odd, with mixed bits: it spreads the numbers of neighbouring boxes


@njit(cache=True)
def count_in_boxes(points, reach, size):
    """For each cubic box of side `size` (m) with some of the points (3, N): their number, and the sum of their `reach`
    (N,)."""
    n, row = points.shape[1], 2 * _FARTHEST_BOX + 1
    bits = np.int64(math.ceil(math.log2(2 * n + 2)))
    last = (np.int64(1) << bits) - 1
    index_at, numbers = np.full(last + 1, np.int32(-1)), np.empty(n, np.int64)  # a hash table, and the boxes in it
    count, total, boxes, per_size = np.zeros(n, np.int32), np.zeros(n), 0, 1 / size
    for i in range(n):
        number = np.int64(0)
        for axis in range(3):
            box = math.floor(points[axis, i] * per_size)
            number = number * row + min(max(box, -_FARTHEST_BOX), _FARTHEST_BOX)
        slot = ((number * _MULTIPLIER) >> (63 - bits)) & last
        while index_at[slot] >= 0 and numbers[index_at[slot]] != number:
            slot = (slot + 1) & last
        if index_at[slot] < 0:
            numbers[boxes], index_at[slot] = number, boxes
            boxes += 1
        count[index_at[slot]] += 1
        total[index_at[slot]] += reach[i]
    return count[:boxes], total[:boxes]


@inlined(fastmath=FAST)
def _angle(dx, dy):
    """atan2 as in `primitives_cpu`, but without branches and in single precision, so that loops vectorise."""
    wide, high = abs(dx), abs(dy)
    t = min(wide, high) / max(max(wide, high), F(1e-30))
    t2 = t * t
    series = F(0.1801410) + t2 * (F(-0.0851330) + t2 * F(0.0208351))
    angle = t * (F(0.9998660) + t2 * (F(-0.3302995) + t2 * series))
    angle = F(math.pi / 2) - angle if high > wide else angle
    angle = F(math.pi) - angle if dx < F(0) else angle
    return -angle if dy < F(0) else angle


@njit(cache=True, fastmath=FAST)
def hidden_share(points):
    """Share of the returns among points (N, 3) with another one in the same direction at less than half the range."""
    n, per_radian = points.shape[0], F(180 / math.pi / _DIRECTION)
    columns = F(round(360 / _DIRECTION) + 1)
    reach, direction = np.empty(n, np.float32), np.empty(n, np.int32)  # squared
    xs, ys, zs = np.empty((3, _BLOCK), np.float32)  # LLVM makes vectors of rows only
    for begin in range(0, n, _BLOCK):
        size = min(_BLOCK, n - begin)
        whole = size // LANES * LANES
        for k in range(0, whole, LANES):
            x, y, z = load_points(points, begin + k)
            store(xs, k, x)
            store(ys, k, y)
            store(zs, k, z)
        for k in range(whole, size):
            xs[k], ys[k], zs[k] = points[begin + k, 0], points[begin + k, 1], points[begin + k, 2]
        for k in range(U(size)):
            i, x, y, z = U(begin) + k, xs[k], ys[k], zs[k]
            reach[i] = squared_range(x, y, z)
            elevation = np.floor(_angle(np.sqrt(x * x + y * y), z) * per_radian)
            here = elevation * columns + np.floor(_angle(x, y) * per_radian)
            direction[i] = np.int32(here if reach[i] < F(np.inf) else F(0))
    first = last = direction[0]
    for k in direction:
        first, last = min(first, k), max(last, k)
    nearest = np.full(last - first + 1, F(np.inf))  # a sensor sees few elevations: the sphere would be mostly empty
    for i in range(n):
        k = direction[i] - first
        nearest[k] = min(nearest[k], reach[i])
    hidden = returns = 0
    for i in range(n):
        is_return = reach[i] < F(np.inf)
        hidden += is_return & (nearest[direction[i] - first] < F(_NEARER**2) * reach[i])
        returns += is_return
    return hidden / max(returns, 1)
