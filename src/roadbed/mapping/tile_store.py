# SPDX-License-Identifier: Apache-2.0
"""The long-term map: nodes that leave the rolling grid go to tiles on disk and return as prior when revisited.

A tile is 64 x 64 nodes in one npz file: `information` (9, 64, 64) float32 and `base`, the height it is counted from.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from roadbed.core.errors import OutputError
from roadbed.core.geometry import Float32, Grid, Pose
from roadbed.mapping.cache import SIDE, Key
from roadbed.mapping.index import MapIndex, claim
from roadbed.mapping.information import SurfaceParameters, raise_base
from roadbed.mapping.tiles import KNOWN, GroundTile, MapTiles


class TileStore:
    """Tiles in a folder, a limited number of them in memory: `store` nodes that leave, `load` nodes that enter."""

    def __init__(
        self, folder: str | Path, spacing: float, most_in_memory: int = 64, surface: SurfaceParameters | None = None
    ) -> None:
        self.folder, self.spacing = Path(folder), spacing
        self.surface = surface or SurfaceParameters()
        self._tiles = MapTiles(self.folder, most_in_memory).ground
        index = MapIndex.read(self.folder, spacing)
        self._claimed = claim(self.folder)  # last: a file that is closed ends the claim
        self.T_map_world = None if index is None else index.T_map_world  # set by the first sequence

    def begin(self, T_map_world: Pose) -> None:
        """Fix the frame of a new map."""
        if self.T_map_world is None and MapIndex.read(self.folder) is not None:
            raise OutputError(f"{self.folder}: another process has begun this map, expected one at a time")
        self.T_map_world = T_map_world
        MapIndex(self.spacing, T_map_world, self.surface).write(self.folder)
        self._claimed = claim(self.folder)

    def store(self, grid: Grid, information: Float32, base: float, leaving: np.ndarray) -> None:
        """Store the nodes of `information` (9, rows, columns) where `leaving` (rows, columns) is set."""
        worth = leaving & (information[0] > KNOWN)
        for key, in_tile, in_grid in pieces(grid, self.spacing):
            here = worth[in_grid]
            if not here.any():
                continue
            tile = self._tiles.writable(key, lambda: GroundTile.empty(base))
            piece = information[(slice(None), *in_grid)].copy()
            raise_base(piece[None], tile.base - base)
            target = tile.information[(slice(None), *in_tile)]
            target[:, here] = piece[:, here]

    def load(self, grid: Grid, information: Float32, base: float, entering: np.ndarray) -> int:
        """Fill nodes of `information` from the map where `entering` is set; returns how many were found."""
        found = 0
        for key, in_tile, in_grid in pieces(grid, self.spacing):
            here = entering[in_grid]
            tile = self._tiles.get(key) if here.any() else None
            if tile is None:
                continue
            piece = tile.information[(slice(None), *in_tile)].copy()
            raise_base(piece[None], base - tile.base)
            known = here & (piece[0] > KNOWN)
            target = information[(slice(None), *in_grid)]
            target[:, known] = piece[:, known]
            found += int(known.sum())
        self._tiles.trim()
        return found

    def flush(self) -> None:
        """Write every changed tile."""
        self._tiles.flush()


def pieces(grid: Grid, spacing: float) -> Iterator[tuple[Key, tuple[slice, slice], tuple[slice, slice]]]:
    """Keys (row, column) of the tiles a grid overlaps, with matching slices of the tile and of the grid."""
    first_column, first_row = round(grid.x0 / spacing - 0.5), round(grid.y0 / spacing - 0.5)
    for tile_row in range(first_row // SIDE, (first_row + grid.rows - 1) // SIDE + 1):
        rows = _overlap(tile_row * SIDE, first_row, grid.rows)
        for tile_column in range(first_column // SIDE, (first_column + grid.columns - 1) // SIDE + 1):
            columns = _overlap(tile_column * SIDE, first_column, grid.columns)
            yield (tile_row, tile_column), (rows[0], columns[0]), (rows[1], columns[1])


def _overlap(tile_first: int, first: int, size: int) -> tuple[slice, slice]:
    """Along one axis: slices of the tile and of the grid for the same nodes."""
    low, high = max(tile_first, first), min(tile_first + SIDE, first + size)
    return slice(low - tile_first, high - tile_first), slice(low - first, high - first)
