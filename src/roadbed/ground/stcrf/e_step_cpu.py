# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The E-step: ground probability c_j of every point, summed at once into the data terms of the nodes' M-step.

It waits for one operation after the other, so two vectors of points are always weighed in turns.
"""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import F, U, inner
from roadbed.compute.kernels import inlined
from roadbed.compute.lanes import LANES, STEP, exp2_of_two, gather, larger, load, smaller, splat, store, total, where
from roadbed.compute.scratch import scratch
from roadbed.ground.stcrf.abreast_cpu import STRIDE, slots_of

_PLANES = 9 * LANES  # of the nodes in the lanes of a vector


@inlined()
def _weigh_two(dz, other, step, rules):
    """Ground probability of points so far above the surface.

    With a pull points far below keep a little weight: a surface that starts above a drop is drawn down to it.
    """
    above, other_above = dz >= F(0), other >= F(0)
    up, down, square, other_square = splat(step.up), splat(step.down), dz * dz, other * other
    weight, other_weight = exp2_of_two(square * where(above, up, down), other_square * where(other_above, up, down))
    if rules.pull > F(0):
        kept, other_kept = rules.pull / (square * step.reach + F(1)), rules.pull / (other_square * step.reach + F(1))
        weight = where(above, weight, larger(weight, kept))
        other_weight = where(other_above, other_weight, larger(other_weight, other_kept))
    return weight, other_weight


@inlined()
def _add_points(sums, weight, x, y, z):
    """Adds SUM c_j H^T H and SUM c_j z_j H^T of points with the ground probability c_j."""
    w, wx, wy, wxx, wxy, wyy, wz, wzx, wzy = sums
    weight_x, weight_y = weight * x, weight * y
    w, wx, wy = w + weight, wx + weight_x, wy + weight_y
    wxx, wxy, wyy = wxx + weight_x * x, wxy + weight_x * y, wyy + weight_y * y
    return w, wx, wy, wxx, wxy, wyy, wz + weight * z, wzx + weight_x * z, wzy + weight_y * z


@inlined()
def _add_two(sums, points, others, plane, step, rules):
    """Two vectors of points at once."""
    x, y, z = points
    x1, y1, z1 = others
    dz, other = z - (plane[0] + plane[1] * x + plane[2] * y), z1 - (plane[0] + plane[1] * x1 + plane[2] * y1)
    weight, other_weight = _weigh_two(dz, other, step, rules)
    return _add_points(_add_points(sums, weight, x, y, z), other_weight, x1, y1, z1)


@inlined()
def _points_abreast(points, k):
    return load(points, k), load(points, k + STEP), load(points, k + STEP + STEP)


@inlined()
def _nothing():
    none = splat(F(0))
    return none, none, none, none, none, none, none, none, none


@inlined()
def _no_steeper(slope, limit):
    return smaller(larger(slope, splat(-limit)), splat(limit))


@inlined()
def _write_abreast(sums, alpha, abreast, slot, data, stride, planes):
    """Data terms of the nodes in the lanes; `planes` is scratch."""
    w, wx, wy, wxx, wxy, wyy, wz, wzx, wzy = sums
    store(planes, 0 * LANES, w * alpha)
    store(planes, 1 * LANES, wx * alpha)
    store(planes, 2 * LANES, wy * alpha)
    store(planes, 3 * LANES, wxx * alpha)
    store(planes, 4 * LANES, wxy * alpha)
    store(planes, 5 * LANES, wyy * alpha)
    store(planes, 6 * LANES, wz * alpha)
    store(planes, 7 * LANES, wzx * alpha)
    store(planes, 8 * LANES, wzy * alpha)
    for lane in range(STEP):
        at = U(abreast.data_at[slot + lane])
        for k in range(U(9)):
            data[at] = planes[k * STEP + lane]
            at += stride


@inner()
def _gather_abreast(abreast, slot, mean, data, stride, step, rules, planes):
    """Data terms alpha SUM .. of the nodes in the lanes from `slot` on."""
    places, limit = abreast.mean_at, rules.slope_limit
    slope_x, slope_y = gather(mean, places, slot, stride), gather(mean, places, slot, stride + stride)
    plane = gather(mean, places, slot, U(0)), _no_steeper(slope_x, limit), _no_steeper(slope_y, limit)
    sums, k = _nothing(), U(abreast.first[slot])
    for _ in range(0, abreast.steps[slot], 2):
        points, others = _points_abreast(abreast.points, k), _points_abreast(abreast.points, k + U(STRIDE))
        sums = _add_two(sums, points, others, plane, step, rules)
        k += U(2 * STRIDE)
    _write_abreast(sums, rules.alpha, abreast, slot, data, stride, planes)


@inner()
def _gather_alone(points, node, plane, at, data, stride, step, rules):
    """The same of one node with many points, which fill vectors."""
    first, sums = U(points.reserved[node]), _nothing()
    plane = splat(plane[0]), splat(plane[1]), splat(plane[2])
    for k in range(first, first + U(points.length[node]), STEP + STEP):
        points_here = load(points.x, k), load(points.y, k), load(points.z, k)
        others = load(points.x, k + STEP), load(points.y, k + STEP), load(points.z, k + STEP)
        sums = _add_two(sums, points_here, others, plane, step, rules)
    w, wx, wy, wxx, wxy, wyy, wz, wzx, wzy = sums
    alpha, four = rules.alpha, U(4) * stride
    data[at], data[at + stride], data[at + U(2) * stride] = alpha * total(w), alpha * total(wx), alpha * total(wy)
    data[at + U(3) * stride], data[at + four] = alpha * total(wxx), alpha * total(wxy)
    at += four + stride
    data[at], data[at + stride] = alpha * total(wyy), alpha * total(wz)
    data[at + U(2) * stride], data[at + U(3) * stride] = alpha * total(wzx), alpha * total(wzy)


@inner()
def e_step(points, abreast, band, first_row, arrays, step, rules):
    """Ground probability c_j of every point of a band of rows, summed at once into the data term of the M-step."""
    stride, limit, planes = U(arrays.mean.shape[2]), rules.slope_limit, scratch(_PLANES, np.float32)
    mean, data = arrays.every_mean, arrays.every_data
    slot = slots_of(points.listed, band, first_row)
    last = slot + abreast.counts[band, 0]
    for lanes in range(slot, last, LANES):
        _gather_abreast(abreast, U(lanes), mean, data, stride, step, rules, planes)
    for alone in range(last, last + abreast.counts[band, 1]):
        at = U(abreast.mean_at[alone])
        sx, sy = mean[at + stride], mean[at + stride + stride]
        plane = mean[at], min(max(sx, -limit), limit), min(max(sy, -limit), limit)
        _gather_alone(points, abreast.node[alone], plane, U(abreast.data_at[alone]), data, stride, step, rules)
