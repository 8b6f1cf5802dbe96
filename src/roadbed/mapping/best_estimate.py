# SPDX-License-Identifier: Apache-2.0
"""The best estimate so far of each node of the rolling grid: the filter's prior fades where it is not observed."""

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32, Grid
from roadbed.mapping.information import SurfaceParameters, information_of, planes_of, raise_base

_STEP_M = 0.3  # surfaces further apart are different ones
_ENOUGH = 1.0  # effective points from which a lower surface is accepted, and
_SHARE = 0.1  # as a share of the points of the higher one
_MANY = 10.0  # times as many points for a higher surface to replace a lower one


class BestEstimate:
    """Rolls with the grid; nodes that leave it are stored in the map from here.

    Of two surfaces the lower one is the ground: a distant view may show the top of bushes over a slope.
    """

    def __init__(self, grid: Grid, rules: SurfaceParameters) -> None:
        self._rules = rules
        self.information: Float32 = np.zeros((9, *grid.shape), np.float32)
        self._heights: Float32 = np.full(grid.shape, np.nan, np.float32)  # over the base, at the last update

    def update(self, prior: Float32, heights: Float32, slope: Float32) -> None:
        """Keep the nodes whose estimate is better than the best one so far.

        The prior (9, rows, columns) lacks the weak regularisation of the surface; it is added here, so that the stored
        information gives the same heights over the base (rows, columns) and slopes (rows, columns, 2).
        """
        points, before = prior[0], self.information[0]
        higher = heights - self._heights
        with np.errstate(invalid="ignore"):  # comparisons with unknown heights are false
            better = np.isnan(self._heights)
            better |= (np.abs(higher) <= _STEP_M) & (points + self._rules.height_information > before)
            better |= (higher < -_STEP_M) & (points > np.maximum(_ENOUGH, _SHARE * before))
            better |= (higher > _STEP_M) & (points > _MANY * before)
        better &= np.isfinite(heights)
        self._heights[better] = heights[better]
        precision = prior[:6, better].astype(np.float64)
        precision[0] += self._rules.height_information
        precision[3] += self._rules.slope_information
        precision[5] += self._rules.slope_information
        self.information[:, better] = information_of(precision, heights[better], *slope[better].T)

    def roll(self, columns: int, rows: int, climb: float) -> None:
        """Move the grid by whole nodes, and raise its base by `climb` metres."""
        if columns or rows:
            height, width = self._heights.shape
            information, heights = np.zeros_like(self.information), np.full_like(self._heights, np.nan)
            if abs(columns) < width and abs(rows) < height:
                to = ..., _kept(-rows, height), _kept(-columns, width)
                from_ = ..., _kept(rows, height), _kept(columns, width)
                information[to], heights[to] = self.information[from_], self._heights[from_]
            self.information, self._heights = information, heights
        if climb:
            raise_base(self.information.transpose(1, 0, 2), climb)
            self._heights -= np.float32(climb)

    def load(self, prior: Float32, entering: NDArray[np.bool_]) -> None:
        """Set the nodes that entered the grid from the map."""
        self.information[:, entering] = prior[:, entering]
        self._heights[entering] = planes_of(prior, 0.0, self._rules).elevation[entering]

    def clear(self) -> None:
        self.information[:] = 0
        self._heights[:] = np.nan


def _kept(by: int, size: int) -> slice:
    """The part of an axis that stays when the grid moves `by` nodes, before (by) or after (-by) the move."""
    return slice(max(0, by), size + min(0, by))
