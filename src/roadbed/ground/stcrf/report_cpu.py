# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The surface that is reported: neighbours fill gaps, but where a node has points of its own these are asked first.

In the EM neighbours count the same everywhere, which holds obstacles down and bends every crest and ditch flat.
"""

from __future__ import annotations

from roadbed.compute.cpu import F, inner
from roadbed.compute.kernels import inlined
from roadbed.compute.lanes import STEP, load, store
from roadbed.ground.stcrf.model import OWN_POINTS


@inlined()
def _lean_on_own(everything, data, prior, gamma, k, c, weight):
    """Plane k of P, X = own + w (everything - own)."""
    own = load(data, (k, c)) + load(prior, (k, c)) * gamma
    return own + (load(everything, (k, c)) - own) * weight


@inner()
def report_row(given, expected, rules, first, last, planes, certainty):
    """Planes (3, stride) and certainty (2, stride) of one row of nodes from column `first` on, borders counted.

    `given` is information, data and prior; w = OWN_POINTS / (OWN_POINTS + p00 of its own). mu = (P + P0)^-1 (X + P0
    expected) by L D L^T. Certainty is [(P + P0)^-1]_00, and m^2 by which the variance of the expected slope counts.
    """
    everything, data, prior = given
    gamma, height, slope = rules.gamma, rules.height_information, rules.slope_information
    for c in range(first, last, STEP):
        weight = OWN_POINTS / (load(data, (0, c)) + load(prior, (0, c)) * gamma + OWN_POINTS)
        p1 = _lean_on_own(everything, data, prior, gamma, 1, c, weight)
        p2 = _lean_on_own(everything, data, prior, gamma, 2, c, weight)
        inverse0 = F(1) / (_lean_on_own(everything, data, prior, gamma, 0, c, weight) + height)
        l1, l2 = p1 * inverse0, p2 * inverse0
        inverse1 = F(1) / (_lean_on_own(everything, data, prior, gamma, 3, c, weight) + slope - l1 * p1)
        t = _lean_on_own(everything, data, prior, gamma, 4, c, weight) - l1 * p2
        l3 = t * inverse1
        inverse2 = F(1) / (_lean_on_own(everything, data, prior, gamma, 5, c, weight) + slope - l2 * p2 - l3 * t)
        x0 = _lean_on_own(everything, data, prior, gamma, 6, c, weight) + load(expected, (0, c)) * height
        x1 = _lean_on_own(everything, data, prior, gamma, 7, c, weight) + load(expected, (1, c)) * slope
        x2 = _lean_on_own(everything, data, prior, gamma, 8, c, weight) + load(expected, (2, c)) * slope
        y1 = x1 - l1 * x0
        slope_y = (x2 - l2 * x0 - l3 * y1) * inverse2
        slope_x = inverse1 * y1 - l3 * slope_y
        store(planes, (0, c), x0 * inverse0 - l1 * slope_x - l2 * slope_y)
        store(planes, (1, c), slope_x)
        store(planes, (2, c), slope_y)
        lever = l1 * l3 - l2
        store(certainty, (0, c), inverse0 + l1 * l1 * inverse1 + lever * lever * inverse2)
        by_x, by_y = l1 * inverse1 + lever * l3 * inverse2, lever * inverse2
        store(certainty, (1, c), (by_x * by_x + by_y * by_y) * (slope * slope))
