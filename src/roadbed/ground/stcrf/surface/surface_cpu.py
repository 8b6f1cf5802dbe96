# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The surface as lattice layers, with its uncertainty, row by row in SIMD vectors. Twin: surface.cl."""

from typing import NamedTuple, Self

import numpy as np

from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.points.active_columns_cpu import is_seen_from_above
from roadbed.kernels.jit import inlined, merged, njit
from roadbed.kernels.numeric import ONE, F, U, max, min
from roadbed.kernels.scratch import uncounted
from roadbed.kernels.simd import LANES, STEP, load, load_flat, mask_bits, maximum, splat, store, store_flat, where
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk


@merged()
def _mark_seen(r, arrays, seen_by, spacing, lo, hi, seen):
    """Set 1 where a node of row r was seen, now from above or before, and 0 outside of columns lo..hi."""
    data, prior = arrays.data, arrays.prior
    weight = F(1) if seen_by[0] else F(0)
    for c in range(U(seen.shape[1])):
        seen[r, c] = F(0)
    for c in range(U(lo), U(hi), STEP):
        own = load(data, (r, U(0), c))
        enough = splat(model.SEEN_FROM) < own + load(prior, (r, U(0), c)) * weight
        above = is_seen_from_above(arrays.mean[r], r - ONE, c, seen_by[1], seen_by[2], spacing)
        store(seen, (r, c), where(enough & ((own <= model.STAYS_FROM) | above), splat(F(1)), splat(F(0))))


@merged()
def _sum_along_x(r, seen, out):
    """The number of seen nodes among the three nodes of row r around each node."""
    for c in range(ONE, U(seen.shape[1] - LANES), STEP):
        store(out, (r, c), load(seen, (r, c - ONE)) + load(seen, (r, c)) + load(seen, (r, c + ONE)))


@inlined()
def _three_rows(lines, r, c):
    """Sum of a row and of the rows below and above."""
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
    """StcrfConfig, for kernels."""

    seen_only: bool
    height_information: np.float32
    slope_information: np.float32
    scale: np.float32  # m^2 of one effective point
    disagreement: np.float32  # doubt per squared difference from the planes of neighbours
    gamma: np.float32  # weight of the last frame's information, zero if it was not used
    spacing: np.float32  # m
    largest_variance: np.float32  # m^2, beyond it the surface is unknown
    base: np.float32  # m, added to heights


class Evidence(NamedTuple):
    """Arrays for the reported surface, with a border of one empty node."""

    planes: np.ndarray  # (rows + 2, 3, stride) h, sx, sy
    certainty: np.ndarray  # (rows + 2, 2, stride) [(P + P0)^-1]_00, and m^2 per variance of the expected slope
    seen: np.ndarray  # (rows + 2, stride) 1 where a node was seen
    seen_in_row: np.ndarray  # number of seen nodes among three along x
    unevenness: np.ndarray  # m^2, mean squared difference from the planes of seen neighbours

    @classmethod
    def none(cls, rows: int, stride: int) -> Self:
        """Empty arrays. Outside of the active columns they may hold values of an earlier frame."""
        seen, seen_in_row, unevenness = np.zeros((3, rows + 2, stride), np.float32)
        planes, certainty = (np.zeros((rows + 2, n, stride), np.float32) for n in (3, 2))
        return cls(planes, certainty, seen, seen_in_row, unevenness)


@merged()
def _doubt_row(r, information, mean, rules, seen, seen_in_row, first, last, unevenness, out):
    """Write the doubt of nodes, m^2: of those that were seen or are between seen ones; of others it is `unknown`."""
    spacing = rules.spacing
    unknown, most, share = rules.scale / rules.height_information, rules.largest_variance, rules.disagreement
    uneven = model.GAP_UNEVENNESS if share > F(0) else F(np.inf)
    for c in range(first, last, STEP):
        near = _height_variance(information, rules.height_information, rules.slope_information, r, c) * rules.scale
        own, around, height = load(seen, (r, c)), _three_rows(seen_in_row, r, c), load(mean, (r, 0, c))
        squares = splat(F(0))
        for j in range(3):
            row, down = r + U(j) - ONE, F(1 - j) * spacing
            for i in range(3):
                at, left = c + U(i) - ONE, F(1 - i) * spacing
                plane = load(mean, (row, 0, at)) + load(mean, (row, 1, at)) * left + load(mean, (row, 2, at)) * down
                apart = plane - height
                squares = squares + load(seen, (row, at)) * apart * apart  # its own plane agrees with it
        squared = squares / maximum(around - own, splat(F(1)))
        store(unevenness, (r, c), squared)
        filled = where(around >= F(model.SIDES), near + model.FILLED_VARIANCE, splat(unknown))
        hollow = (most >= filled) & (uneven < squared)
        value = where(F(0) < own, near, where(hollow, splat(unknown), filled))
        store(out, c, where(most >= value, value + squared * share, value))


@inlined()
def _reweighted(given, gamma, i, weight):
    """own + w (everything - own) for the numbers of P, X from flat index i on."""
    everything, data, prior = given
    own = load_flat(data, i) + load_flat(prior, i) * gamma
    return own + (load_flat(everything, i) - own) * weight


@merged()
def _report_row(r, given, expected, rules, first, last, planes, certainty):
    """Prior reweighting: planes (rows, 3, stride) and certainty (rows, 2, stride) of columns first..last of row r.

    In the reported surface neighbours count less where a node has points of its own: in the EM they count the same
    everywhere, which suppresses obstacles but flattens crests and ditches. Columns and rows count the border.
    `given`: information, data and prior; w = OWN_POINTS / (OWN_POINTS + p00 of the node's own points).
    mu = (P + P0)^-1 (X + P0 expected) by L D L^T. Certainty is [(P + P0)^-1]_00, and the factor (m^2) of the variance
    of the expected slope.
    """
    _, data, prior = given
    gamma, height, slope = rules.gamma, rules.height_information, rules.slope_information
    plane, row = data.shape[2], np.int64(r) * data.shape[2]
    for c in range(np.int64(first), np.int64(last), LANES):
        of_nine, of_three, of_two = 9 * row + c, 3 * row + c, 2 * row + c  # flat indices in arrays of 9, 3 and 2 planes
        weight = model.OWN_POINTS / (load_flat(data, of_nine) + load_flat(prior, of_nine) * gamma + model.OWN_POINTS)
        p1 = _reweighted(given, gamma, of_nine + plane, weight)
        p2 = _reweighted(given, gamma, of_nine + 2 * plane, weight)
        inverse0 = F(1) / (_reweighted(given, gamma, of_nine, weight) + height)
        l1, l2 = p1 * inverse0, p2 * inverse0
        inverse1 = F(1) / (_reweighted(given, gamma, of_nine + 3 * plane, weight) + slope - l1 * p1)
        t = _reweighted(given, gamma, of_nine + 4 * plane, weight) - l1 * p2
        l3 = t * inverse1
        inverse2 = F(1) / (_reweighted(given, gamma, of_nine + 5 * plane, weight) + slope - l2 * p2 - l3 * t)
        x0 = _reweighted(given, gamma, of_nine + 6 * plane, weight) + load_flat(expected, of_three) * height
        x1 = _reweighted(given, gamma, of_nine + 7 * plane, weight) + load_flat(expected, of_three + plane) * slope
        x2 = _reweighted(given, gamma, of_nine + 8 * plane, weight) + load_flat(expected, of_three + 2 * plane) * slope
        y1 = x1 - l1 * x0
        slope_y = (x2 - l2 * x0 - l3 * y1) * inverse2
        slope_x = inverse1 * y1 - l3 * slope_y
        store_flat(planes, of_three, x0 * inverse0 - l1 * slope_x - l2 * slope_y)
        store_flat(planes, of_three + plane, slope_x)
        store_flat(planes, of_three + 2 * plane, slope_y)
        lever = l1 * l3 - l2
        store_flat(certainty, of_two, inverse0 + l1 * l1 * inverse1 + lever * lever * inverse2)
        by_x, by_y = l1 * inverse1 + lever * l3 * inverse2, lever * inverse2
        store_flat(certainty, of_two + plane, (by_x * by_x + by_y * by_y) * (slope * slope))


@inlined()
def _may_be_known(seen, seen_in_row, r, c):
    """Whether any node of the vector at c was seen or is between seen ones: others are unknown."""
    sides = maximum(load(seen, (r, c)) * F(model.SIDES), _three_rows(seen_in_row, r, c))
    return mask_bits(sides >= F(model.SIDES)) != 0


@merged()
def _describe_rows(first_row, last_row, information, arrays, active_columns, rules, evidence, layers):
    """Write elevation, slope and doubt of a range of rows; vectors of nodes that cannot be known are skipped."""
    weak, unknown = (rules.height_information, rules.slope_information), rules.scale / rules.height_information
    given, expected, mean = (information, arrays.data, arrays.prior), arrays.expected, arrays.mean
    seen, seen_in_row = evidence.seen, evidence.seen_in_row
    unevenness, certainty = evidence.unevenness, evidence.certainty
    planes, all_known = evidence.planes if rules.seen_only else mean, rules.largest_variance >= unknown
    doubt, columns = np.empty(planes.shape[2], np.float32), layers[0].shape[1]
    for row in range(first_row, last_row):
        r = U(row + 1)
        first, last = U(active_columns.lo[row]), U(max(active_columns.lo[row], active_columns.hi[row]))
        for c in range(U(doubt.shape[0])):
            doubt[c] = unknown
        for c in range(first, first if rules.seen_only else last, STEP):
            store(doubt, c, _height_variance(information, *weak, r, c) * rules.scale)
        known = (ONE, U(columns + 1)) if all_known else (first, min(last, U(columns + 1)))
        while rules.seen_only and first < last:
            end = first
            while end < last and (all_known or _may_be_known(seen, seen_in_row, r, end)):
                end += STEP
            _doubt_row(r, information, mean, rules, seen, seen_in_row, first, end, unevenness, doubt)
            _report_row(r, given, expected, rules, first, end, planes, certainty)
            first = end + STEP
        _write_row(r, planes, rules, doubt, known, layers[0], layers[1], layers[2])


SURFACE_PHASES = 2


@njit(nogil=True, cache=True)
def describe_surface(tasks, chunks, information, arrays, seen_by, active_columns, rules, evidence, layers):
    """Write `layers`: elevation, slope and doubt (m^2); elevation and slope are NaN where the doubt is too large.

    The doubt is the variance scale [(P + P0)^-1]_00 of the height, plus a share of the unevenness. A node that was not
    seen is known only between seen neighbours, because information from neighbours alone says little about it, and so
    is a ceiling. `seen_by`: whether the prior was used, the position of the highest sensor and the height of the
    road, m.
    """
    information, arrays, evidence, layers = uncounted((information, arrays, evidence, layers))
    parts, seen, seen_in_row = chunks.shape[0] - 1, evidence.seen, evidence.seen_in_row
    for phase in range(SURFACE_PHASES):
        part = first_chunk(tasks, phase)
        while part < parts:
            first, last = chunks[part], chunks[part + 1]
            if phase == 1:
                _describe_rows(first, last, information, arrays, active_columns, rules, evidence, layers)
            elif rules.seen_only:
                for r in range(first + 1, last + 1):
                    span = active_columns.lo[r - 1], max(active_columns.lo[r - 1], active_columns.hi[r - 1])
                    _mark_seen(U(r), arrays, seen_by, rules.spacing, span[0], span[1], seen)
                    _sum_along_x(U(r), seen, seen_in_row)
            part = next_chunk(tasks, phase)
        barrier(tasks, phase, parts)


@njit(cache=True, nogil=True)
def compute_variance(active_columns, evidence, rules, variance):
    """Replace the doubt of known nodes by their variance, m^2.

    The unevenness around is the variance of a point, instead of a fixed one. The node's own unevenness is added however
    many points it has, more of it where it has none, and so is the part of the expected slope: one ring of points
    cannot determine the slope across it.
    """
    rows, columns = variance.shape
    seen, seen_in_row = evidence.seen, evidence.seen_in_row
    unevenness, most = evidence.unevenness, rules.largest_variance
    all_known = most >= rules.scale / rules.height_information
    values = np.empty(seen.shape[1], np.float32)
    for row in range(rows):
        r, known, out = U(row + 1), evidence.certainty[row + 1], variance[row]
        for c in range(U(active_columns.lo[row]), U(max(active_columns.lo[row], active_columns.hi[row])), STEP):
            if not (all_known or _may_be_known(seen, seen_in_row, r, c)):
                continue
            around = splat(F(0))
            for j in range(3):
                for i in range(3):
                    at = r + U(j) - ONE, c + U(i) - ONE
                    around = around + load(seen, at) * load(unevenness, at)
            count = maximum(_three_rows(seen_in_row, r, c), splat(F(1)))
            point = around * model.POINT_UNEVENNESS / count + model.POINT_NOISE
            own = F(0) < load(seen, (r, c))
            share = where(own, splat(model.NODE_UNEVENNESS), splat(model.FILLED_UNEVENNESS))
            uneven = load(unevenness, (r, c)) * share
            store(values, c, load(known, (0, c)) * point + uneven + load(known, (1, c)) * model.SLOPE_VARIANCE)
        for c in range(U(max(active_columns.lo[row] - 1, 0)), U(max(min(active_columns.hi[row] - 1, columns), 0))):
            out[c] = min(values[c + ONE], most) if out[c] <= most else out[c]


@merged()
def _write_row(r, planes, rules, doubt, columns, elevation, slope, out):
    """Copy row r to the output layers; nodes outside of `columns`, counted with the border, are unknown."""
    nothing, row = F(np.nan), r - ONE
    for c in range(U(out.shape[1])):
        out[row, c], elevation[row, c] = doubt[c + ONE], nothing
    for c in range(U(out.shape[1])):
        slope[row, c, 0] = slope[row, c, 1] = nothing
    for c in range(columns[0], columns[1]):
        known = doubt[c] <= rules.largest_variance
        elevation[row, c - ONE] = planes[r, 0, c] + rules.base if known else nothing
    for c in range(columns[0], columns[1]):
        known = doubt[c] <= rules.largest_variance
        slope[row, c - ONE, 0] = planes[r, 1, c] if known else nothing
        slope[row, c - ONE, 1] = planes[r, 2, c] if known else nothing
