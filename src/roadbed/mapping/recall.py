# SPDX-License-Identifier: Apache-2.0
"""The best that each node of the rolling lattice was known: a filter's prior fades where it no longer sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.geometry import Float32, Lattice
from roadbed.mapping.information import SurfaceRules, information_of, lower


class Recall:
    """Follows the lattice; what leaves it goes to the map from here."""

    def __init__(self, lattice: Lattice, rules: SurfaceRules) -> None:
        self._rules = rules
        self.information: Float32 = np.zeros((9, *lattice.shape), np.float32)

    def notice(self, prior: Float32, heights: Float32, slope: Float32) -> None:
        """Take the nodes that are known better now than ever before.

        The prior (9, rows, columns) leaves out the weak expectation that its surface also rests on: it is added here,
        so that what is kept says the same heights over the base (rows, columns) and slopes (rows, columns, 2).
        """
        known = np.isfinite(heights)
        better = known & (prior[0] + self._rules.height_information > self.information[0])
        precision = prior[:6, better].astype(np.float64)
        precision[0] += self._rules.height_information
        precision[3] += self._rules.slope_information
        precision[5] += self._rules.slope_information
        self.information[:, better] = information_of(precision, heights[better], *slope[better].T)

    def roll(self, columns: int, rows: int, climb: float) -> None:
        """The lattice moves by so many nodes, and its base rises."""
        if columns or rows:
            _, height, width = self.information.shape
            shifted = np.zeros_like(self.information)
            if abs(columns) < width and abs(rows) < height:
                to = _kept(-rows, height), _kept(-columns, width)
                from_ = _kept(rows, height), _kept(columns, width)
                shifted[(slice(None), *to)] = self.information[(slice(None), *from_)]
            self.information = shifted
        if climb:
            lower(self.information.transpose(1, 0, 2), climb)

    def take(self, prior: Float32, entering: NDArray[np.bool_]) -> None:
        """Nodes that have entered are known as the map knows them."""
        self.information[:, entering] = prior[:, entering]

    def forget(self) -> None:
        self.information[:] = 0


def _kept(by: int, size: int) -> slice:
    """The part of an axis that stays when the lattice moves by so many nodes, before (by) or after (-by) it."""
    return slice(max(0, by), size + min(0, by))
