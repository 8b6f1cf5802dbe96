# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The EM of the spatio-temporal CRF on the CPU: E-step, fused M-step with averaged neighbours, 3x3 solve.

The information of a node is nine numbers: p00 p01 p02 p11 p12 p22 (P) and x0 x1 x2 (X). Arrays are
(rows + 2, 9, stride), with a border of empty nodes, so that loops need no tests at the border; the nine planes of a row
share cache lines. Active columns and the points of a node are padded to whole vectors (`kernels.simd`). Twin: em.cl.
"""

from typing import NamedTuple, Self

import numpy as np

from roadbed.config.ground import StcrfConfig
from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.arrays import Field, ShapingPoints
from roadbed.ground.stcrf.motion.motion_cpu import clear_columns
from roadbed.ground.stcrf.points.active_columns_cpu import clear_vectors
from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import HALF_LOG2_E, ONE, F, U, max, min
from roadbed.kernels.parallel import parallel_region
from roadbed.kernels.scratch import uncounted
from roadbed.kernels.simd import LANES, STEP, exp2_lanes, load, load_flat, maximum, splat, store, store_flat, where
from roadbed.kernels.simd_reductions import store_column, sum_each, sum_lanes
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk


class EmRules(NamedTuple):
    """StcrfConfig of one lattice, for kernels."""

    iterations: int
    from_prior: bool  # the first surface is the prior's, else the expected one
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
    steep_neighbours: np.float32 = F(1)  # weight of the neighbours of a node that is expected to be steep


def em_rules(stcrf: StcrfConfig, **of_lattice) -> EmRules:
    """The rules of one lattice: the common ones, and its own (`of_lattice`)."""
    return EmRules(
        alpha=F(stcrf.alpha),
        beta=F(stcrf.beta),
        neighbours=stcrf.neighbours,
        sigma_down=F(stcrf.sigma_down),
        slope_limit=F(stcrf.slope_limit),
        **of_lattice,
    )


class EmArrays(NamedTuple):
    """Buffers of a lattice; see `arrays.Field`."""

    information: np.ndarray
    prior: np.ndarray
    data: np.ndarray
    expected: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, field: Field) -> Self:
        return cls(field.information, field.prior, field.data, field.expected, field.mean)


class _Iteration(NamedTuple):
    """Values of one iteration."""

    number: int
    old: int  # index of the information buffer that is read
    share: np.float32  # weight of each neighbour, beta / |N|
    up: np.float32  # factor of dz^2 above and below the surface
    down: np.float32
    reach: np.float32  # 1/m^2: how fast the pull fades with the depth


@inner()
def _sum_along_x(p, q, spacing, lo, hi):
    """q = p + sum of F^T p F over the left and right neighbour, for columns lo..hi of one row."""
    square, double = spacing * spacing, F(2) * spacing
    for c in range(U(lo), U(hi), STEP):
        left0, right0 = load(p, (0, c - ONE)), load(p, (0, c + ONE))
        left1, right1 = load(p, (1, c - ONE)), load(p, (1, c + ONE))
        left2, right2 = load(p, (2, c - ONE)), load(p, (2, c + ONE))
        left6, right6 = load(p, (6, c - ONE)), load(p, (6, c + ONE))
        store(q, (0, c), left0 + load(p, (0, c)) + right0)
        store(q, (1, c), left1 + load(p, (1, c)) + right1 + (right0 - left0) * spacing)
        store(q, (2, c), left2 + load(p, (2, c)) + right2)
        outer = (right0 + left0) * square + (right1 - left1) * double
        store(q, (3, c), load(p, (3, c - ONE)) + load(p, (3, c)) + load(p, (3, c + ONE)) + outer)
        sheared = (right2 - left2) * spacing
        store(q, (4, c), load(p, (4, c - ONE)) + load(p, (4, c)) + load(p, (4, c + ONE)) + sheared)
        store(q, (5, c), load(p, (5, c - ONE)) + load(p, (5, c)) + load(p, (5, c + ONE)))
        store(q, (6, c), left6 + load(p, (6, c)) + right6)
        sheared = (right6 - left6) * spacing
        store(q, (7, c), load(p, (7, c - ONE)) + load(p, (7, c)) + load(p, (7, c + ONE)) + sheared)
        store(q, (8, c), load(p, (8, c - ONE)) + load(p, (8, c)) + load(p, (8, c + ONE)))


@merged()
def _around(rows, i):
    """Sum over the neighbours of the nodes from flat index i on: own row without the node, rows below and above."""
    p, q, below, above = rows
    return load_flat(q, i) - load_flat(p, i) + load_flat(below, i) + load_flat(above, i)


@inlined()
def _add_neighbours(data, rows, more, share, out, i):
    """One plane of the M-step; `more` is what the neighbours contribute from other planes."""
    store_flat(out, i, load_flat(data, i) + (_around(rows, i) + more) * share)


@inner()
def _m_step(data, rows, share, spacing, out, lo, hi):
    """P, X <- data + beta/|N| neighbours. `rows`: the old information of a row, its sums along x (node included), and
    the sums of the rows below and above."""
    below, above = rows[2], rows[3]
    square, double, nothing, plane = spacing * spacing, F(2) * spacing, splat(F(0)), out.shape[1]
    for c in range(np.int64(lo), np.int64(hi), LANES):
        low0, high0 = load_flat(below, c), load_flat(above, c)
        _add_neighbours(data, rows, nothing, share, out, c)
        i = c + plane
        sheared1 = (load_flat(above, i) - load_flat(below, i)) * spacing
        _add_neighbours(data, rows, nothing, share, out, i)
        i += plane
        outer = (high0 + low0) * square + (load_flat(above, i) - load_flat(below, i)) * double
        _add_neighbours(data, rows, (high0 - low0) * spacing, share, out, i)
        i += plane
        _add_neighbours(data, rows, nothing, share, out, i)
        i += plane
        _add_neighbours(data, rows, sheared1, share, out, i)
        i += plane
        _add_neighbours(data, rows, outer, share, out, i)
        i += plane
        low6, high6 = load_flat(below, i), load_flat(above, i)
        _add_neighbours(data, rows, nothing, share, out, i)
        i += plane
        _add_neighbours(data, rows, nothing, share, out, i)
        i += plane
        _add_neighbours(data, rows, (high6 - low6) * spacing, share, out, i)


@merged()
def _lean_on_own(data, expected, weight, out, lo, hi):
    """P, X <- data + weight * neighbours where a steep node is expected and has points of its own."""
    for c in range(U(lo), U(hi), STEP):
        sx, sy = load(expected, (1, c)), load(expected, (2, c))
        is_steep = sx * sx + sy * sy > model.STEEP_SLOPE * model.STEEP_SLOPE
        leans = is_steep & (load(data, (0, c)) > model.STEEP_POINTS)
        for k in range(9):
            own, all_ = load(data, (k, c)), load(out, (k, c))
            store(out, (k, c), where(leans, own + (all_ - own) * weight, all_))


@merged()
def _add_prior(prior, gamma, out, lo, hi):
    """P, X += gamma * (P, X of the previous frame)."""
    for k in range(9):
        for c in range(U(lo), U(hi), STEP):
            store(out, (k, c), load(out, (k, c)) + load(prior, (k, c)) * gamma)


@inner()
def _solve(p, expected, height_information, slope_information, mean, lo, hi):
    """mu = (P + P0)^-1 (X + P0 expected) for one row, by an unrolled L D L^T; P0 is never accumulated."""
    for c in range(U(lo), U(hi), STEP):
        p1, p2 = load(p, (1, c)), load(p, (2, c))
        inverse0 = F(1) / (load(p, (0, c)) + height_information)
        l1, l2 = p1 * inverse0, p2 * inverse0
        inverse1 = F(1) / (load(p, (3, c)) + slope_information - p1 * l1)
        t = load(p, (4, c)) - l1 * p2
        b0 = (load(p, (6, c)) + load(expected, (0, c)) * height_information) * inverse0
        y1 = (load(p, (7, c)) + load(expected, (1, c)) * slope_information - p1 * b0) * inverse1
        y2 = load(p, (8, c)) + load(expected, (2, c)) * slope_information - p2 * b0 - t * y1
        slope_y = y2 / (load(p, (5, c)) + slope_information - p2 * l2 - t * t * inverse1)
        slope_x = y1 - inverse1 * t * slope_y
        store(mean, (0, c), b0 - l1 * slope_x - l2 * slope_y)
        store(mean, (1, c), slope_x)
        store(mean, (2, c), slope_y)


@merged()
def _gather(points, first, last, plane, step, rules, data, c):
    """Data term of one node: alpha SUM c_j H^T H and alpha SUM c_j z_j H^T, with the ground probability c_j.

    With `pull`, points far below keep a small weight, which draws a surface that starts above a drop down to it.
    """
    h, sx, sy = splat(plane[0]), splat(plane[1]), splat(plane[2])
    up, down, alpha = splat(step.up), splat(step.down), rules.alpha
    w = wx = wy = wxx = wxy = wyy = wz = wzx = wzy = splat(F(0))
    for k in range(first, last, STEP):
        x, y, z = load(points.x, k), load(points.y, k), load(points.z, k)
        dz = z - (h + sx * x + sy * y)
        above = dz >= F(0)
        weight = exp2_lanes(dz * dz * where(above, up, down))
        if rules.pull > F(0):
            kept = rules.pull / (dz * dz * step.reach + F(1))
            weight = where(above, weight, maximum(weight, kept))
        weight_x, weight_y = weight * x, weight * y
        w, wx, wy = w + weight, wx + weight_x, wy + weight_y
        wxx, wxy, wyy = wxx + weight_x * x, wxy + weight_x * y, wyy + weight_y * y
        wz, wzx, wzy = wz + weight * z, wzx + weight_x * z, wzy + weight_y * z
    store_column(data, (0, c), sum_each((w, wx, wy, wxx, wxy, wyy, wz, wzx)) * alpha)
    data[8, c] = alpha * sum_lanes(wzy)


@inner()
def _e_step(points, mean, data, step, rules, row, columns):
    """Ground probability c_j of every point of a row of nodes, summed directly into the data term of the M-step."""
    nodes, limit = points.active_nodes.nodes, rules.slope_limit
    for i in range(U(points.active_nodes.row[row]), U(points.active_nodes.row[row + 1])):
        cell = U(nodes[i])
        if points.length[cell] == 0:
            continue
        c = cell - U(row * columns) + ONE
        # Bounds instead of slices: a slice costs as much as the sums of eight points.
        first = U(points.reserved[cell])
        last = first + U(points.length[cell])
        plane = mean[0, c], min(max(mean[1, c], -limit), limit), min(max(mean[2, c], -limit), limit)
        _gather(points, first, last, plane, step, rules, data, c)


@inner()
def _copy(planes, out, lo, hi):
    for k in range(planes.shape[0]):
        for c in range(U(lo), U(hi)):
            out[k, c] = planes[k, c]


@merged()
def _begin_rows(first_row, last_row, step, points, arrays, active_columns, shape, rules):
    """The first surface on a range of rows, and its E-step; clears the data terms before."""
    for row in range(first_row, last_row):
        r, l, h = row + 1, np.int64(active_columns.lo[row]), np.int64(active_columns.hi[row])
        if h <= l:
            continue
        expected, mean = arrays.expected[r], arrays.mean[r]
        if rules.from_prior:
            _solve(arrays.prior[r], expected, rules.height_information, rules.slope_information, mean, l, h)
        else:
            _copy(expected, mean, l, h)
        clear_vectors(arrays.data[r], l, h)
        _e_step(points, mean, arrays.data[r], step, rules, row, shape.columns)


@merged()
def _iterate_rows(first_row, last_row, step, points, arrays, active_columns, q, shape, rules):
    """One iteration on a range of rows: M-step and solve of the last E-step's data, then the next E-step."""
    first = step.number == 1
    p_old, p_new = arrays.information[step.old], arrays.information[1 - step.old]
    if first:
        p_old = arrays.prior
    # q holds the sums along x of three rows in a ring buffer; row r adds the sums of row r + 1.
    wide_lo, wide_hi = active_columns.wide_lo, active_columns.wide_hi
    spacing, columns, eight = shape.spacing, shape.columns, rules.neighbours == 8
    data_only = first and not rules.from_prior  # the neighbours have no information yet
    if eight and not data_only:
        for r in range(first_row, first_row + 2):
            _sum_along_x(p_old[r], q[r % 3], spacing, np.int64(wide_lo[r]), np.int64(wide_hi[r]))
    for row in range(first_row, last_row):
        r = row + 1
        if eight and not data_only:
            _sum_along_x(p_old[r + 1], q[(r + 1) % 3], spacing, np.int64(wide_lo[r + 1]), np.int64(wide_hi[r + 1]))
        l, h = np.int64(active_columns.lo[row]), np.int64(active_columns.hi[row])
        if h <= l:
            continue
        p, data = p_new[r], arrays.data[r]
        if data_only:
            _copy(data, p, l, h)
        elif eight:
            rows = p_old[r], q[r % 3], q[(r - 1) % 3], q[(r + 1) % 3]
            _m_step(data, rows, step.share, spacing, p, l, h)
        else:
            _sum_along_x(p_old[r], q[r % 3], spacing, l, h)
            rows = p_old[r], q[r % 3], p_old[r - 1], p_old[r + 1]
            _m_step(data, rows, step.share, spacing, p, l, h)
        if rules.steep_neighbours < F(1):
            _lean_on_own(data, arrays.expected[r], rules.steep_neighbours, p, l, h)
        if rules.gamma > F(0):
            _add_prior(arrays.prior[r], rules.gamma, p, l, h)
        clear_columns(p, columns + 1, h)  # padding behind the last column
        _solve(p, arrays.expected[r], rules.height_information, rules.slope_information, arrays.mean[r], l, h)
        if step.number < rules.iterations:
            _e_step(points, arrays.mean[r], data, step, rules, row, columns)


@njit(nogil=True, cache=True)
def expectation_maximization(tasks, row_chunks, points, arrays, active_columns, row_sums, shape, rules):
    """Run the EM. Each iteration is a phase; the information buffer of the last one holds the result.

    Outside of the active columns both buffers must be zero. Jacobi: an iteration reads the old buffer only, so that the
    result depends neither on the order of rows nor on the number of threads.
    """
    points, arrays, active_columns, row_sums = uncounted((points, arrays, active_columns, row_sums))
    share = rules.beta / F(rules.neighbours)
    down = HALF_LOG2_E / (rules.sigma_down * rules.sigma_down)
    reach = F(1) / (rules.sigma_down * rules.sigma_down)
    chunks = row_chunks.shape[0] - 1
    for iteration in range(rules.iterations + 1):
        old = (iteration + 1) % 2 if iteration > 0 else 0
        sigma = rules.sigma_up_early if 2 * iteration < rules.iterations else rules.sigma_up
        step = _Iteration(iteration, old, share, HALF_LOG2_E / (sigma * sigma), down, reach)
        i = first_chunk(tasks, iteration)
        while i < chunks:
            first, last, q = row_chunks[i], row_chunks[i + 1], row_sums[i]
            if iteration == 0:
                _begin_rows(first, last, step, points, arrays, active_columns, shape, rules)
            else:
                _iterate_rows(first, last, step, points, arrays, active_columns, q, shape, rules)
            i = next_chunk(tasks, iteration)
        barrier(tasks, iteration, chunks)


def run_em(field: Field, points: ShapingPoints, rules: EmRules, single_thread: bool = False) -> None:
    """Run the EM on one lattice; `field.posterior` and `field.mean` hold the result."""
    given = field.row_chunks, points, EmArrays.of(field), field.active_columns, field.row_sums, field.shape, rules
    parallel_region(expectation_maximization, rules.iterations + 1, *given, single_thread=single_thread)
    field.result = rules.iterations % 2
