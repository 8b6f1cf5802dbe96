# SPDX-License-Identifier: Apache-2.0
"""Moving cells of one frame grouped into things: one car is one thing, whatever part of it is seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roadbed.config.occupancy import ObjectsConfig
from roadbed.geometry import Float32, Float64, Lattice
from roadbed.occupancy.lshape_cpu import best_heading
from roadbed.occupancy.model import SUBCELLS
from roadbed.occupancy.objects_cpu import gap_between, label_components, returns_of

_CELL_VARIANCE = 0.05  # m^2/s^2 added to every cell's covariance: cells of one object are not independent
_TURNS = np.radians(np.arange(-20.0, 20.1, 2.0))  # headings tried around the direction in which a thing moves
_AROUND = 1  # cells around the moving ones whose returns belong to a thing as well
_HAS_SIDES = 1.2  # m; what is smaller shows no sides to fit


@dataclass(frozen=True, eq=False)
class Cluster:
    """What moves alike in one frame."""

    position: Float64  # (2,) m, middle of its box
    extent: Float64  # (2,) m along and across its heading
    heading: float  # rad, of its box; forward is where it moves
    velocity: Float64  # (2,) m/s
    covariance: Float64  # (2, 2)
    cells: int
    points: Float64  # (N, 2) m, where beams returned from it

    @classmethod
    def around(cls, points: Float64, velocity: Float64, covariance: Float64, cells: int, width: float) -> Cluster:
        """The box around points that stand for squares of `width` metres."""
        position, extent, heading = fit_box(points, velocity, width)
        return cls(position, extent, heading, velocity, covariance, cells, points)


@dataclass(frozen=True, eq=False)
class Returns:
    """Where beams returned in a frame, and whether from something that may move."""

    surface: NDArray[np.uint16]  # (rows, columns) subcells, bit by bit
    observation: Float32  # (rows, columns) p_z
    movable: NDArray[np.bool_]  # (rows, columns) more dynamic than static


def mean_velocity(velocity: Float64, covariance: Float64) -> tuple[Float64, Float64]:
    """Information-weighted mean of cells' velocities (N, 2) with covariances (N, 3), and its covariance.

    Cells on a smooth face hardly know their speed along it; their large covariance makes them count little there.
    """
    xx = covariance[:, 0] + _CELL_VARIANCE
    xy = covariance[:, 1]
    yy = covariance[:, 2] + _CELL_VARIANCE
    det = xx * yy - xy * xy
    w_xx, w_xy, w_yy = yy / det, -xy / det, xx / det
    information = np.array([[w_xx.sum(), w_xy.sum()], [w_xy.sum(), w_yy.sum()]])
    weighted = np.array(
        [
            (w_xx * velocity[:, 0] + w_xy * velocity[:, 1]).sum(),
            (w_xy * velocity[:, 0] + w_yy * velocity[:, 1]).sum(),
        ]
    )
    spread = np.linalg.inv(information)
    return spread @ weighted, spread


def find_clusters(
    lattice: Lattice,
    moving: NDArray[np.bool_],
    velocity: Float32,
    covariance: Float32,
    config: ObjectsConfig | None = None,
    returns: Returns | None = None,
) -> list[Cluster]:
    """Groups of moving cells within `join` metres of each other; parts of one body are put together.

    Boxes hold the returns from the cells and from those beside them; the cells themselves where returns are not given.
    """
    config = config or ObjectsConfig()
    rows, columns = np.nonzero(moving)
    if not len(rows):
        return []
    reach = max(1, round(config.join / lattice.spacing))
    component = label_components(rows, columns, reach)
    parts = []
    for label in np.unique(component):
        chosen = component == label
        if np.count_nonzero(chosen) < config.min_cells:
            continue
        r, c = rows[chosen], columns[chosen]
        mean, spread = mean_velocity(velocity[r, c].astype(np.float64), covariance[r, c].astype(np.float64))
        points, width = _returns_of(lattice, r, c, returns)
        parts.append(Cluster.around(points, mean, spread, len(r), width))
    return _bodies(parts, config, lattice.spacing / SUBCELLS)


def joined(parts: Sequence[Cluster], width: float) -> Cluster:
    """Parts of one body as one cluster; what knows its velocity better counts more."""
    if len(parts) == 1:
        return parts[0]
    information = [np.linalg.inv(part.covariance) for part in parts]
    covariance = np.linalg.inv(np.sum(information, axis=0))
    velocity = covariance @ np.sum([i @ part.velocity for i, part in zip(information, parts)], axis=0)
    points = np.vstack([part.points for part in parts])
    return Cluster.around(points, velocity, covariance, sum(part.cells for part in parts), width)


def alike(one: Float64, other: Float64) -> bool:
    """Whether two velocities may be those of one body."""
    (x, y), (other_x, other_y) = one.tolist(), other.tolist()
    fastest = max(math.hypot(x, y), math.hypot(other_x, other_y))
    return math.hypot(x - other_x, y - other_y) <= max(1.0, 0.25 * fastest)


def fit_box(points: Float64, velocity: Float64, width: float) -> tuple[Float64, Float64, float]:
    """Middle, extent and heading of the rectangle around points that stand for squares of `width` metres."""
    heading = float(np.arctan2(velocity[1], velocity[0]))
    if np.ptp(points, axis=0).max() >= _HAS_SIDES:
        headings = heading + _TURNS
        heading = float(headings[best_heading(points, headings)])
    axes = np.array([[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]])
    projected = points @ axes
    low, high = projected.min(axis=0) - width / 2, projected.max(axis=0) + width / 2
    return axes @ ((low + high) / 2), high - low, heading


def _cells_around(rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]) -> NDArray[np.int64]:
    """Numbers of some cells and of those beside them, row by row."""
    steps = np.arange(-_AROUND, _AROUND + 1)
    row, column = rows[:, None, None] + steps[:, None], columns[:, None, None] + steps
    inside = (row >= 0) & (row < shape[0]) & (column >= 0) & (column < shape[1])
    return np.unique((row * shape[1] + column)[inside])


def _returns_of(
    lattice: Lattice, rows: NDArray[np.int64], columns: NDArray[np.int64], returns: Returns | None
) -> tuple[Float64, float]:
    """Places of the returns from some cells and those beside them, and the width of a place."""
    if returns is not None:
        cells = _cells_around(rows, columns, lattice.shape)
        places = returns_of(cells, returns.surface, returns.observation, returns.movable)
        if len(places):
            return places * lattice.spacing + (lattice.x0, lattice.y0), lattice.spacing / SUBCELLS
    centres = np.column_stack([columns, rows]).astype(np.float64) * lattice.spacing + (lattice.x0, lattice.y0)
    return centres, lattice.spacing


def _bodies(parts: list[Cluster], config: ObjectsConfig, width: float) -> list[Cluster]:
    """Parts that move alike, lie near each other and fit into one body together, as one; the nearest first."""
    parts = list(parts)
    while True:
        pairs = [
            (gap, i, j)
            for i, one in enumerate(parts)
            for j, other in enumerate(parts[:i])
            if alike(one.velocity, other.velocity) and (gap := gap_between(one.points, other.points)) <= config.body_gap
        ]
        for _, i, j in sorted(pairs):
            both = joined([parts[i], parts[j]], width)
            long = max(parts[i].extent.max(), parts[j].extent.max()) >= _HAS_SIDES
            if long and both.extent[0] <= config.body_length and both.extent[1] <= config.body_width:
                parts = [part for k, part in enumerate(parts) if k not in (i, j)] + [both]
                break
        else:
            return parts
