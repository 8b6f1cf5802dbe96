# SPDX-License-Identifier: Apache-2.0
"""Arrays of one sensor's points, polar table and ground that the observation's CPU kernels pass on together."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32
from roadbed.occupancy.observation.model import NO_BEAM

TOUCHED = 32  # cells that are cleared together
GROUND, HIGH = 1, 2  # a return from the ground, or from above `mover_height`


class Cloud(NamedTuple):
    """The points of one sensor."""

    points: Float32  # (N, 3) in the scan's frame
    heights: Float32  # (N,) m over the ground
    chosen: NDArray[np.int64]  # which of them it saw
    rotation: NDArray[np.float64]  # (3, 3) to the grid frame
    translation: NDArray[np.float64]  # (3,)
    origin: NDArray[np.float64]  # (3,) position of the sensor in the grid frame


class Located(NamedTuple):
    """What `locate_points` computes, one value per point."""

    ray: NDArray[np.int32]  # last bin of the polar table that its beam passed, -1: none
    slope: Float32  # of its beam
    cell: NDArray[np.int32]  # -1: outside the grid
    subcell: NDArray[np.uint8]
    weight: NDArray[np.int32]  # o_j in units of 1 / WEIGHT_ONE
    kind: NDArray[np.uint8]  # GROUND or HIGH, or 0
    low: NDArray[np.int32]  # bin where it ends if it is a low obstacle, -1: it is not
    azimuth: NDArray[np.int32]  # of those bins

    @classmethod
    def empty(cls, count: int) -> Self:
        ray, cell, weight, low, azimuth = (np.empty(count, np.int32) for _ in range(5))
        slope = np.empty(count, np.float32)
        subcell, kind = (np.empty(count, np.uint8) for _ in range(2))
        return cls(ray, slope, cell, subcell, weight, kind, low, azimuth)


class Collected(NamedTuple):
    """The points of a sensor by polar bin and by cell, and which parts are filled: only these have to be cleared."""

    bins: int  # of a ray
    table: Float32  # (rays * bins or more,) lowest slope of the beams that passed, NO_BEAM: none did
    farthest: NDArray[np.int32]  # (rays,) last bin that a beam passed, -1: none did
    cover: Float32  # (rays * bins or more,) lowest slope of low obstacles, then the slope of underpasses
    covered: NDArray[np.uint8]  # (rays,) whether the ray has any; else `cover` is -NO_BEAM
    hits: NDArray[np.int32]  # (cells,) sum of the weights
    ground_seen: NDArray[np.uint8]  # (cells,)
    lowest: Float32  # (cells,) least slope of the beams whose returns mark a surface
    highest: Float32  # (cells,) greatest slope of those that are HIGH
    touched: NDArray[np.uint8]  # (cells // TOUCHED + 1,) whether any of so many cells returned a beam

    @classmethod
    def new(cls, rays: int, bins: int, cells: int) -> Self:
        """Empty."""
        table, cover = (np.full(rays * bins, slope, np.float32) for slope in (NO_BEAM, -NO_BEAM))
        hits, ground_seen = np.zeros(cells, np.int32), np.zeros(cells, np.uint8)
        lowest, highest = (np.full(cells, bound, np.float32) for bound in (np.inf, -np.inf))
        covered, touched = np.zeros(rays, np.uint8), np.zeros(cells // TOUCHED + 1, np.uint8)
        return cls(
            bins, table, np.full(rays, -1, np.int32), cover, covered, hits, ground_seen, lowest, highest, touched
        )


class GridShape(NamedTuple):
    """The grid's lower left corner (m, grid frame), its cells, and the rotation of its axes in the grid frame."""

    x: float
    y: float
    spacing: float
    columns: int
    rows: int
    cosine: float
    sine: float


class Surface(NamedTuple):
    """The ground's layers as flat arrays with NaN where unknown, and the plane to assume there."""

    x0: float
    y0: float
    spacing: float
    columns: int
    rows: int
    elevation: Float32  # (nodes,)
    slope: Float32  # (nodes, 2)
    variance: Float32  # (nodes,)
    plane: NDArray[np.float64]  # height at x = y = 0 and slopes along x and y
