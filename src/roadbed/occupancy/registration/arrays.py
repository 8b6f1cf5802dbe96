# SPDX-License-Identifier: Apache-2.0
"""What the registration's CPU kernels pass on together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32


class ScanComponents(NamedTuple):
    """The components of one scan's hits: component k owns cells[start[k]:start[k + 1]].

    Cells of the background have the number after the last one: they are no component, but are labelled as hits.
    """

    bitmap: NDArray[np.int64]  # (rows, columns), see `model.py`
    label: NDArray[np.int32]  # component per cell, -1: not hit
    start: NDArray[np.int32]
    cells: NDArray[np.int32]


class GridTransform(NamedTuple):
    """From the present grid to an earlier one, in subcells: p_old = [[xx, xy], [yx, yy]] p_now + (x, y)."""

    xx: float
    xy: float
    yx: float
    yy: float
    x: float
    y: float


class PriorMaturity(NamedTuple):
    """The maturity of the last iteration."""

    maturity: Float32  # (rows, columns) s of static life
    transform: GridTransform  # from the present grid to its own


class Registered(NamedTuple):
    """Motion of components: cell -> component -> velocity, and how many cells it has; the background has neither."""

    label: NDArray[np.int32]  # component per cell, -1: not hit
    velocity: Float32  # (components, 2) m/s, NaN where none was found
    cells: NDArray[np.int32]  # (components,)
