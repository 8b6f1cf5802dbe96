# SPDX-License-Identifier: Apache-2.0
"""Arrays that the CPU's kernels pass on together. Layers have the shape (rows, columns), indexed [y][x]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32
from roadbed.occupancy.model import NO_BEAM

Int32 = NDArray[np.int32]
UInt8 = NDArray[np.uint8]
TOUCHED = 32  # cells that are cleared together
CHUNK = 1024  # cells, points or particles that a thread takes at least; results do not depend on it


class Cells(NamedTuple):
    """The grid's size."""

    rows: int
    columns: int
    spacing: float  # m


class Draw(NamedTuple):
    """Whose random numbers: see `runtime/philox.py`."""

    seed: int
    frame: int


class Observation(NamedTuple):
    """What one sensor, or all of them together, say about every cell."""

    probability: Float32  # p_z that it is occupied
    observedness: Float32  # lambda, 0: not seen
    surface: NDArray[np.uint16]  # which of its 4 x 4 subcells returned a beam, bit by bit


class Reports(NamedTuple):
    """What each of several sensors says, (sensors, rows, columns): on the host, or in buffers of a device."""

    sensors: tuple[str, ...]
    probability: Any  # float32
    observedness: Any  # float32
    surface: Any  # uint16

    @classmethod
    def of(cls, observations: Mapping[str, Observation]) -> Reports:
        """Of sensors by name, copied beside each other."""
        layers = (np.stack(layer) for layer in zip(*observations.values()))
        return cls(tuple(observations), *layers)


class Masses(NamedTuple):
    """Per cell; what static, dynamic and free leave of 1 is unknown."""

    static: Float32
    dynamic: Float32
    free: Float32
    maturity: Float32  # s of static life
    known_free: Float32  # s in which it was seen free, fading while it is hit

    @classmethod
    def of(cls, layers: Float32) -> Masses:
        """Views of an array (5, rows, columns)."""
        return cls(*layers)


class Hits(NamedTuple):
    """The connected hits of one scan: component k owns cells[start[k]:start[k + 1]]."""

    picture: NDArray[np.int64]  # what others are laid over, see `model.py`
    label: Int32  # component per cell, -1: not hit
    start: Int32
    cells: Int32


class Between(NamedTuple):
    """From places of now to places of an older scan, in subcells: p_old = [[xx, xy], [yx, yy]] p_now + (x, y)."""

    xx: float
    xy: float
    yx: float
    yy: float
    x: float
    y: float


class Stood(NamedTuple):
    """What stood when the grid last lay elsewhere."""

    maturity: Float32  # (rows, columns) s of static life
    before: Between  # from places of now to those of then


class Registered(NamedTuple):
    """Motion of connected hits: cell -> component -> velocity."""

    label: Int32  # component per cell, -1: not hit
    velocity: Float32  # (components, 2) m/s, NaN where none was found


class Velocities(NamedTuple):
    """Per cell, from the particles that are old enough."""

    mass: Float32  # of those particles
    mean: Float32  # (rows, columns, 2) m/s, NaN where there are none
    covariance: Float32  # (rows, columns, 3) xx, xy, yy
    moving: NDArray[np.bool_]  # by its own velocity, before its neighbours are asked

    @classmethod
    def unknown(cls, shape: tuple[int, int]) -> Velocities:
        mean, covariance = (np.full((*shape, count), np.nan, np.float32) for count in (2, 3))
        return cls(np.zeros(shape, np.float32), mean, covariance, np.zeros(shape, np.bool_))

    @classmethod
    def empty(cls, shape: tuple[int, int]) -> Velocities:
        """To be filled by a kernel."""
        mean, covariance = (np.empty((*shape, count), np.float32) for count in (2, 3))
        return cls(np.empty(shape, np.float32), mean, covariance, np.empty(shape, np.bool_))


class Particles(NamedTuple):
    """Arrays of equal length; positions count from the grid's lower left corner."""

    x: Float32  # m
    y: Float32
    vx: Float32  # m/s along the grid's axes
    vy: Float32
    mass: Float32
    age: Int32  # resamplings survived
    tested: Float32  # 1: its motion just stood a test, fading to 0
    cell: Int32
    origin: Int32  # the cell it came from in this step

    @classmethod
    def zeros(cls, capacity: int) -> Particles:
        x, y, vx, vy, mass, tested = (np.zeros(capacity, np.float32) for _ in range(6))
        age, cell, origin = (np.zeros(capacity, np.int32) for _ in range(3))
        return cls(x, y, vx, vy, mass, age, tested, cell, origin)


class Cloud(NamedTuple):
    """The points of one sensor."""

    points: Float32  # (N, 3) in the scan's frame
    heights: Float32  # (N,) m over the ground
    chosen: NDArray[np.int64]  # which of them it saw
    rotation: NDArray[np.float64]  # (3, 3) to the grid frame
    translation: NDArray[np.float64]  # (3,)
    origin: NDArray[np.float64]  # (3,) where the sensor stands in the grid frame


class Located(NamedTuple):
    """One of each per point of a sensor."""

    ray: Int32  # bin of the polar table up to which its beam passed, -1: none
    slope: Float32  # of its beam
    cell: Int32  # -1: outside the grid
    subcell: UInt8
    weight: Int32  # o_j that it shows an obstacle, of WEIGHT_ONE
    on_ground: UInt8
    low: Int32  # bin where it ends if it is a low obstacle, -1: it is none
    azimuth: Int32  # of those bins

    @classmethod
    def empty(cls, count: int) -> Located:
        ray, cell, weight, low, azimuth = (np.empty(count, np.int32) for _ in range(5))
        slope = np.empty(count, np.float32)
        subcell, on_ground = (np.empty(count, np.uint8) for _ in range(2))
        return cls(ray, slope, cell, subcell, weight, on_ground, low, azimuth)


class Collected(NamedTuple):
    """The points of a sensor, by polar bin and by cell, and where there are any: nothing else has to be cleared."""

    bins: int  # of a ray
    table: Float32  # (rays * bins or more,) lowest slope of the beams that passed, NO_BEAM: none did
    farthest: Int32  # (rays,) last bin that a beam passed, -1: none did
    cover: Float32  # (rays * bins or more,) lowest slope of low obstacles, then under which a beam passes beneath one
    covered: UInt8  # (rays,) whether there are any; else `cover` is -NO_BEAM
    hits: Int32  # (cells,) sum of the weights
    ground_seen: UInt8  # (cells,)
    touched: UInt8  # (cells // TOUCHED + 1,) whether any of so many cells returned a beam

    @classmethod
    def new(cls, rays: int, bins: int, cells: int) -> Collected:
        """Empty."""
        table, cover = (np.full(rays * bins, slope, np.float32) for slope in (NO_BEAM, -NO_BEAM))
        hits, ground_seen = np.zeros(cells, np.int32), np.zeros(cells, np.uint8)
        covered, touched = np.zeros(rays, np.uint8), np.zeros(cells // TOUCHED + 1, np.uint8)
        return cls(bins, table, np.full(rays, -1, np.int32), cover, covered, hits, ground_seen, touched)


class GridShape(NamedTuple):
    """The grid's lower left corner (m, grid frame), its cells, and its axes' turn against the lattice's."""

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
