# SPDX-License-Identifier: Apache-2.0
"""The filter's state as the CPU kernels pass it on. Layers have the shape (rows, columns), indexed [y][x]."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32


class Draw(NamedTuple):
    """Key of the random numbers of one step: see `runtime/philox.py`."""

    seed: int
    frame: int


class Masses(NamedTuple):
    """Per cell; the rest of 1 is unknown mass."""

    static: Float32
    dynamic: Float32
    free: Float32
    maturity: Float32  # s of static life
    known_free: Float32  # s in which the cell was seen free, decaying while it is hit

    @classmethod
    def of(cls, layers: Float32) -> Self:
        """Views of an array (5, rows, columns)."""
        return cls(*layers)


class Velocities(NamedTuple):
    """Per cell, from its particles."""

    mass: Float32  # of the particles
    mean: Float32  # (rows, columns, 2) m/s, NaN where there are none
    covariance: Float32  # (rows, columns, 3) xx, xy, yy
    moving: NDArray[np.bool_]  # by the cell's own velocity, before its neighbours are compared

    @classmethod
    def unknown(cls, shape: tuple[int, int]) -> Self:
        mean, covariance = (np.full((*shape, count), np.nan, np.float32) for count in (2, 3))
        return cls(np.zeros(shape, np.float32), mean, covariance, np.zeros(shape, np.bool_))

    @classmethod
    def empty(cls, shape: tuple[int, int]) -> Self:
        """Uninitialised, for a kernel to fill."""
        mean, covariance = (np.empty((*shape, count), np.float32) for count in (2, 3))
        return cls(np.empty(shape, np.float32), mean, covariance, np.empty(shape, np.bool_))


class Particles(NamedTuple):
    """Arrays of equal length; positions count from the grid's lower left corner."""

    x: Float32  # m
    y: Float32
    vx: Float32  # m/s along the grid's axes
    vy: Float32
    mass: Float32
    tested: Float32  # 1: free space just confirmed its motion, fading to 0
    cell: NDArray[np.int32]
    origin: NDArray[np.int32]  # the cell it came from in this step

    @classmethod
    def zeros(cls, capacity: int) -> Self:
        x, y, vx, vy, mass, tested = (np.zeros(capacity, np.float32) for _ in range(6))
        cell, origin = (np.zeros(capacity, np.int32) for _ in range(2))
        return cls(x, y, vx, vy, mass, tested, cell, origin)
