# SPDX-License-Identifier: Apache-2.0
"""Records and arrays that the kernels of objects pass on together."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32, Grid

# A group of cells that move alike in one frame: its box, the mean velocity of its cells, and which points it owns.
CLUSTER = np.dtype(
    [
        ("cells", np.int64),
        ("first", np.int64),  # of its points
        ("last", np.int64),  # behind its last point
        ("x", np.float64),  # m, middle of its box
        ("y", np.float64),
        ("heading", np.float64),  # rad, of its box; forward is where it moves
        ("length", np.float64),  # m along its heading
        ("width", np.float64),  # m across
        ("vx", np.float64),  # m/s
        ("vy", np.float64),
        ("xx", np.float64),  # covariance of its velocity
        ("xy", np.float64),
        ("yy", np.float64),
    ]
)
Clusters = NDArray[np.void]  # of CLUSTER
NO_CLUSTERS: Clusters = np.empty(0, CLUSTER)


class MovingLayers(NamedTuple):
    """Layers from which clusters are made, one cell after the other."""

    velocity: Float32  # (N, 2)
    covariance: Float32  # (N, 3) xx, xy, yy
    surface: NDArray[np.uint16]  # subcells that returned a beam, bit by bit
    observation: Float32  # p_z
    dynamic: Float32
    static: Float32

    @classmethod
    def of(cls, velocity: Float32, covariance: Float32, surface: NDArray[np.uint16], *others: Float32) -> Self:
        """From layers (rows, columns, ...), in this order."""
        flat = (layer.reshape(-1) for layer in others)
        return cls(velocity.reshape(-1, 2), covariance.reshape(-1, 3), surface.reshape(-1), *flat)


class CellGrid(NamedTuple):
    """Its size, the middle of the first cell, and the distance to the next."""

    rows: int
    columns: int
    x0: float
    y0: float
    spacing: float

    @classmethod
    def of(cls, grid: Grid) -> Self:
        return cls(grid.rows, grid.columns, grid.x0, grid.y0, grid.spacing)


class Moment(NamedTuple):
    """When a frame was taken, and from where; NaN where that is unknown."""

    time: float
    x: float
    y: float
