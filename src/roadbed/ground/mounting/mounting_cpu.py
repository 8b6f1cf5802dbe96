# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The plane of the nearest ground, by consensus of the lowest returns and reweighted least squares."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import FAST, HALF_LOG2_E, ONE, F, U, exp2_negative, max, min, normal_equations, solve3
from roadbed.kernels.simd import LANES, lane_indices, load_points, mask_bits, minimum, splat, store, to_int32, where
from roadbed.kernels.simd_reductions import compress, count_true, gather

_OUTLIER_GAP = F(0.3)  # m: a return this far under the second lowest of its cell is noise
_NEAREST = F(1)  # m, closer returns are of the ego vehicle
_INLIER = 0.2  # m
_VECTORS = 32  # of returns whose candidates are collected before the cells are updated
_BAND, _BINS = F(0.3), 64  # m of heights, and how many halves of it are counted from the lowest return of a cell on
_BAND_SHARE, _BAND_FEWEST = 0.25, 3  # of the returns in the fullest band, and returns, that make a band the ground's
_STRAY_CELLS = 0.1  # share of the cells whose lowest return lies below that band, from which a scan has strays
_SAMPLE_STEP, _MANY = 4, 16_384  # every so many returns are looked at first, in a scan with more low returns than that
_BELOW_PENALTY = 0.5  # per return below a plane; returns above it cost nothing


class _Cells(NamedTuple):
    """The lowest and second lowest return of each cell: which it is, -1 where there is none, and its height."""

    lowest: np.ndarray
    second: np.ndarray
    lowest_z: np.ndarray
    second_z: np.ndarray


class _Candidates(NamedTuple):
    """Returns that are lower than the second lowest return of their cells so far."""

    index: np.ndarray
    cell: np.ndarray
    z: np.ndarray


class _LowReturns(NamedTuple):
    """The returns that are near and low."""

    cell: np.ndarray
    z: np.ndarray


@inlined()
def _collect_candidates(points, k, index, rules, second_z, candidates, n, low_returns, low):
    """Append the candidates and the low returns among LANES points from `k` on, whose numbers begin at `index`; returns
    the number of near points among them, of all low returns, and of all candidates."""
    x, y, z = load_points(points, k)
    radius, scale, highest, side = rules
    squared, last = x * x + y * y, splat(F(side - 1))
    is_near = (squared < radius * radius) & (squared >= _NEAREST * _NEAREST) & (z > -highest * F(100))
    is_low = is_near & (z <= highest)
    if not mask_bits(is_low):
        return count_true(is_near), low, n
    row, column = to_int32(minimum((y + radius) * scale, last)), to_int32(minimum((x + radius) * scale, last))
    cell = where(is_low, row * side + column, splat(np.int32(0)))  # other lanes are not used
    store(low_returns.cell, low, compress(is_low, cell))
    store(low_returns.z, low, compress(is_low, z))
    is_lower = is_low & (z < gather(second_z, cell, 0))
    store(candidates.cell, n, compress(is_lower, cell))
    store(candidates.z, n, compress(is_lower, z))
    store(candidates.index, n, compress(is_lower, to_int32(lane_indices()) + splat(np.int32(index))))
    return count_true(is_near), low + U(count_true(is_low)), n + U(count_true(is_lower))


@inlined()
def _keep_lowest(candidates, n, cells):
    """Update the two lowest returns of each cell from the candidates."""
    lowest, second, lowest_z, second_z = cells
    for k in range(n):
        z, cell = candidates.z[k], U(candidates.cell[k])
        if z < lowest_z[cell]:
            second_z[cell], second[cell] = lowest_z[cell], lowest[cell]
            lowest_z[cell], lowest[cell] = z, candidates.index[k]
        elif z < second_z[cell]:
            second_z[cell], second[cell] = z, candidates.index[k]


@merged()
def _find_lowest(points, last, stride, rules, cells, candidates, low_returns):
    """The two lowest returns of each cell, from every `stride`-th vector of points and the `last` one, which is padded
    with missing returns; returns the number of near points, and of low ones among them, which are listed."""
    whole_vectors = points.shape[0] // LANES
    second_z, end = cells.second_z, whole_vectors * LANES
    near, low, n = _collect_candidates(last, 0, end, rules, second_z, candidates, U(0), low_returns, U(0))
    _keep_lowest(candidates, n, cells)
    block = _VECTORS * stride
    # From the end on: most scans end with their lowest beams, and what follows them is rarely lower.
    for begin in range(whole_vectors // block * block, -1, -block):
        n = U(0)
        for v in range(begin, min(begin + block, whole_vectors), stride):
            k = v * LANES
            more, low, n = _collect_candidates(points, k, k, rules, second_z, candidates, n, low_returns, low)
            near += more
        _keep_lowest(candidates, n, cells)
    return near, low


@inner()
def _cell_of(points, i, rules):
    """The cell of return i; -1: it is too far, too near or too high."""
    radius, scale, highest, side = rules
    x, y, z = points[i, 0], points[i, 1], points[i, 2]
    squared = x * x + y * y
    if not (squared < radius * radius and squared >= _NEAREST * _NEAREST and highest >= z > -highest * F(100)):
        return np.int64(-1)
    column, row = np.int64((x + radius) * scale), np.int64((y + radius) * scale)
    return np.int64(min(row, side - 1) * side + min(column, side - 1))


@inner()
def _ground_bands(low_returns, low, step, lowest_z, floor):
    """`floor` of each cell: height of the lowest band with enough of every `step`-th of its returns; its lowest where
    there is none."""
    counts = np.empty((lowest_z.shape[0], _BINS + 1), np.int32)
    counts[:] = 0
    for k in range(U(0), low, U(step)):
        cell = U(low_returns.cell[k])
        counts[cell, U(min(np.int64((low_returns.z[k] - lowest_z[cell]) * (F(2) / _BAND)), _BINS))] += 1
    for cell in range(U(lowest_z.shape[0])):
        floor[cell], most = lowest_z[cell], np.int32(0)
        if floor[cell] == F(np.inf):  # none
            continue
        for k in range(U(_BINS - 1)):
            most = max(most, counts[cell, k] + counts[cell, k + ONE])
        for k in range(U(_BINS - 1)):
            band = counts[cell, k] + counts[cell, k + ONE]
            if counts[cell, k] > 0 and band >= max(_BAND_FEWEST, _BAND_SHARE * most):
                floor[cell] = lowest_z[cell] + F(k) * (_BAND * F(0.5))
                break


@inner()
def _lift_strays(points, stride, rules, cells, low_returns, low, chosen):
    """In a scan with many strays below the ground, the lowest return of each cell's ground instead of the lowest."""
    floor = np.empty(chosen.shape[0], np.float32)
    # Bands of a sample are less full, so more cells have returns below them: a scan without strays ends there.
    for step in (_SAMPLE_STEP if low > _MANY else 1, 1):
        _ground_bands(low_returns, low, step, cells.lowest_z, floor)
        known = below = 0
        for here in range(chosen.shape[0]):
            known += chosen[here] >= 0
            below += chosen[here] >= 0 and points[chosen[here], 2] < floor[here]
        if below <= _STRAY_CELLS * known:
            return
    for here in range(chosen.shape[0]):
        if chosen[here] >= 0 and points[chosen[here], 2] < floor[here]:
            chosen[here] = -1
    for v in range(0, points.shape[0] // LANES * LANES, stride * LANES):
        for i in range(v, v + LANES):
            cell = _cell_of(points, i, rules)
            if cell < 0 or cells.second[cell] < 0 or points[i, 2] < floor[cell]:
                continue
            if chosen[cell] < 0 or points[i, 2] < points[chosen[cell], 2]:
                chosen[cell] = i


@njit(cache=True)
def lowest_returns(points, stride, cell, radius, highest, out):
    """The lowest return of each cell with at least two, or of the cell's ground in a scan with many strays below it, as
    rows x, y, z of `out`, which has room for all of a square of cells; returns how many, and the share of the returns
    within `radius` that are not higher than `highest`; of every `stride`-th vector of returns.
    """
    side, room = np.int32(math.sqrt(out.shape[1])), (_VECTORS + 1) * LANES
    no_index, no_height = np.empty((3, side * side), np.int32), np.empty((2, side * side), np.float32)
    no_index[:], no_height[:] = -1, F(np.inf)
    cells = _Cells(no_index[0], no_index[1], no_height[0], no_height[1])
    candidates = _Candidates(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.float32))
    last, whole_vectors = np.empty((LANES, 3), np.float32), points.shape[0] // LANES * LANES
    last[:] = 0
    for i in range(whole_vectors, points.shape[0]):
        for axis in range(3):
            last[i - whole_vectors, axis] = points[i, axis]
    most, rules = points.shape[0] // stride + (_VECTORS + 1) * LANES, (radius, F(1) / cell, highest, side)
    low_returns = _LowReturns(np.empty(most, np.int32), np.empty(most, np.float32))
    near, low = _find_lowest(points, last, stride, rules, cells, candidates, low_returns)
    chosen = no_index[2]
    for here in range(side * side):
        a, b = cells.lowest[here], cells.second[here]
        if b >= 0:
            chosen[here] = a if points[b, 2] - points[a, 2] < _OUTLIER_GAP else b
    _lift_strays(points, stride, rules, cells, low_returns, low, chosen)
    n = 0
    for i in chosen:
        if i >= 0:
            out[0, n], out[1, n], out[2, n] = points[i, 0], points[i, 1], points[i, 2]
            n += 1
    return n, low / max(near, 1)


@inner()
def _random(state, n):
    """Next state of a linear congruential generator and an index below n: the same on every machine."""
    state = np.uint32(state * np.uint32(1664525) + np.uint32(1013904223))
    return state, np.int64(state >> np.uint32(8)) % n


@inner(fastmath=FAST)
def _consensus(x, y, z, weight, height, slope_x, slope_y):
    """Weighted score of a plane; without a branch, so that the loop vectorises: it runs once per trial."""
    score = 0.0
    for m in range(U(x.shape[0])):
        d = z[m] + height - slope_x * x[m] - slope_y * y[m]
        share = d * (1 / _INLIER)
        beyond = -_BELOW_PENALTY if d < 0 else 0.0
        score += weight[m] * (1 - share * share if abs(d) < _INLIER else beyond)
    return score


@inner(fastmath=FAST)
def _refined(x, y, z, weight, height, slope_x, slope_y, near):
    """One reweighted least-squares step; `near` is scratch: the weights of what lies near the plane."""
    up, down = HALF_LOG2_E / F(0.10**2), HALF_LOG2_E / F(0.15**2)
    for m in range(U(x.shape[0])):
        d = F(z[m] + height - slope_x * x[m] - slope_y * y[m])
        near[m] = weight[m] * exp2_negative(d * d * (up if d > F(0) else down))
    level, slope_x, slope_y = solve3(*normal_equations(x, y, z, near, 0.5))
    return -level, slope_x, slope_y


@njit(cache=True)
def fit_plane(x, y, z, weight, lowest_height, highest_height, steepest, trials):
    """z = slope_x x + slope_y y - height; returns height, slopes and quality = score / total weight (0: none found)."""
    n = x.shape[0]
    best, best_height, best_x, best_y = 0.0, 0.0, 0.0, 0.0
    state = np.uint32(12345)
    for _ in range(trials):
        state, i = _random(state, n)
        state, j = _random(state, n)
        state, k = _random(state, n)
        x1, y1, z1 = x[j] - x[i], y[j] - y[i], z[j] - z[i]
        x2, y2, z2 = x[k] - x[i], y[k] - y[i], z[k] - z[i]
        area = x1 * y2 - x2 * y1
        if abs(area) < 4.0:
            continue
        slope_x = (z1 * y2 - z2 * y1) / area
        slope_y = (x1 * z2 - x2 * z1) / area
        height = slope_x * x[i] + slope_y * y[i] - z[i]
        if slope_x**2 + slope_y**2 > steepest**2 or height < lowest_height or height > highest_height:
            continue
        score = _consensus(x, y, z, weight, height, slope_x, slope_y)
        if score > best:
            best, best_height, best_x, best_y = score, height, slope_x, slope_y
    if best <= 0:
        return 0.0, 0.0, 0.0, 0.0
    near = np.empty(n)
    for _ in range(6):
        best_height, best_x, best_y = _refined(x, y, z, weight, best_height, best_x, best_y, near)
    total = 0.0
    for m in range(n):
        total += weight[m]
    return best_height, best_x, best_y, best / total
