# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The surface as lattice layers, with its uncertainty."""

from __future__ import annotations

import numpy as np

from roadbed.ground.numeric_cpu import FAST, F, njit


@njit(cache=True, fastmath=FAST)
def describe_surface(
    information, mean, lo, hi, height_information, slope_information, scale, largest_variance, base, elevation, slope,
    variance,
):  # fmt: skip
    """Elevation, slope and variance = scale [(P + P0)^-1]_00; NaN where the variance exceeds what counts as known."""
    nothing = F(np.nan)
    unknown_variance = scale / height_information
    for row in range(elevation.shape[0]):
        p = information[row + 1]
        for column in range(elevation.shape[1]):
            c = column + 1
            value = unknown_variance
            if lo[row] <= c < hi[row]:
                p00 = p[0, c] + height_information
                l1, l2 = p[1, c] / p00, p[2, c] / p00
                d1 = p[3, c] + slope_information - l1 * p[1, c]
                t = p[4, c] - l1 * p[2, c]
                l3 = t / d1
                d2 = p[5, c] + slope_information - l2 * p[2, c] - l3 * t
                lever = l1 * l3 - l2
                value = scale * (F(1) / p00 + l1 * l1 / d1 + lever * lever / d2)
            variance[row, column] = value
            known = value <= largest_variance
            elevation[row, column] = mean[row + 1, 0, c] + base if known else nothing
            slope[row, column, 0] = mean[row + 1, 1, c] if known else nothing
            slope[row, column, 1] = mean[row + 1, 2, c] if known else nothing
