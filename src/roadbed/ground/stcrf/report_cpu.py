# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The surface that is reported: neighbours fill gaps, but where a node has points of its own these are asked first.

In the EM neighbours count the same everywhere, which holds obstacles down and bends every crest and ditch flat.
"""

from __future__ import annotations

from roadbed.compute.cpu import FAST, F, inner
from roadbed.ground.stcrf.model import OWN_POINTS


@inner(fastmath=FAST)
def _lean_on_own(everything, data, prior, gamma, first, last, weight, p):
    """P, X = own + w (everything - own) with w = OWN_POINTS / (OWN_POINTS + p00 of its own)."""
    for c in range(first, last):
        weight[c] = OWN_POINTS / (OWN_POINTS + data[0, c] + gamma * prior[0, c])
    for k in range(9):
        for c in range(first, last):
            own = data[k, c] + gamma * prior[k, c]
            p[k, c] = own + weight[c] * (everything[k, c] - own)


@inner(fastmath=FAST)
def _solve(p, expected, height_information, slope_information, first, last, planes, certainty):
    """mu = (P + P0)^-1 (X + P0 expected) by L D L^T, and what of its inverse tells the height's variance."""
    for c in range(first, last):
        inverse0 = F(1) / (p[0, c] + height_information)
        l1, l2 = p[1, c] * inverse0, p[2, c] * inverse0
        inverse1 = F(1) / (p[3, c] + slope_information - l1 * p[1, c])
        t = p[4, c] - l1 * p[2, c]
        l3 = t * inverse1
        inverse2 = F(1) / (p[5, c] + slope_information - l2 * p[2, c] - l3 * t)
        x0 = p[6, c] + height_information * expected[0, c]
        y1 = p[7, c] + slope_information * expected[1, c] - l1 * x0
        slope_y = (p[8, c] + slope_information * expected[2, c] - l2 * x0 - l3 * y1) * inverse2
        slope_x = inverse1 * y1 - l3 * slope_y
        planes[0, c], planes[1, c], planes[2, c] = x0 * inverse0 - l1 * slope_x - l2 * slope_y, slope_x, slope_y
        lever = l1 * l3 - l2
        certainty[0, c] = inverse0 + l1 * l1 * inverse1 + lever * lever * inverse2
        by_x, by_y = l1 * inverse1 + lever * l3 * inverse2, lever * inverse2
        certainty[1, c] = slope_information * slope_information * (by_x * by_x + by_y * by_y)


@inner(fastmath=FAST)
def report_row(everything, data, prior, expected, rules, span, room, planes, certainty):
    """Planes (3, stride) and certainty (2, stride) of one row of nodes in a span of columns, borders counted.

    Certainty is [(P + P0)^-1]_00, and m^2 by which the variance of the expected slope counts. `room` is (10, stride).
    """
    first, last = span
    p = room[1:]
    _lean_on_own(everything, data, prior, rules.gamma, first, last, room[0], p)
    _solve(p, expected, rules.height_information, rules.slope_information, first, last, planes, certainty)
