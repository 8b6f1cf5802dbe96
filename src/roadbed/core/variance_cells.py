# SPDX-License-Identifier: Apache-2.0
"""Statistics per cell of the method "variance"."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32, Grid


class OccupiedCells(NamedTuple):
    """Cells with points of the method "variance", in any order: arrays (M,)."""

    cell: NDArray[np.int32]  # row * columns + column
    points: NDArray[np.int32]  # how many
    mean: Float32  # m
    variance: Float32  # m^2
    lowest: Float32  # m
    highest: Float32  # m
    ground: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class VarianceCells:
    """Statistics per cell of the method "variance". Layers (rows, columns) are made of `occupied` when first read, and
    so is `occupied` of what an engine gave; NaN where a cell is empty."""

    grid: Grid
    unpack: Callable[[], OccupiedCells]

    @cached_property
    def occupied(self) -> OccupiedCells:
        """Cells with points."""
        return self.unpack()

    def _layer(self, values: NDArray, empty: float = np.nan) -> NDArray:
        layer = np.full(self.grid.size, empty, values.dtype)
        layer[self.occupied.cell] = values
        return layer.reshape(self.grid.shape)

    @cached_property
    def count(self) -> NDArray[np.int32]:
        """Points."""
        return self._layer(self.occupied.points, 0)

    @cached_property
    def mean(self) -> Float32:
        """Mean height, m."""
        return self._layer(self.occupied.mean)

    @cached_property
    def variance(self) -> Float32:
        """Variance of the heights, m^2."""
        return self._layer(self.occupied.variance)

    @cached_property
    def lowest(self) -> Float32:
        """Lowest point, m."""
        return self._layer(self.occupied.lowest)

    @cached_property
    def highest(self) -> Float32:
        """Highest point, m."""
        return self._layer(self.occupied.highest)

    @cached_property
    def ground(self) -> NDArray[np.bool_]:
        """Whether a cell is ground; empty ones are not."""
        return self._layer(self.occupied.ground, False)

    @cached_property
    def elevation(self) -> Float32:
        """Mean height of ground cells, m; NaN elsewhere."""
        return self._layer(np.where(self.occupied.ground, self.occupied.mean, np.float32(np.nan)))

    @property
    def slope(self) -> Float32:
        """(rows, columns, 2): not known to this method, NaN."""
        return np.broadcast_to(np.float32(np.nan), (*self.grid.shape, 2))
