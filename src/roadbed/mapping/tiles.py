# SPDX-License-Identifier: Apache-2.0
"""The long-term map: nodes that leave the lattice go to tiles on disk and come back as prior when the vehicle returns.

A tile is 64 x 64 nodes in one npz file: `information` (9, 64, 64) float32 and `base`, the height it is counted from.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from roadbed.atomic import atomic_write
from roadbed.errors import InputError
from roadbed.geometry import Float32, Lattice, Pose
from roadbed.mapping.information import lower
from roadbed.reading.arrays import check_numbers, read_arrays
from roadbed.reading.files import read_text

SIDE = 64  # nodes
_FORMAT = 1
_KNOWN = 0.05  # effective points a node must hold to be worth storing


@dataclass
class _Tile:
    information: Float32  # (9, SIDE, SIDE)
    base: float  # m
    changed: bool = False


class TileMap:
    """Tiles in a folder, a bounded number of them in memory. `store` nodes that leave, `load` nodes that enter."""

    def __init__(self, folder: str | Path, spacing: float, most_in_memory: int = 64) -> None:
        self.folder = Path(folder)
        self.spacing = spacing
        self.most_in_memory = most_in_memory
        self._tiles: OrderedDict[tuple[int, int], _Tile] = OrderedDict()
        self.T_lattice_world: Pose | None = None  # the frame the tiles are in; set by the first drive
        self._read_index()

    @property
    def _index_path(self) -> Path:
        return self.folder / "map.json"

    def _read_index(self) -> None:
        if not self._index_path.exists():
            return
        try:
            index = json.loads(read_text(self._index_path))
            spacing, version = float(index["spacing"]), index["version"]
            T_lattice_world = Pose.from_matrix(np.array(index["T_lattice_world"], float))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(f"{self._index_path}: expected the index of a map ({error})") from None
        if version != _FORMAT or spacing != self.spacing:
            raise InputError(
                f"{self._index_path}: expected version {_FORMAT} and spacing {self.spacing:g} m, "
                f"found version {version} and spacing {spacing:g} m"
            )
        self.T_lattice_world = T_lattice_world

    def begin(self, T_lattice_world: Pose) -> None:
        """Fix the frame of a new map."""
        self.T_lattice_world = T_lattice_world
        index = {"version": _FORMAT, "spacing": self.spacing, "T_lattice_world": T_lattice_world.matrix.tolist()}
        with atomic_write(self._index_path) as file:
            file.write(json.dumps(index).encode())

    def store(self, lattice: Lattice, information: Float32, base: float, leaving: np.ndarray) -> None:
        """Keep the nodes of `information` (9, rows, columns) where `leaving` (rows, columns) is set."""
        worth = leaving & (information[0] > _KNOWN)
        for key, in_tile, in_lattice in self._pieces(lattice):
            here = worth[in_lattice]
            if not here.any():
                continue
            tile = self._tile(key) or self._add(key, _Tile(np.zeros((9, SIDE, SIDE), np.float32), base))
            piece = information[(slice(None), *in_lattice)].copy()
            lower(piece[None], tile.base - base)
            target = tile.information[(slice(None), *in_tile)]
            target[:, here] = piece[:, here]
            tile.changed = True
        self._trim()

    def load(self, lattice: Lattice, information: Float32, base: float, entering: np.ndarray) -> int:
        """Fill nodes of `information` where `entering` is set from the map; returns how many are known there."""
        found = 0
        for key, in_tile, in_lattice in self._pieces(lattice):
            here = entering[in_lattice]
            tile = self._tile(key) if here.any() else None
            if tile is None:
                continue
            piece = tile.information[(slice(None), *in_tile)].copy()
            lower(piece[None], base - tile.base)
            known = here & (piece[0] > _KNOWN)
            target = information[(slice(None), *in_lattice)]
            target[:, known] = piece[:, known]
            found += int(known.sum())
        self._trim()
        return found

    def flush(self) -> None:
        """Write every changed tile."""
        for key, tile in self._tiles.items():
            self._write(key, tile)

    def _pieces(self, lattice: Lattice) -> Iterator[tuple[tuple[int, int], tuple[slice, slice], tuple[slice, slice]]]:
        """Tile keys (row, column) under a lattice, with matching slices of the tile and of the lattice."""
        first_column, first_row = round(lattice.x0 / self.spacing - 0.5), round(lattice.y0 / self.spacing - 0.5)
        for tile_row in range(first_row // SIDE, (first_row + lattice.rows - 1) // SIDE + 1):
            rows = _overlap(tile_row * SIDE, first_row, lattice.rows)
            for tile_column in range(first_column // SIDE, (first_column + lattice.columns - 1) // SIDE + 1):
                columns = _overlap(tile_column * SIDE, first_column, lattice.columns)
                yield (tile_row, tile_column), (rows[0], columns[0]), (rows[1], columns[1])

    def _path(self, key: tuple[int, int]) -> Path:
        return self.folder / f"tile_{key[0]}_{key[1]}.npz"

    def _tile(self, key: tuple[int, int]) -> _Tile | None:
        if key in self._tiles:
            self._tiles.move_to_end(key)
            return self._tiles[key]
        path = self._path(key)
        if not path.exists():
            return None
        try:
            arrays = read_arrays(path)
            information = check_numbers(arrays["information"], "information")
            tile = _Tile(np.array(information, np.float32), float(check_numbers(arrays["base"], "base").item()))
        except (ValueError, KeyError) as error:
            raise InputError(f"{path}: expected a tile of the map ({error})") from None
        finite = np.isfinite(tile.base) and np.isfinite(tile.information).all()
        if tile.information.shape != (9, SIDE, SIDE) or not finite:
            raise InputError(f"{path}: expected 9 x {SIDE} x {SIDE} finite numbers")
        return self._add(key, tile)

    def _add(self, key: tuple[int, int], tile: _Tile) -> _Tile:
        self._tiles[key] = tile
        return tile

    def _trim(self) -> None:
        """Write and drop the tiles that were not used for longest."""
        while len(self._tiles) > self.most_in_memory:
            self._write(*self._tiles.popitem(last=False))

    def _write(self, key: tuple[int, int], tile: _Tile) -> None:
        if tile.changed:
            with atomic_write(self._path(key)) as file:
                np.savez_compressed(file, information=tile.information, base=np.float64(tile.base))
            tile.changed = False


def _overlap(tile_first: int, first: int, size: int) -> tuple[slice, slice]:
    """Slices of a tile and of a lattice axis where the two cover the same nodes."""
    low, high = max(tile_first, first), min(tile_first + SIDE, first + size)
    return slice(low - tile_first, high - tile_first), slice(low - first, high - first)
