# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The EM of the spatio-temporal CRF on the CPU: E-step, fused M-step with averaged neighbours, 3x3 solve.

Information of a node: nine planes p00 p01 p02 p11 p12 p22 (P) and x0 x1 x2 (X). Arrays are (rows + 2, 9, stride)
with a border of empty nodes, so that no loop asks where the lattice ends; each row's planes lie together in cache.
Every loop works on few arrays at a time and counts with unsigned integers: then the compiler sees that arrays do not
overlap and that indices do not wrap around, and vectorises.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.compute.cpu import HALF_LOG2_E, ONE, F, U, exp2_negative, inner, njit
from roadbed.compute.crew import take_next, take_part, wait_for_all
from roadbed.compute.threads import together
from roadbed.config.ground import StcrfConfig
from roadbed.ground.stcrf.arrays import Field, ShapingPoints


class EmRules(NamedTuple):
    """StcrfConfig for one lattice, as plain numbers; see there."""

    iterations: int
    from_prior: bool  # the first surface is the prior's, and else what is expected
    alpha: np.float32
    beta: np.float32
    neighbours: int
    gamma: np.float32
    sigma_up_early: np.float32
    sigma_up: np.float32
    sigma_down: np.float32
    pull: np.float32
    height_information: np.float32
    slope_information: np.float32
    slope_limit: np.float32


def em_rules(stcrf: StcrfConfig, **of_lattice) -> EmRules:
    """The rules of one lattice: what all have in common, and its own."""
    return EmRules(
        alpha=F(stcrf.alpha),
        beta=F(stcrf.beta),
        neighbours=stcrf.neighbours,
        sigma_down=F(stcrf.sigma_down),
        slope_limit=F(stcrf.slope_limit),
        **of_lattice,
    )


class EmArrays(NamedTuple):
    """A lattice's buffers; see `arrays.Field`."""

    information: np.ndarray
    prior: np.ndarray
    data: np.ndarray
    expected: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, field: Field) -> EmArrays:
        return cls(field.information, field.prior, field.data, field.expected, field.mean)


class _Iteration(NamedTuple):
    """What changes from one iteration to the next."""

    number: int
    old: int  # which of the two buffers of information is read
    share: np.float32  # beta of each neighbour
    up: np.float32  # factor of dz^2 above and below the surface
    down: np.float32
    deep: np.float32  # m: the pull is more than the weight only of points below it


@inner(fastmath=True)
def _sum_along_x(p, q, spacing, lo, hi):
    """q = p + F^T p F over the left and right neighbour, for columns lo..hi of one row."""
    square, double = spacing * spacing, F(2) * spacing
    for k in (0, 2, 5, 6, 8):
        for c in range(U(lo), U(hi)):
            q[k, c] = p[k, c - ONE] + p[k, c] + p[k, c + ONE]
    for k, m in ((1, 0), (4, 2), (7, 6)):
        for c in range(U(lo), U(hi)):
            q[k, c] = p[k, c - ONE] + p[k, c] + p[k, c + ONE] + spacing * (p[m, c + ONE] - p[m, c - ONE])
    for c in range(U(lo), U(hi)):
        outer = square * (p[0, c + ONE] + p[0, c - ONE]) + double * (p[1, c + ONE] - p[1, c - ONE])
        q[3, c] = p[3, c - ONE] + p[3, c] + p[3, c + ONE] + outer


@inner(fastmath=True)
def _m_step(data, p, q, below, above, share, spacing, out, lo, hi):
    """P, X <- data + beta/|N| neighbours. q: own row summed along x, node included; below, above: the rows beside."""
    for k in (0, 1, 3, 6, 7):
        for c in range(U(lo), U(hi)):
            out[k, c] = data[k, c] + share * (q[k, c] - p[k, c] + below[k, c] + above[k, c])
    for k, m in ((2, 0), (4, 1), (8, 6)):
        for c in range(U(lo), U(hi)):
            sheared = below[k, c] + above[k, c] + spacing * (above[m, c] - below[m, c])
            out[k, c] = data[k, c] + share * (q[k, c] - p[k, c] + sheared)
    square, double = spacing * spacing, F(2) * spacing
    for c in range(U(lo), U(hi)):
        out[5, c] = data[5, c] + share * (q[5, c] - p[5, c] + below[5, c] + above[5, c])
    for c in range(U(lo), U(hi)):
        out[5, c] += share * (square * (above[0, c] + below[0, c]) + double * (above[2, c] - below[2, c]))


@inner(fastmath=True)
def _add_prior(prior, gamma, out, lo, hi):
    """P, X += gamma previous frame."""
    for k in range(9):
        for c in range(U(lo), U(hi)):
            out[k, c] += gamma * prior[k, c]


@inner(fastmath=True)
def _solve(p, expected, height_information, slope_information, mean, work, lo, hi):
    """mu = (P + P0)^-1 (X + P0 expected) for one row, by an unrolled L D L^T; P0 is never accumulated."""
    inverse0, inverse1, t, b0, y1, y2 = work[0], work[1], work[2], work[3], work[4], work[5]
    for c in range(U(lo), U(hi)):
        inverse0[c] = F(1) / (p[0, c] + height_information)
    for c in range(U(lo), U(hi)):
        inverse1[c] = F(1) / (p[3, c] + slope_information - p[1, c] * p[1, c] * inverse0[c])
    for c in range(U(lo), U(hi)):
        t[c] = p[4, c] - p[1, c] * inverse0[c] * p[2, c]
    for c in range(U(lo), U(hi)):
        b0[c] = (p[6, c] + height_information * expected[0, c]) * inverse0[c]
    for c in range(U(lo), U(hi)):
        y1[c] = (p[7, c] + slope_information * expected[1, c] - p[1, c] * b0[c]) * inverse1[c]
    for c in range(U(lo), U(hi)):
        y2[c] = p[8, c] + slope_information * expected[2, c] - p[2, c] * b0[c] - t[c] * y1[c]
    for c in range(U(lo), U(hi)):
        mean[2, c] = y2[c] / (p[5, c] + slope_information - p[2, c] * p[2, c] * inverse0[c] - t[c] * t[c] * inverse1[c])
    for c in range(U(lo), U(hi)):
        mean[1, c] = y1[c] - inverse1[c] * t[c] * mean[2, c]
    for c in range(U(lo), U(hi)):
        mean[0, c] = b0[c] - inverse0[c] * (p[1, c] * mean[1, c] + p[2, c] * mean[2, c])


@inner(fastmath=True)
def _weigh(x, y, z, first, last, plane, up, down, weight):
    """c_j of the points of one node; `up` and `down` are -log2(e) / (2 sigma^2)."""
    h, sx, sy = plane
    for k in range(first, last):
        dz = z[k] - (h + sx * x[k] + sy * y[k])
        weight[k] = exp2_negative(dz * dz * (up if dz >= F(0) else down))


@inner(fastmath=True)
def _count_below(x, y, z, first, last, plane, depth):
    """Points of one node so far below its plane. A sum: the least of them would not vectorise."""
    h, sx, sy = plane
    found = F(0)
    for k in range(first, last):
        found += F(1) if z[k] - (h + sx * x[k] + sy * y[k]) < depth else F(0)
    return found


@inner(fastmath=True)
def _pull_down(x, y, z, first, last, plane, pull, reach, weight):
    """Points far below keep a little weight: a surface that starts above a drop is drawn down to it."""
    h, sx, sy = plane
    for k in range(first, last):
        dz = z[k] - (h + sx * x[k] + sy * y[k])
        kept = pull / (F(1) + dz * dz * reach)
        weight[k] = max(weight[k], kept if dz < F(0) else F(0))


@inner(fastmath=True)
def _gather(x, y, z, first, last, weight, alpha, data, c):
    """Data term of one node: alpha SUM c_j H^T H and alpha SUM c_j z_j H^T."""
    w = wx = wy = wxx = wxy = wyy = wz = wzx = wzy = F(0)
    for k in range(first, last):
        weight_x, weight_y = weight[k] * x[k], weight[k] * y[k]
        w += weight[k]
        wx += weight_x
        wy += weight_y
        wxx += weight_x * x[k]
        wxy += weight_x * y[k]
        wyy += weight_y * y[k]
        wz += weight[k] * z[k]
        wzx += weight_x * z[k]
        wzy += weight_y * z[k]
    data[0, c], data[1, c], data[2, c] = alpha * w, alpha * wx, alpha * wy
    data[3, c], data[4, c], data[5, c] = alpha * wxx, alpha * wxy, alpha * wyy
    data[6, c], data[7, c], data[8, c] = alpha * wz, alpha * wzx, alpha * wzy


@inner(fastmath=True)
def _e_step(points, mean, data, step, rules, row, columns):
    """Ground probability c_j of every point of a row of nodes, summed at once into the data term of the M-step."""
    x, y, z, weight, nodes = points.x, points.y, points.z, points.weight, points.listed.nodes
    limit = rules.slope_limit
    for i in range(U(points.listed.row[row]), U(points.listed.row[row + 1])):
        cell = U(nodes[i])
        if points.length[cell] == 0:
            continue
        c = cell - U(row * columns) + ONE
        # Bounds, not slices: a slice costs as much as the sums of eight points.
        first = U(points.reserved[cell])
        last = first + U(points.length[cell])
        plane = mean[0, c], min(max(mean[1, c], -limit), limit), min(max(mean[2, c], -limit), limit)
        _weigh(x, y, z, first, last, plane, step.up, step.down, weight)
        if rules.pull > F(0) and _count_below(x, y, z, first, last, plane, step.deep) > F(0):
            _pull_down(x, y, z, first, last, plane, rules.pull, step.down / HALF_LOG2_E, weight)
        _gather(x, y, z, first, last, weight, rules.alpha, data, c)


@inner()
def _clear_from(p, first, last):
    for k in range(9):
        for c in range(U(first), U(max(first, last))):
            p[k, c] = F(0)


@inner()
def _copy(planes, out, lo, hi):
    for k in range(planes.shape[0]):
        for c in range(U(lo), U(hi)):
            out[k, c] = planes[k, c]


@inner(fastmath=True)
def _begin_rows(first_row, last_row, step, points, arrays, spans, work, shape, rules):
    """The first surface on a range of rows, and its E-step; data terms are empty before."""
    for row in range(first_row, last_row):
        r, l, h = row + 1, spans.lo[row], spans.hi[row]
        if h <= l:
            continue
        expected, mean = arrays.expected[r], arrays.mean[r]
        if rules.from_prior:
            _solve(arrays.prior[r], expected, rules.height_information, rules.slope_information, mean, work, l, h)
        else:
            _copy(expected, mean, l, h)
        _clear_from(arrays.data[r], l, h)
        _e_step(points, mean, arrays.data[r], step, rules, row, shape.columns)


@inner(fastmath=True)
def _iterate_rows(first_row, last_row, step, points, arrays, spans, q, work, shape, rules):
    """One iteration on a range of rows: M-step and solve of the last E-step's data, then the next E-step."""
    first = step.number == 1
    p_old, p_new = arrays.information[step.old], arrays.information[1 - step.old]
    if first:
        p_old = arrays.prior
    # q holds the sums along x of three rows in turn; row r + 1 is the only new one for row r.
    spacing, columns, eight = shape.spacing, shape.columns, rules.neighbours == 8
    alone = first and not rules.from_prior  # neighbours know nothing yet
    if eight and not alone:
        for r in range(first_row, first_row + 2):
            _sum_along_x(p_old[r], q[r % 3], spacing, spans.wide_lo[r], spans.wide_hi[r])
    for row in range(first_row, last_row):
        r = row + 1
        if eight and not alone:
            _sum_along_x(p_old[r + 1], q[(r + 1) % 3], spacing, spans.wide_lo[r + 1], spans.wide_hi[r + 1])
        l, h = spans.lo[row], spans.hi[row]
        if h <= l:
            continue
        p, data = p_new[r], arrays.data[r]
        if alone:
            _copy(data, p, l, h)
        elif eight:
            _m_step(data, p_old[r], q[r % 3], q[(r - 1) % 3], q[(r + 1) % 3], step.share, spacing, p, l, h)
        else:
            _sum_along_x(p_old[r], q[r % 3], spacing, l, h)
            _m_step(data, p_old[r], q[r % 3], p_old[r - 1], p_old[r + 1], step.share, spacing, p, l, h)
        if rules.gamma > F(0):
            _add_prior(arrays.prior[r], rules.gamma, p, l, h)
        _clear_from(p, columns + 1, h)  # spans end at a multiple of the vector length: there is no node
        _solve(p, arrays.expected[r], rules.height_information, rules.slope_information, arrays.mean[r], work, l, h)
        if step.number < rules.iterations:
            _e_step(points, arrays.mean[r], data, step, rules, row, columns)


@njit(nogil=True, cache=True, allocates=False, fastmath=True)
def expectation_maximization(crew, row_chunks, points, arrays, spans, row_sums, work, shape, rules):
    """Run the EM; an iteration is a phase, and the last one's buffer of `information` holds the result.

    Outside of `spans` both buffers must be zero.
    Jacobi: an iteration reads the old buffer only, so neither the order of rows nor the number of threads matters.
    """
    share = rules.beta / F(rules.neighbours)
    down = HALF_LOG2_E / (rules.sigma_down * rules.sigma_down)
    deep = -rules.sigma_down * np.sqrt(F(-2) * np.log(rules.pull)) if rules.pull > F(0) else F(0)
    parts = row_chunks.shape[0] - 1
    for iteration in range(rules.iterations + 1):
        old = (iteration + 1) % 2 if iteration > 0 else 0
        sigma = rules.sigma_up_early if 2 * iteration < rules.iterations else rules.sigma_up
        step = _Iteration(iteration, old, share, HALF_LOG2_E / (sigma * sigma), down, deep)
        i = take_part(crew, iteration)
        while i < parts:
            first, last, q = row_chunks[i], row_chunks[i + 1], row_sums[i]
            if iteration == 0:
                _begin_rows(first, last, step, points, arrays, spans, work[i], shape, rules)
            else:
                _iterate_rows(first, last, step, points, arrays, spans, q, work[i], shape, rules)
            i = take_next(crew, iteration)
        wait_for_all(crew, iteration, parts)


def run_em(field: Field, points: ShapingPoints, rules: EmRules) -> None:
    """The EM on one lattice; `field.posterior` and `field.mean` hold the result."""
    given = field.row_chunks, points, EmArrays.of(field), field.spans, field.row_sums, field.work, field.shape, rules
    together(expectation_maximization, rules.iterations + 1, *given)
    field.result = rules.iterations % 2
