# SPDX-License-Identifier: Apache-2.0
"""Maps to test with: made-up ones of a known surface, and one of a short simulated sequence."""

from pathlib import Path

import numpy as np

from roadbed import Pose
from roadbed.core.geometry import Grid
from roadbed.mapping.information import information_of
from roadbed.mapping.tile_store import TileStore

SLOPE_X, SLOPE_Y = 0.05, -0.02


def plane(x, y):
    return 3.0 + SLOPE_X * x + SLOPE_Y * y


def write_plane_map(
    folder: Path,
    *,
    size: float = 150.0,
    spacing: float = 1.0,
    centre: tuple[float, float] = (20.0, -70.0),
    points: float = 10.0,
    lift: float = 0.0,
    T_map_world: Pose | None = None,
) -> Grid:
    """A map of a plane (raised by `lift`), known by `points` effective points per node; returns where it is known."""
    grid = Grid.centred(size, size, spacing).around(*centre)
    x, y = grid.mesh()
    spread = points * spacing**2 / 12
    precision = np.zeros((6, grid.size))
    precision[0], precision[3], precision[5] = points, spread, spread
    base = 1.5
    values = information_of(precision, (plane(x, y) + lift - base).ravel(), SLOPE_X, SLOPE_Y)
    tiles = TileStore(folder, spacing, most_in_memory=4)
    tiles.begin(T_map_world or Pose.identity())
    everywhere = np.ones(grid.shape, bool)
    tiles.store(grid, values.reshape(9, *grid.shape).astype(np.float32), base, everywhere)
    tiles.flush()
    return grid
