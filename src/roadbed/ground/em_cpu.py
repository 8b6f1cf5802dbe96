# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The EM of the spatio-temporal CRF on the CPU: E-step, fused M-step with averaged neighbours, 3x3 solve.

Information of a node: nine planes p00 p01 p02 p11 p12 p22 (P) and x0 x1 x2 (X). Arrays are (rows + 2, 9, columns + 2)
with a border of empty nodes, so that no loop asks where the lattice ends; each row's planes lie together in cache.
Every loop works on few arrays at a time: that is what lets the compiler prove they do not overlap and vectorise.
"""

from __future__ import annotations

import numpy as np

from roadbed.ground.numeric_cpu import FAST, F, exp_negative, njit, prange


@njit(cache=True, fastmath=FAST)
def _sum_along_x(p, q, spacing, lo, hi):
    """q = p + F^T p F over the left and right neighbour, for columns lo..hi of one row."""
    for k in range(9):
        for c in range(lo, hi):
            q[k, c] = p[k, c - 1] + p[k, c] + p[k, c + 1]
    square, double = spacing * spacing, F(2) * spacing
    for c in range(lo, hi):
        q[1, c] += spacing * (p[0, c + 1] - p[0, c - 1])
    for c in range(lo, hi):
        q[3, c] += square * (p[0, c + 1] + p[0, c - 1]) + double * (p[1, c + 1] - p[1, c - 1])
    for c in range(lo, hi):
        q[4, c] += spacing * (p[2, c + 1] - p[2, c - 1])
    for c in range(lo, hi):
        q[7, c] += spacing * (p[6, c + 1] - p[6, c - 1])


@njit(cache=True, fastmath=FAST)
def _sum_along_y(p, q, below, above, total, spacing, lo, hi):
    """Neighbours' information at one row: q (own row along x) without the node itself, and the rows beside it."""
    for k in range(9):
        for c in range(lo, hi):
            total[k, c] = q[k, c] - p[k, c] + below[k, c] + above[k, c]
    square, double = spacing * spacing, F(2) * spacing
    for c in range(lo, hi):
        total[2, c] += spacing * (above[0, c] - below[0, c])
    for c in range(lo, hi):
        total[4, c] += spacing * (above[1, c] - below[1, c])
    for c in range(lo, hi):
        total[5, c] += square * (above[0, c] + below[0, c]) + double * (above[2, c] - below[2, c])
    for c in range(lo, hi):
        total[8, c] += spacing * (above[6, c] - below[6, c])


@njit(cache=True, fastmath=FAST)
def _m_step(data, neighbours, share, prior, gamma, p, lo, hi):
    """P, X <- data + beta/|N| neighbours + gamma previous frame."""
    if gamma > F(0):
        for k in range(9):
            for c in range(lo, hi):
                p[k, c] = data[k, c] + share * neighbours[k, c] + gamma * prior[k, c]
    else:
        for k in range(9):
            for c in range(lo, hi):
                p[k, c] = data[k, c] + share * neighbours[k, c]


@njit(cache=True, fastmath=FAST)
def _solve(p, expected, height_information, slope_information, mean, work, lo, hi):
    """mu = (P + P0)^-1 (X + P0 expected) for one row, by an unrolled L D L^T; P0 is never accumulated."""
    inverse0, l1, l2, d1, t = work[0], work[1], work[2], work[3], work[4]
    for c in range(lo, hi):
        inverse0[c] = F(1) / (p[0, c] + height_information)
    for c in range(lo, hi):
        l1[c] = p[1, c] * inverse0[c]
    for c in range(lo, hi):
        l2[c] = p[2, c] * inverse0[c]
    for c in range(lo, hi):
        d1[c] = F(1) / (p[3, c] + slope_information - l1[c] * p[1, c])
    for c in range(lo, hi):
        t[c] = p[4, c] - l1[c] * p[2, c]
    b0, y1, y2 = work[5], work[6], work[7]
    for c in range(lo, hi):
        b0[c] = p[6, c] + height_information * expected[0, c]
    for c in range(lo, hi):
        y1[c] = p[7, c] + slope_information * expected[1, c] - l1[c] * b0[c]
    for c in range(lo, hi):
        l3 = t[c] * d1[c]
        y2[c] = p[8, c] + slope_information * expected[2, c] - l2[c] * b0[c] - l3 * y1[c]
    for c in range(lo, hi):
        l3 = t[c] * d1[c]
        mean[2, c] = y2[c] / (p[5, c] + slope_information - l2[c] * p[2, c] - l3 * t[c])
    for c in range(lo, hi):
        mean[1, c] = d1[c] * (y1[c] - t[c] * mean[2, c])
    for c in range(lo, hi):
        mean[0, c] = b0[c] * inverse0[c] - l1[c] * mean[1, c] - l2[c] * mean[2, c]


@njit(cache=True, fastmath=FAST)
def _e_step(reserved, count, x, y, z, mean, data, up, down, alpha, slope_limit, first_node, lo, hi):
    """Ground probability c_j of every point of a row of nodes, summed at once into the data term of the M-step."""
    for c in range(lo, hi):
        cell = first_node + c - 1
        if count[cell] == 0:
            for k in range(9):
                data[k, c] = F(0)
            continue
        h = mean[0, c]
        sx = min(max(mean[1, c], -slope_limit), slope_limit)
        sy = min(max(mean[2, c], -slope_limit), slope_limit)
        w = wx = wy = wxx = wxy = wyy = wz = wzx = wzy = F(0)
        for k in range(reserved[cell], reserved[cell] + count[cell]):
            px, py, pz = x[k], y[k], z[k]
            dz = pz - (h + sx * px + sy * py)
            weight = exp_negative(dz * dz * (up if dz >= F(0) else down))
            weight_x, weight_y = weight * px, weight * py
            w += weight
            wx += weight_x
            wy += weight_y
            wxx += weight_x * px
            wxy += weight_x * py
            wyy += weight_y * py
            wz += weight * pz
            wzx += weight_x * pz
            wzy += weight_y * pz
        data[0, c], data[1, c], data[2, c] = alpha * w, alpha * wx, alpha * wy
        data[3, c], data[4, c], data[5, c] = alpha * wxx, alpha * wxy, alpha * wyy
        data[6, c], data[7, c], data[8, c] = alpha * wz, alpha * wzx, alpha * wzy


@njit(cache=True, fastmath=FAST)
def _neighbours_of_row(p_old, r, eight, q, total, spacing, wide_lo, wide_hi, lo, hi):
    """`q` holds the sums along x of rows r-1, r, r+1 (mod 3); row r+1 is the only new one."""
    if eight:
        _sum_along_x(p_old[r + 1], q[(r + 1) % 3], spacing, wide_lo[r + 1], wide_hi[r + 1])
        _sum_along_y(p_old[r], q[r % 3], q[(r - 1) % 3], q[(r + 1) % 3], total, spacing, lo, hi)
    else:
        _sum_along_x(p_old[r], q[r % 3], spacing, lo, hi)
        _sum_along_y(p_old[r], q[r % 3], p_old[r - 1], p_old[r + 1], total, spacing, lo, hi)


@njit(cache=True, fastmath=FAST)
def _iterate_rows(
    first_row, last_row, iteration, iterations, reserved, count, x, y, z, p_old, p_new, prior, data, expected, mean,
    lo, hi, wide_lo, wide_hi, q, total, work, columns, spacing, alpha, share, eight, gamma, up, down,
    height_information, slope_information, slope_limit,
):  # fmt: skip
    if iteration > 0 and eight:
        for r in range(first_row, first_row + 2):
            _sum_along_x(p_old[r], q[r % 3], spacing, wide_lo[r], wide_hi[r])
    for row in range(first_row, last_row):
        r = row + 1
        l, h = lo[row], hi[row]
        if h <= l:
            if iteration > 0 and eight:
                _sum_along_x(p_old[r + 1], q[(r + 1) % 3], spacing, wide_lo[r + 1], wide_hi[r + 1])
            continue
        p = p_old[r]
        if iteration > 0:
            _neighbours_of_row(p_old, r, eight, q, total, spacing, wide_lo, wide_hi, l, h)
            p = p_new[r]
            _m_step(data[r], total, share, prior[r], gamma, p, l, h)
        _solve(p, expected[r], height_information, slope_information, mean[r], work, l, h)
        if iteration < iterations:
            _e_step(reserved, count, x, y, z, mean[r], data[r], up, down, alpha, slope_limit, row * columns, l, h)


@njit(parallel=True, cache=True, fastmath=FAST)
def expectation_maximization(
    row_chunks, reserved, count, x, y, z, information, prior, data, expected, mean, lo, hi, wide_lo, wide_hi, scratch,
    spacing, iterations, alpha, beta, neighbours, gamma, sigma_up_early, sigma_up, sigma_down, height_information,
    slope_information, slope_limit,
):  # fmt: skip
    """Run the EM from `information[0]`; returns which of the two buffers of `information` holds the result.

    Jacobi: an iteration reads the old buffer only, so neither the order of rows nor the number of threads matters.
    """
    rows = lo.shape[0]
    columns = np.int64((reserved.shape[0] - 1) // rows)
    share = beta / F(neighbours)
    down = F(-0.5) / (sigma_down * sigma_down)
    for iteration in range(iterations + 1):
        old = (iteration + 1) % 2 if iteration > 0 else 0
        sigma = sigma_up_early if 2 * iteration < iterations else sigma_up
        up = F(-0.5) / (sigma * sigma)
        for i in prange(row_chunks.shape[0] - 1):
            buffers = scratch[i, :27].reshape(3, 9, columns + 2)
            _iterate_rows(
                row_chunks[i], row_chunks[i + 1], iteration, iterations, reserved, count, x, y, z, information[old],
                information[1 - old], prior, data, expected, mean, lo, hi, wide_lo, wide_hi, buffers,
                scratch[i, 27:36], scratch[i, 36:44], columns, spacing, alpha, share, neighbours == 8, gamma, up,
                down, height_information, slope_information, slope_limit,
            )  # fmt: skip
    return iterations % 2
