# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The surface as lattice layers, with its uncertainty. Row by row and without branches, so that the loops vectorise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.compute.cpu import FAST, ONE, F, U, inner, njit
from roadbed.ground.stcrf.model import (
    FILLED_VARIANCE,
    GAP_UNEVENNESS,
    NODE_UNEVENNESS,
    POINT_NOISE,
    POINT_UNEVENNESS,
    SEEN_FROM,
    SIDES,
    SLOPE_VARIANCE,
)  # fmt: skip


@inner()
def _mark_seen(data, prior, use_prior, columns, seen):
    """1 where a node was seen, now or before; `seen` has one empty node around the lattice."""
    weight = F(1) if use_prior else F(0)
    for row in range(data.shape[0] - 2):
        own, before, out = data[row + 1, 0], prior[row + 1, 0], seen[row + 1]
        for c in range(U(columns)):
            out[c + ONE] = F(1) if own[c + ONE] + weight * before[c + ONE] > SEEN_FROM else F(0)


@inner(fastmath=FAST)
def _sum_along_x(seen, first, last, out):
    """How many of the three nodes of a row around each were seen."""
    for c in range(first, last):
        out[c] = seen[c] + seen[c + ONE] + seen[c + U(2)]


@inner(fastmath=FAST)
def _sum_along_y(sums, row, first, last, out):
    """The same of the rows around, from their sums along x."""
    before, own, after = sums[row], sums[row + 1], sums[row + 2]
    for c in range(first, last):
        out[c] = before[c] + own[c] + after[c]


@inner(fastmath=FAST)
def _height_variances(p, height_information, slope_information, scale, first, last, out):
    """scale [(P + P0)^-1]_00 by the L D L^T of the solve."""
    for c in range(first, last):
        p00 = p[0, c + ONE] + height_information
        l1, l2 = p[1, c + ONE] / p00, p[2, c + ONE] / p00
        d1 = p[3, c + ONE] + slope_information - l1 * p[1, c + ONE]
        t = p[4, c + ONE] - l1 * p[2, c + ONE]
        l3 = t / d1
        d2 = p[5, c + ONE] + slope_information - l2 * p[2, c + ONE] - l3 * t
        lever = l1 * l3 - l2
        out[c] = scale * (F(1) / p00 + l1 * l1 / d1 + lever * lever / d2)


@inner(fastmath=FAST)
def _add_squares(mean, own, line, i, j, spacing, first, last, out):
    """out += squared difference between each height and the plane of its neighbour (i, j), where that was seen."""
    left, down = F(-i) * spacing, F(-j) * spacing
    at = U(1 + i)
    for c in range(first, last):
        apart = mean[0, c + at] + left * mean[1, c + at] + down * mean[2, c + at] - own[c + ONE]
        out[c + ONE] += line[c + at] * apart * apart


class SurfaceRules(NamedTuple):
    """StcrfConfig as plain numbers; see there."""

    seen_only: bool
    height_information: np.float32
    slope_information: np.float32
    scale: np.float32  # m^2 of one effective point
    disagreement: np.float32  # doubt per squared difference from the neighbours' planes
    spacing: np.float32  # m
    largest_variance: np.float32  # m^2, beyond it the surface is unknown
    base: np.float32  # m, added to heights


@inner(fastmath=FAST)
def _judge_row(near, seen, beside, bump, rules, first, last, out):
    """How far a node is in doubt, m^2: of what was seen, or lies between seen nodes. `bump`: squares become means."""
    unknown = rules.scale / rules.height_information
    most, share = rules.largest_variance, rules.disagreement
    for c in range(first, last):
        own = seen[c + ONE]
        bump[c + ONE] /= max(beside[c] - own, F(1))
        filled = near[c] + FILLED_VARIANCE if beside[c] >= F(SIDES) else unknown
        hollow = (filled <= most) & (share > F(0)) & (bump[c + ONE] > GAP_UNEVENNESS)
        value = near[c] if own > F(0) else (unknown if hollow else filled)
        out[c] = value + (share * bump[c + ONE] if value <= most else F(0))


class Evidence(NamedTuple):
    """What tells the variance of nodes once it is clear which are known; one empty node around the lattice."""

    seen: np.ndarray  # 1 where a node was seen
    beside: np.ndarray  # (rows + 2, columns) how many of three nodes along x were
    bump: np.ndarray  # m^2, mean squared difference from the planes of the seen nodes beside


@njit(cache=True, fastmath=FAST)
def describe_surface(information, arrays, use_prior, spans, rules, reported, elevation, slope, doubt):
    """Elevation and slope as `reported` (planes), NaN where the doubt, scale [(P + P0)^-1]_00 and more, exceeds what counts as known.

    Information that came from neighbours alone says little about a node: it is known only between seen neighbours.
    Points tell how well a plane is known, its neighbours how well the ground is one: what they disagree by is added.
    """
    mean = arrays.mean
    rows, columns = elevation.shape
    seen, bump = np.zeros((rows + 2, columns + 2), np.float32), np.zeros((rows + 2, columns + 2), np.float32)
    evidence = Evidence(seen, np.zeros((rows + 2, columns), np.float32), bump)
    work = np.empty((2, columns), np.float32)
    near, beside = work[0], work[1]
    if rules.seen_only:
        _mark_seen(arrays.data, arrays.prior, use_prior, columns, seen)
        for r in range(1, rows + 1):
            _sum_along_x(seen[r], U(0), U(columns), evidence.beside[r])
    for row in range(rows):
        out = doubt[row]
        out[:] = rules.scale / rules.height_information
        first, last = U(max(spans.lo[row] - 1, 0)), U(max(min(spans.hi[row] - 1, columns), 0))
        if first < last:
            weak = rules.height_information, rules.slope_information
            if not rules.seen_only:
                _height_variances(information[row + 1], *weak, rules.scale, first, last, out)
            else:
                _height_variances(information[row + 1], *weak, rules.scale, first, last, near)
                _sum_along_y(evidence.beside, row, first, last, beside)
                for j in range(-1, 2):
                    line = seen[row + 1 + j]
                    for i in range(-1, 2):  # its own plane agrees with it
                        _add_squares(
                            mean[row + 1 + j], mean[row + 1, 0], line, i, j, rules.spacing, first, last, bump[row + 1]
                        )
                _judge_row(near, seen[row + 1], beside, bump[row + 1], rules, first, last, out)
        _write_row(reported[row + 1], rules, out, elevation[row], slope[row])
    return evidence


@njit(cache=True, fastmath=FAST)
def tell_variance(evidence, certainty, rules, variance):
    """The doubt of known nodes becomes their variance, m^2: points fix the ground as well as it is even around them.

    What the planes around disagree by is a point's variance, in place of a fixed one; what a node itself disagrees by
    stays, whatever its points. So does what rests on a slope that no point tells, as beside a single ring of points.
    """
    rows, columns = variance.shape
    seen, bump, most = evidence.seen, evidence.bump, rules.largest_variance
    sums, work = np.zeros((rows + 2, columns), np.float32), np.empty((2, columns), np.float32)
    around, beside = work[0], work[1]
    for r in range(1, rows + 1):
        for c in range(U(columns)):
            left, right = seen[r, c] * bump[r, c], seen[r, c + U(2)] * bump[r, c + U(2)]
            sums[r, c] = left + seen[r, c + ONE] * bump[r, c + ONE] + right
    for row in range(rows):
        out, own, known = variance[row], bump[row + 1], certainty[row + 1]
        _sum_along_y(sums, row, U(0), U(columns), around)
        _sum_along_y(evidence.beside, row, U(0), U(columns), beside)
        for c in range(U(columns)):
            point = POINT_NOISE + POINT_UNEVENNESS * around[c] / max(beside[c], F(1))
            told = known[0, c + ONE] * point + NODE_UNEVENNESS * own[c + ONE] + SLOPE_VARIANCE * known[1, c + ONE]
            out[c] = min(told, most) if out[c] <= most else out[c]


@inner()
def _write_row(mean, rules, doubt, elevation, slope):
    nothing = F(np.nan)
    for c in range(U(doubt.shape[0])):
        elevation[c] = mean[0, c + ONE] + rules.base if doubt[c] <= rules.largest_variance else nothing
    for c in range(U(doubt.shape[0])):
        known = doubt[c] <= rules.largest_variance
        slope[c, 0] = mean[1, c + ONE] if known else nothing
        slope[c, 1] = mean[2, c + ONE] if known else nothing
