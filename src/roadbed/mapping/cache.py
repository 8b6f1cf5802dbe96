# SPDX-License-Identifier: Apache-2.0
"""Least-recently-used cache of the tiles of a map folder; changed tiles are written when they are dropped."""

import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.io.arrays import read_arrays
from roadbed.io.atomic import atomic_write

SIDE = 64  # nodes
Key = tuple[int, int]  # row, column


class Tile(Protocol):
    """The content of one file."""

    changed: bool

    def arrays(self) -> dict[str, NDArray]: ...

    @classmethod
    def of(cls, arrays: dict[str, NDArray]) -> Self:
        """From the arrays of a file; ValueError or KeyError where they do not form a tile."""


T = TypeVar("T", bound=Tile)


class TileCache(Generic[T]):
    """Files `NAME_ROW_COLUMN.npz` of one kind."""

    def __init__(self, folder: Path, name: str, kind: type[T], most_in_memory: int) -> None:
        self.folder, self.name, self.most_in_memory = folder, name, most_in_memory
        self._kind = kind
        self._tiles: OrderedDict[Key, T] = OrderedDict()

    def get(self, key: Key) -> T | None:
        """A tile from memory or disk, None where there is none."""
        if key in self._tiles:
            self._tiles.move_to_end(key)
            return self._tiles[key]
        path = self.path(key)
        if not path.exists():
            return None
        try:
            tile = self._kind.of(read_arrays(path))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: expected a tile of the map ({error})") from None
        self._tiles[key] = tile
        return tile

    def add(self, key: Key, tile: T) -> T:
        self._tiles[key] = tile
        return tile

    def writable(self, key: Key, make: Callable[[], T]) -> T:
        """A tile to change, by `make` where there is none yet; tiles used less recently may be dropped."""
        tile = self.get(key) or self.add(key, make())
        tile.changed = True
        self.trim()
        return tile

    def scatter(
        self, side: int, row: NDArray, column: NDArray, make: Callable[[], T], put: Callable[[T, NDArray, Any], None]
    ) -> None:
        """Add entries by their row and column in the map, `side` of them to a side of a tile.

        Calls `put(tile, mask of its entries, (row, column) in the tile)`; `make` creates a new tile.
        """
        for key in set(zip((row // side).tolist(), (column // side).tolist())):
            here = (row // side == key[0]) & (column // side == key[1])
            put(self.writable(key, make), here, (row[here] - key[0] * side, column[here] - key[1] * side))

    def trim(self) -> None:
        """Write and drop the least recently used tiles."""
        while len(self._tiles) > self.most_in_memory:
            key, tile = next(iter(self._tiles.items()))
            self._write(key, tile)  # written before it is dropped, so that a full disk loses nothing
            del self._tiles[key]

    def flush(self) -> None:
        """Write every changed tile."""
        for key, tile in self._tiles.items():
            self._write(key, tile)

    def keys(self) -> list[Key]:
        """The tiles on disk, row by row."""
        pattern = re.compile(rf"{self.name}_(-?[0-9]{{1,9}})_(-?[0-9]{{1,9}})\.npz")
        found = (pattern.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted((int(match[1]), int(match[2])) for match in found if match)

    def path(self, key: Key) -> Path:
        return self.folder / f"{self.name}_{key[0]}_{key[1]}.npz"

    def _write(self, key: Key, tile: T) -> None:
        if tile.changed:
            with atomic_write(self.path(key)) as file:
                np.savez_compressed(file, **tile.arrays())  # type: ignore[arg-type]
            tile.changed = False
