# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Islands of the surface: few nodes apart from all others are a crown or a sign, not the ground."""

from __future__ import annotations

import numpy as np

from roadbed.compute.components_cpu import label_components
from roadbed.compute.cpu import F, njit
from roadbed.ground.stcrf.model import CLEAN_VARIANCE, ISLAND_SHARE


@njit(cache=True)
def drop_islands(fewest, largest_variance, unknown_variance, elevation, slope, variance):
    """Unknown becomes what has no clean node beside it whose component is large: `fewest` nodes, or a share of all.

    Leaves of a crown lie at many heights, so its nodes disagree and few of them are clean.
    """
    rows, columns = variance.shape
    clean = np.empty(variance.shape, np.bool_)
    label = np.empty(variance.shape, np.int32)
    known = 0
    for row in range(rows):
        for column in range(columns):
            clean[row, column] = variance[row, column] <= CLEAN_VARIANCE
            known += variance[row, column] <= largest_variance
    size = np.zeros(label_components(clean, label), np.int32)
    for row in range(rows):
        for column in range(columns):
            if label[row, column] >= 0:
                size[label[row, column]] += 1
    least = min(F(fewest), ISLAND_SHARE * F(known))
    for row in range(rows):
        for column in range(columns):
            if variance[row, column] > largest_variance:
                continue
            mainland = False
            for r in range(max(row - 1, 0), min(row + 2, rows)):
                for c in range(max(column - 1, 0), min(column + 2, columns)):
                    mainland = mainland or (label[r, c] >= 0 and F(size[label[r, c]]) >= least)
            if not mainland:
                variance[row, column] = unknown_variance
                elevation[row, column] = slope[row, column, 0] = slope[row, column, 1] = F(np.nan)
