# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The surface as lattice layers, with its uncertainty. Row by row, in lanes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
from roadbed.ground.stcrf.surface.report_cpu import report_row
from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import ONE, F, U
from roadbed.kernels.simd import LANES, STEP, load, mask_bits, maximum, splat, store, where
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk


@merged()
def _mark_seen(r, data, prior, use_prior, lo, hi, seen):
    """1 where a node of row r was seen, now or before; nodes around its span were not."""
    weight = F(1) if use_prior else F(0)
    for c in range(U(seen.shape[1])):
        seen[r, c] = F(0)
    for c in range(U(lo), U(hi), STEP):
        enough = splat(SEEN_FROM) < load(data, (r, U(0), c)) + load(prior, (r, U(0), c)) * weight
        store(seen, (r, c), where(enough, splat(F(1)), splat(F(0))))


@merged()
def _sum_along_x(r, seen, out):
    """How many of the three nodes of row r around each were seen."""
    for c in range(ONE, U(seen.shape[1] - LANES), STEP):
        store(out, (r, c), load(seen, (r, c - ONE)) + load(seen, (r, c)) + load(seen, (r, c + ONE)))


@inlined()
def _three_rows(lines, r, c):
    """Sum of a row and of those beside it."""
    return load(lines, (r - ONE, c)) + load(lines, (r, c)) + load(lines, (r + ONE, c))


@inlined()
def _height_variance(p, height_information, slope_information, r, c):
    """[(P + P0)^-1]_00 of nodes of row r by the L D L^T of the solve."""
    p1, p2 = load(p, (r, 1, c)), load(p, (r, 2, c))
    inverse0 = F(1) / (load(p, (r, 0, c)) + height_information)
    l1, l2 = p1 * inverse0, p2 * inverse0
    inverse1 = F(1) / (load(p, (r, 3, c)) + slope_information - l1 * p1)
    t = load(p, (r, 4, c)) - l1 * p2
    l3 = t * inverse1
    lever = l1 * l3 - l2
    d2 = load(p, (r, 5, c)) + slope_information - l2 * p2 - l3 * t
    return inverse0 + l1 * l1 * inverse1 + lever * lever / d2


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


class Evidence(NamedTuple):
    """What is reported of nodes once it is clear which are known; one empty node around the lattice."""

    planes: np.ndarray  # (rows + 2, 3, stride) h, sx, sy
    certainty: (
        np.ndarray
    )  # (rows + 2, 2, stride) [(P + P0)^-1]_00, and m^2 by which the expected slope's variance counts
    seen: np.ndarray  # (rows + 2, stride) 1 where a node was seen
    beside: np.ndarray  # how many of three nodes along x were
    bump: np.ndarray  # m^2, mean squared difference from the planes of the seen nodes beside

    @classmethod
    def none(cls, rows: int, stride: int) -> Evidence:
        """Of nothing; what lies outside of a frame's active columns may be left from an earlier one."""
        seen, beside, bump = np.zeros((3, rows + 2, stride), np.float32)
        planes, certainty = (np.zeros((rows + 2, n, stride), np.float32) for n in (3, 2))
        return cls(planes, certainty, seen, beside, bump)


@inner()
def _judge_row(r, information, mean, rules, seen, beside, first, last, bumps, out):
    """How far a node is in doubt, m^2: of what was seen, or lies between seen nodes."""
    spacing = rules.spacing
    unknown, most, share = rules.scale / rules.height_information, rules.largest_variance, rules.disagreement
    uneven = GAP_UNEVENNESS if share > F(0) else F(np.inf)
    for c in range(first, last, STEP):
        near = _height_variance(information, rules.height_information, rules.slope_information, r, c) * rules.scale
        own, around, height = load(seen, (r, c)), _three_rows(beside, r, c), load(mean, (r, 0, c))
        squares = splat(F(0))
        for j in range(3):
            row, down = r + U(j) - ONE, F(1 - j) * spacing
            for i in range(3):
                at, left = c + U(i) - ONE, F(1 - i) * spacing
                plane = load(mean, (row, 0, at)) + load(mean, (row, 1, at)) * left + load(mean, (row, 2, at)) * down
                apart = plane - height
                squares = squares + load(seen, (row, at)) * apart * apart  # its own plane agrees with it
        bump = squares / maximum(around - own, splat(F(1)))
        store(bumps, (r, c), bump)
        filled = where(around >= F(SIDES), near + FILLED_VARIANCE, splat(unknown))
        hollow = (most >= filled) & (uneven < bump)
        value = where(F(0) < own, near, where(hollow, splat(unknown), filled))
        store(out, c, where(most >= value, value + bump * share, value))


@inlined()
def _may_be_known(seen, beside, r, c):
    """Whether any of the nodes c and on was seen, or lies between seen ones: no other is known."""
    return mask_bits(maximum(load(seen, (r, c)) * F(SIDES), _three_rows(beside, r, c)) >= F(SIDES)) != 0


@inner()
def _judge_rows(first_row, last_row, information, arrays, active_columns, rules, evidence, layers):
    """Elevation, slope and doubt of some rows, once it is known everywhere which nodes were seen.

    Vectors of nodes that cannot be known are passed over.
    """
    weak, unknown = (rules.height_information, rules.slope_information), rules.scale / rules.height_information
    given, expected, mean = (information, arrays.data, arrays.prior), arrays.expected, arrays.mean
    seen, beside, bump, certainty = evidence.seen, evidence.beside, evidence.bump, evidence.certainty
    planes, all_known = evidence.planes if rules.seen_only else mean, rules.largest_variance >= unknown
    doubt = np.empty(planes.shape[2], np.float32)
    for row in range(first_row, last_row):
        r = U(row + 1)
        first, last = U(active_columns.lo[row]), U(max(active_columns.lo[row], active_columns.hi[row]))
        for c in range(U(doubt.shape[0])):
            doubt[c] = unknown
        for c in range(first, first if rules.seen_only else last, STEP):
            store(doubt, c, _height_variance(information, *weak, r, c) * rules.scale)
        while rules.seen_only and first < last:
            end = first
            while end < last and (all_known or _may_be_known(seen, beside, r, end)):
                end += STEP
            _judge_row(r, information, mean, rules, seen, beside, first, end, bump, doubt)
            report_row(r, given, expected, rules, first, end, planes, certainty)
            first = end + STEP
        _write_row(r, planes, rules, doubt, layers[0], layers[1], layers[2])


SURFACE_PHASES = 2


@njit(nogil=True, cache=True)
def describe_surface(tasks, chunks, information, arrays, use_prior, active_columns, rules, evidence, layers):
    """Elevation and slope, NaN where the doubt, scale [(P + P0)^-1]_00 and more, exceeds what counts as known.

    Information that came from neighbours alone says little about a node: it is known only between seen neighbours.
    Points tell how well a plane is known, its neighbours how well the ground is one: what they disagree by is added.
    `chunks` are ranges of rows, `layers` elevation, slope and doubt.
    """
    parts, seen, beside = chunks.shape[0] - 1, evidence.seen, evidence.beside
    data, prior = arrays.data, arrays.prior
    for phase in range(SURFACE_PHASES):
        part = first_chunk(tasks, phase)
        while part < parts:
            first, last = chunks[part], chunks[part + 1]
            if phase == 1:
                _judge_rows(first, last, information, arrays, active_columns, rules, evidence, layers)
            elif rules.seen_only:
                for r in range(first + 1, last + 1):
                    span = active_columns.lo[r - 1], max(active_columns.lo[r - 1], active_columns.hi[r - 1])
                    _mark_seen(U(r), data, prior, use_prior, span[0], span[1], seen)
                    _sum_along_x(U(r), seen, beside)
            part = next_chunk(tasks, phase)
        barrier(tasks, phase, parts)


@njit(cache=True)
def compute_variance(active_columns, evidence, rules, variance):
    """The doubt of known nodes becomes their variance, m^2: points fix the ground as well as it is even around them.

    What the planes around disagree by is a point's variance, in place of a fixed one; what a node itself disagrees by
    stays, whatever its points. So does the part that depends on an expected slope: one ring of points cannot determine
    the slope across it.
    """
    rows, columns = variance.shape
    seen, beside, bump, most = evidence.seen, evidence.beside, evidence.bump, rules.largest_variance
    all_known = most >= rules.scale / rules.height_information
    told = np.empty(seen.shape[1], np.float32)
    for row in range(rows):
        r, known, out = U(row + 1), evidence.certainty[row + 1], variance[row]
        for c in range(U(active_columns.lo[row]), U(max(active_columns.lo[row], active_columns.hi[row])), STEP):
            if not (all_known or _may_be_known(seen, beside, r, c)):
                continue
            around = splat(F(0))
            for j in range(3):
                for i in range(3):
                    at = r + U(j) - ONE, c + U(i) - ONE
                    around = around + load(seen, at) * load(bump, at)
            point = around * POINT_UNEVENNESS / maximum(_three_rows(beside, r, c), splat(F(1))) + POINT_NOISE
            uneven = load(bump, (r, c)) * NODE_UNEVENNESS
            store(told, c, load(known, (0, c)) * point + uneven + load(known, (1, c)) * SLOPE_VARIANCE)
        for c in range(U(max(active_columns.lo[row] - 1, 0)), U(max(min(active_columns.hi[row] - 1, columns), 0))):
            out[c] = min(told[c + ONE], most) if out[c] <= most else out[c]


@merged()
def _write_row(r, planes, rules, doubt, elevation, slope, out):
    """From row r with borders to one without."""
    nothing, row = F(np.nan), r - ONE
    for c in range(U(out.shape[1])):
        out[row, c] = doubt[c + ONE]
    for c in range(U(out.shape[1])):
        known = doubt[c + ONE] <= rules.largest_variance
        elevation[row, c] = planes[r, 0, c + ONE] + rules.base if known else nothing
    for c in range(U(out.shape[1])):
        known = doubt[c + ONE] <= rules.largest_variance
        slope[row, c, 0] = planes[r, 1, c + ONE] if known else nothing
        slope[row, c, 1] = planes[r, 2, c + ONE] if known else nothing
