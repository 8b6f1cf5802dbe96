# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Kernels of the origin test: points per box, and points behind others in the same direction."""

import math

import numpy as np

from roadbed.ground.mounting.plane_support_cpu import FARTHEST, NEAREST
from roadbed.kernels.jit import inlined, njit
from roadbed.kernels.numeric import FAST, ONE, F, U, max, min
from roadbed.kernels.simd import (
    LANES,
    floor,
    load,
    load_points,
    maximum,
    minimum,
    splat,
    square_root,
    store,
    to_int32,
    where,
)  # fmt: skip
from roadbed.kernels.simd_reductions import count_true, gather, min_lanes

_DIRECTION, _NEARER = 0.25, 0.5  # degrees; share of the range at which the nearer point lies
_FARTHEST_BOX = 10**6  # boxes from the origin, so that the number of a box fits 64 bits
_MULTIPLIER = np.int64(0x1E3779B97F4A7C15)  # odd, with mixed bits: it spreads the numbers of neighbouring boxes


@njit(cache=True, nogil=True)
def count_in_boxes(points, reach, size):
    """For each cubic box of side `size` (m) with some of the points (3, N): their number, and the sum of their `reach`
    (N,)."""
    n, row = points.shape[1], 2 * _FARTHEST_BOX + 1
    bits = np.int64(math.ceil(math.log2(2 * n + 2)))
    last = (np.int64(1) << bits) - 1
    index_at, numbers = np.empty(last + 1, np.int32), np.empty(n, np.int64)  # a hash table, and the boxes in it
    count, total, boxes, per_size = np.zeros(n, np.int32), np.zeros(n), 0, 1 / size
    for slot in range(U(last + 1)):
        index_at[slot] = -1
    for i in range(U(n)):
        number = np.int64(0)
        for axis in range(3):
            box = math.floor(points[axis, i] * per_size)
            number = number * row + min(max(box, -_FARTHEST_BOX), _FARTHEST_BOX)
        slot = U(((number * _MULTIPLIER) >> (63 - bits)) & last)
        while index_at[slot] >= 0 and numbers[U(index_at[slot])] != number:
            slot = (slot + ONE) & U(last)
        if index_at[slot] < 0:
            numbers[boxes], index_at[slot] = number, boxes
            boxes += 1
        count[U(index_at[slot])] += 1
        total[U(index_at[slot])] += reach[i]
    return count[:boxes], total[:boxes]


@inlined()
def _magnitude(lanes):
    return maximum(lanes, splat(F(0)) - lanes)


@inlined(fastmath=FAST)
def _angle(dx, dy):
    """atan2 as in `primitives_cpu`, but in lanes of single precision."""
    wide, high = _magnitude(dx), _magnitude(dy)
    t = minimum(wide, high) / maximum(maximum(wide, high), splat(F(1e-30)))
    t2 = t * t
    series = (t2 * F(0.0208351) - F(0.0851330)) * t2 + F(0.1801410)
    angle = t * ((series * t2 - F(0.3302995)) * t2 + F(0.9998660))
    angle = where(high > wide, F(math.pi / 2) - angle, angle)
    angle = where(dx < F(0), F(math.pi) - angle, angle)
    return where(dy < F(0), F(0) - angle, angle)


@njit(cache=True, nogil=True, fastmath=FAST)
def hidden_share(points):
    """Share of the returns among points (N, 3) with another one in the same direction at less than half the range."""
    n, per_radian = points.shape[0], F(180 / math.pi / _DIRECTION)
    columns, whole = F(round(360 / _DIRECTION) + 1), n // LANES * LANES
    reach, direction = np.empty(n + LANES, np.float32), np.empty(n + LANES, np.int32)  # squared
    last = np.empty((LANES, 3), np.float32)
    for k in range(LANES):
        for axis in range(3):
            last[k, axis] = points[whole + k, axis] if k < n - whole else F(0)
    lowest = highest = splat(F(0))
    for k in range(0, n, LANES):
        x, y, z = load_points(points, k) if k < whole else load_points(last, 0)
        squared = x * x + y * y + z * z
        is_return = (squared > NEAREST) & (squared < FARTHEST)
        elevation = floor(_angle(square_root(x * x + y * y), z) * per_radian)
        here = where(is_return, elevation * columns + floor(_angle(x, y) * per_radian), splat(F(0)))
        lowest, highest = minimum(lowest, here), maximum(highest, here)
        store(reach, k, where(is_return, squared, splat(F(np.inf))))
        store(direction, k, to_int32(here))
    first = np.int64(min_lanes(lowest))
    nearest = np.empty(1 - first - np.int64(min_lanes(splat(F(0)) - highest)), np.float32)  # the sphere is mostly empty
    for k in range(U(nearest.shape[0])):
        nearest[k] = F(np.inf)
    for i in range(n):
        k = U(direction[i] - first)
        nearest[k] = min(nearest[k], reach[i])
    hidden = returns = 0
    for k in range(0, n, LANES):
        own = load(reach, k)
        is_return = own < F(np.inf)
        hidden += count_true(is_return & (gather(nearest, load(direction, k), -first) < own * F(_NEARER**2)))
        returns += count_true(is_return)
    return hidden / max(returns, 1)
