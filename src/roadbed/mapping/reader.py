# SPDX-License-Identifier: Apache-2.0
"""Reads a map folder tile by tile; damaged tiles are reported and skipped."""

from collections.abc import Iterator
from pathlib import Path
from typing import Generic

import numpy as np

from roadbed.core.errors import InputError
from roadbed.core.geometry import Float32, Float64, Grid
from roadbed.mapping.cache import SIDE, Key, T, TileCache
from roadbed.mapping.consistency import consistent_planes
from roadbed.mapping.index import MapIndex
from roadbed.mapping.information import Planes, planes_of
from roadbed.mapping.layers import LayersIndex
from roadbed.mapping.tiles import GROUND, KNOWN, MapTiles

_MOST_IN_MEMORY = 256  # tiles: three rows of a map five kilometres wide, so that neighbours are read once
_MARGIN = 16  # nodes to each side for the consistency check: a small component is rarely longer


class StoredTiles(Generic[T]):
    """The tiles of one kind; iterating gives the readable ones with their keys."""

    def __init__(self, tiles: TileCache[T], damaged: list[str]) -> None:
        self._tiles, self._damaged, self.keys = tiles, damaged, tiles.keys()

    def get(self, key: Key) -> T | None:
        """The tile, None where there is none or it is damaged."""
        try:
            return self._tiles.get(key)
        except InputError as error:
            if str(error) not in self._damaged:
                self._damaged.append(str(error))
            return None
        finally:
            self._tiles.trim()

    def __iter__(self) -> Iterator[tuple[Key, T]]:
        for key in self.keys:
            tile = self.get(key)
            if tile is not None:
                yield key, tile

    @property
    def block(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """First and last row and column; a map without such tiles is an error."""
        if not self.keys:
            found = f"{self._tiles.folder}: found no tiles, expected at least one"
            raise InputError(f"{found}: was there odometry, and the method stcrf?")
        rows, columns = zip(*self.keys)
        return (min(rows), max(rows)), (min(columns), max(columns))


class MapReader:
    """Reads a map. `damaged` has one line for each tile that could not be read so far."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.index = MapIndex.of(self.folder)
        self.layers = LayersIndex.read(self.folder)
        self.damaged: list[str] = []
        tiles = MapTiles(self.folder, _MOST_IN_MEMORY, others=1)
        self.ground = StoredTiles(tiles.ground, self.damaged)
        self.points = StoredTiles(tiles.points, self.damaged)
        self.cells = StoredTiles(tiles.cells, self.damaged)

    @property
    def spacing(self) -> float:
        return self.index.spacing

    def planes(self, key: Key, border: int = 0) -> Planes:
        """The surface of a tile and `border` nodes of its neighbours on each side, after the consistency check."""
        wide = consistent_planes(self._planes(key, border + _MARGIN), self.spacing, self.index.surface)
        inner = slice(_MARGIN, -_MARGIN)
        return Planes(*(layer[inner, inner] for layer in (wide.elevation, wide.slope_x, wide.slope_y, wide.variance)))

    def _planes(self, key: Key, border: int) -> Planes:
        """The same without the consistency check."""
        own = self.ground.get(key)
        size = SIDE + 2 * border
        information: Float32 = np.zeros((9, size, size), np.float32)
        base = 0.0 if own is None else own.base
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                tile = own if down == right == 0 else self.ground.get((key[0] + down, key[1] + right))
                if tile is not None:
                    rows, columns = _part(down, border), _part(right, border)
                    information[:, rows[0], columns[0]] = tile.over(base)[:, rows[1], columns[1]]
        information[:, information[0] <= KNOWN] = 0
        return planes_of(information, base, self.index.surface)

    def count(self, key: Key) -> Float64:
        """(64, 64) returns from the ground per node; NaN where there are none."""
        counts = np.zeros(SIDE * SIDE)
        tile = self.points.get(key)
        if tile is not None:
            position, _, count = tile.means(GROUND)
            column, row = np.clip((position[:, :2] / self.spacing).astype(np.int64), 0, SIDE - 1).T
            counts += np.bincount(row * SIDE + column, count, SIDE * SIDE)
        return np.where(counts > 0, counts, np.nan).reshape(SIDE, SIDE)

    def grid(self, key: Key) -> Grid:
        """The node positions of a tile."""
        return self.grid_of((key[0], key[0]), (key[1], key[1]))

    def grid_of(self, rows: tuple[int, int], columns: tuple[int, int]) -> Grid:
        """The node positions of a block of tiles, given by its first and last row and column."""
        x0, y0 = (columns[0] * SIDE + 0.5) * self.spacing, (rows[0] * SIDE + 0.5) * self.spacing
        across, along = (SIDE * (last - first + 1) for first, last in (columns, rows))
        return Grid(x0, y0, self.spacing, across, along)

    @property
    def extent(self) -> Grid:
        """The nodes of all ground tiles and of those between them."""
        return self.grid_of(*self.ground.block)


def _part(side: int, border: int) -> tuple[slice, slice]:
    """Along one axis: slices of the array with a border, and of the neighbouring tile, for the same nodes."""
    if side < 0:
        return slice(0, border), slice(SIDE - border, SIDE)
    if side > 0:
        return slice(SIDE + border, SIDE + 2 * border), slice(0, border)
    return slice(border, border + SIDE), slice(0, SIDE)
