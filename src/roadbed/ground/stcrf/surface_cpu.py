# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The surface as lattice layers, with its uncertainty. Row by row and without branches, so that the loops vectorise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.compute.cpu import FAST, ONE, F, U, inner, njit
from roadbed.compute.crew import take_next, take_part, wait_for_all
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
from roadbed.ground.stcrf.report_cpu import report_row


@inner()
def _mark_seen(own, before, use_prior, lo, hi, seen):
    """1 where a node of a row was seen, now or before; `seen` has an empty node at both ends."""
    weight = F(1) if use_prior else F(0)
    seen[:] = F(0)
    for c in range(U(lo), U(hi)):
        seen[c] = F(1) if own[c] + weight * before[c] > SEEN_FROM else F(0)


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
    gamma: np.float32  # of the last frame's information, zero where it was not used
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
    """What is reported of nodes once it is clear which are known; one empty node around the lattice."""

    planes: np.ndarray  # (rows + 2, 3, stride) h, sx, sy
    certainty: (
        np.ndarray
    )  # (rows + 2, 2, stride) [(P + P0)^-1]_00, and m^2 by which the expected slope's variance counts
    seen: np.ndarray  # 1 where a node was seen
    beside: np.ndarray  # (rows + 2, columns) how many of three nodes along x were
    bump: np.ndarray  # m^2, mean squared difference from the planes of the seen nodes beside

    @classmethod
    def none(cls, rows: int, columns: int, stride: int) -> Evidence:
        """Of nothing; what lies outside of a frame's spans may be left from an earlier one."""
        seen, bump = np.zeros((2, rows + 2, columns + 2), np.float32)
        planes, certainty = (np.zeros((rows + 2, n, stride), np.float32) for n in (3, 2))
        return cls(planes, certainty, seen, np.zeros((rows + 2, columns), np.float32), bump)


@inner(allocates=True, fastmath=FAST)
def _judge_rows(first_row, last_row, information, arrays, spans, rules, evidence, layers):
    """Elevation, slope and doubt of some rows, once it is known everywhere which nodes were seen."""
    elevation, slope, doubt = layers
    mean, seen, bump, spacing = arrays.mean, evidence.seen, evidence.bump, rules.spacing
    columns, weak = elevation.shape[1], (rules.height_information, rules.slope_information)
    work, room = np.empty((2, columns), np.float32), np.empty((10, mean.shape[2]), np.float32)
    near, beside = work[0], work[1]
    for row in range(first_row, last_row):
        out, r = doubt[row], row + 1
        out[:] = rules.scale / rules.height_information
        first, last = U(max(spans.lo[row] - 1, 0)), U(max(min(spans.hi[row] - 1, columns), 0))
        planes = mean[r]
        if first < last and not rules.seen_only:
            _height_variances(information[r], *weak, rules.scale, first, last, out)
        elif first < last:
            _height_variances(information[r], *weak, rules.scale, first, last, near)
            _sum_along_y(evidence.beside, row, first, last, beside)
            bump[r] = F(0)
            for j in range(-1, 2):
                for i in range(-1, 2):  # its own plane agrees with it
                    _add_squares(mean[r + j], mean[r, 0], seen[r + j], i, j, spacing, first, last, bump[r])
            _judge_row(near, seen[r], beside, bump[r], rules, first, last, out)
            planes = evidence.planes[r]
            given = information[r], arrays.data[r], arrays.prior[r], arrays.expected[r]
            report_row(*given, rules, (first + ONE, last + ONE), room, planes, evidence.certainty[r])
        _write_row(planes, rules, out, elevation[row], slope[row])


SURFACE_PHASES = 2


@njit(nogil=True, cache=True, fastmath=FAST)
def describe_surface(crew, chunks, information, arrays, use_prior, spans, rules, evidence, layers):
    """Elevation and slope, NaN where the doubt, scale [(P + P0)^-1]_00 and more, exceeds what counts as known.

    Information that came from neighbours alone says little about a node: it is known only between seen neighbours.
    Points tell how well a plane is known, its neighbours how well the ground is one: what they disagree by is added.
    `chunks` are ranges of rows, `layers` elevation, slope and doubt.
    """
    parts, columns, seen = chunks.shape[0] - 1, layers[0].shape[1], evidence.seen
    for phase in range(SURFACE_PHASES):
        part = take_part(crew, phase)
        while part < parts:
            first, last = chunks[part], chunks[part + 1]
            if phase == 1:
                _judge_rows(first, last, information, arrays, spans, rules, evidence, layers)
            elif rules.seen_only:
                for r in range(first + 1, last + 1):
                    lo, hi = spans.lo[r - 1], min(spans.hi[r - 1], columns + 1)
                    _mark_seen(arrays.data[r, 0], arrays.prior[r, 0], use_prior, lo, hi, seen[r])
                    _sum_along_x(seen[r], U(0), U(columns), evidence.beside[r])
            part = take_next(crew, phase)
        wait_for_all(crew, phase, parts)


@njit(cache=True, fastmath=FAST)
def tell_variance(evidence, rules, variance):
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
        out, own, known = variance[row], bump[row + 1], evidence.certainty[row + 1]
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
