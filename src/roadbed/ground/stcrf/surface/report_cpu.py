# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Prior reweighting: in the reported surface neighbours count less where a node has points of its own.

In the EM neighbours count the same everywhere, which suppresses obstacles but flattens crests and ditches.
"""

from __future__ import annotations

import numpy as np

from roadbed.ground.stcrf.model import OWN_POINTS
from roadbed.kernels.jit import inlined, inner
from roadbed.kernels.numeric import F
from roadbed.kernels.simd import LANES, load_flat, store_flat


@inlined()
def _reweighted(given, gamma, i, weight):
    """own + w (everything - own) for the numbers of P, X from flat index i on."""
    everything, data, prior = given
    own = load_flat(data, i) + load_flat(prior, i) * gamma
    return own + (load_flat(everything, i) - own) * weight


@inner()
def report_row(r, given, expected, rules, first, last, planes, certainty):
    """Planes (rows, 3, stride) and certainty (rows, 2, stride) of columns first..last of row r, borders counted.

    `given`: information, data and prior; w = OWN_POINTS / (OWN_POINTS + p00 of the node's own points).
    mu = (P + P0)^-1 (X + P0 expected) by L D L^T. Certainty is [(P + P0)^-1]_00, and the factor (m^2) of the variance
    of the expected slope.
    """
    _, data, prior = given
    gamma, height, slope = rules.gamma, rules.height_information, rules.slope_information
    plane, row = data.shape[2], np.int64(r) * data.shape[2]
    for c in range(np.int64(first), np.int64(last), LANES):
        of_nine, of_three, of_two = 9 * row + c, 3 * row + c, 2 * row + c  # flat indices in arrays of 9, 3 and 2 planes
        weight = OWN_POINTS / (load_flat(data, of_nine) + load_flat(prior, of_nine) * gamma + OWN_POINTS)
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
