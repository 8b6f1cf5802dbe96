# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The surface as lattice layers, with its uncertainty."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.compute.cpu import FAST, F, njit
from roadbed.ground.stcrf.model import FILLED_VARIANCE, SEEN_FROM, SIDES


@njit(cache=True)
def _is_seen(data, prior, use_prior, row, column):
    own = data[row + 1, 0, column + 1]
    return own + (prior[row + 1, 0, column + 1] if use_prior else F(0)) > SEEN_FROM


@njit(cache=True)
def _seen_beside(data, prior, use_prior, row, column, rows, columns):
    """How many of the eight neighbours were seen."""
    seen = 0
    for r in range(max(row - 1, 0), min(row + 2, rows)):
        for c in range(max(column - 1, 0), min(column + 2, columns)):
            seen += _is_seen(data, prior, use_prior, r, c)
    return seen


@njit(cache=True)
def _disagreement(data, prior, use_prior, mean, row, column, rows, columns, spacing):
    """Mean squared difference, m^2, between a node's height and the planes of the seen nodes beside it."""
    total, count = F(0), F(0)
    for r in range(max(row - 1, 0), min(row + 2, rows)):
        for c in range(max(column - 1, 0), min(column + 2, columns)):
            if (r == row and c == column) or not _is_seen(data, prior, use_prior, r, c):
                continue
            along = mean[r + 1, 1, c + 1] * F(column - c) + mean[r + 1, 2, c + 1] * F(row - r)
            apart = mean[r + 1, 0, c + 1] + spacing * along - mean[row + 1, 0, column + 1]
            total += apart * apart
            count += F(1)
    return total / max(count, F(1))


@njit(cache=True, fastmath=FAST)
def _height_variance(p, c, height_information, slope_information):
    """[(P + P0)^-1]_00 by the L D L^T of the solve."""
    p00 = p[0, c] + height_information
    l1, l2 = p[1, c] / p00, p[2, c] / p00
    d1 = p[3, c] + slope_information - l1 * p[1, c]
    t = p[4, c] - l1 * p[2, c]
    l3 = t / d1
    d2 = p[5, c] + slope_information - l2 * p[2, c] - l3 * t
    lever = l1 * l3 - l2
    return F(1) / p00 + l1 * l1 / d1 + lever * lever / d2


class SurfaceRules(NamedTuple):
    """StcrfConfig as plain numbers; see there."""

    seen_only: bool
    height_information: np.float32
    slope_information: np.float32
    scale: np.float32  # m^2 of one effective point
    disagreement: np.float32  # share of the squared difference from the neighbours' planes that is uncertain
    spacing: np.float32  # m
    largest_variance: np.float32  # m^2, beyond it the surface is unknown
    base: np.float32  # m, added to heights


@njit(cache=True, fastmath=FAST)
def describe_surface(information, arrays, use_prior, spans, rules, elevation, slope, variance):
    """Elevation, slope and variance = scale [(P + P0)^-1]_00; NaN where the variance exceeds what counts as known.

    Information that came from neighbours alone says little about a node: it is known only between seen neighbours.
    Points tell how well a plane is known, its neighbours how well the ground is one: what they disagree by is added.
    """
    nothing = F(np.nan)
    data, prior, mean = arrays.data, arrays.prior, arrays.mean
    rows, columns = elevation.shape
    unknown_variance = rules.scale / rules.height_information
    for row in range(rows):
        for column in range(columns):
            c = column + 1
            value = unknown_variance
            if spans.lo[row] <= c < spans.hi[row]:
                p = information[row + 1]
                near = rules.scale * _height_variance(p, c, rules.height_information, rules.slope_information)
                if not rules.seen_only or _is_seen(data, prior, use_prior, row, column):
                    value = near
                elif _seen_beside(data, prior, use_prior, row, column, rows, columns) >= SIDES:
                    value = near + FILLED_VARIANCE
            if rules.seen_only and rules.disagreement > 0 and value <= rules.largest_variance:
                differ = _disagreement(data, prior, use_prior, mean, row, column, rows, columns, rules.spacing)
                value += rules.disagreement * differ
            variance[row, column] = value
            known = value <= rules.largest_variance
            elevation[row, column] = mean[row + 1, 0, c] + rules.base if known else nothing
            slope[row, column, 0] = mean[row + 1, 1, c] if known else nothing
            slope[row, column, 1] = mean[row + 1, 2, c] if known else nothing
