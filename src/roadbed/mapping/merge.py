# SPDX-License-Identifier: Apache-2.0
"""Merge maps by adding their information, and crop a map. Tile by tile; the index is written last."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError, OutputError
from roadbed.core.geometry import Float64, Pose
from roadbed.mapping.cache import SIDE, Key, T, TileCache
from roadbed.mapping.information import rotated, tilted, translated
from roadbed.mapping.layers import add_points
from roadbed.mapping.reader import MapReader
from roadbed.mapping.tiles import CELLS, GROUND, KNOWN, OBSTACLE, GroundTile, MapTiles, OccupancyTile, PointTile

_LARGEST_TILT = 0.1  # rad between the level planes of two maps
_MAP_FILES = ("map.json", "survey.json", "tile_*.npz", "points_*.npz", "cells_*.npz")


def new_map_folder(folder: Path, sources: Sequence[Path], force: bool = False) -> Path:
    """A folder to write a map into: a new or empty one, or with `force` another map, which is removed."""
    if any(folder.resolve() == source.resolve() for source in sources):
        raise OutputError(f"{folder}: is one of the input maps, expected another output folder")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: found a file, expected a folder or a new name")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / "map.json").exists():
            raise OutputError(f"{folder}: is not empty and not a map; name another folder with -o")
        if not force:
            raise OutputError(f"{folder}: holds a map; name another folder with -o, or replace it with --force")
        for pattern in _MAP_FILES:  # the index first: without it the rest is no map
            for path in folder.glob(pattern):
                path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def foreign_to_map(folder: Path) -> str | None:
    """The first file in a map folder that does not belong to a map; None where there is none."""
    names = sorted(path.name for path in folder.iterdir())
    return next((name for name in names if not any(fnmatch(name, pattern) for pattern in _MAP_FILES)), None)


def merge_maps(maps: Sequence[MapReader], make_folder: Callable[[], Path]) -> None:
    """Add the information of the maps per node, voxel and cell, in the frame of the first map.

    `make_folder` returns the folder of the new map; it is called once the maps are known to be compatible. Maps in
    one frame can be merged in any order and grouping: merging only adds.
    """
    first = maps[0]
    for other in maps[1:]:
        if other.spacing != first.spacing:
            raise InputError(
                f"{other.folder}: node spacing: found {other.spacing:g} m, "
                f"expected {first.spacing:g} m as in {first.folder}"
            )
    layers = next((stored.layers for stored in maps if stored.layers is not None), None)
    for stored in maps:
        if stored.layers is not None and stored.layers != layers:
            raise InputError(f"{stored.folder}: survey.json: found {stored.layers}, expected {layers}")
    folder = make_folder()
    tiles = MapTiles(folder)
    sums = _Sums(tiles, first.spacing, layers.voxel if layers else 0.0, layers.cell if layers else 0.0)
    index = first.index
    for stored in maps:
        T_first_own = index.T_map_world @ stored.index.T_map_world.inverse()
        scale = index.surface.point_variance / stored.index.surface.point_variance
        if np.allclose(T_first_own.matrix, np.eye(4), atol=1e-9):
            sums.add(stored, scale)
        else:
            sums.add_moved(stored, T_first_own, scale)
    tiles.flush()
    if layers is not None:
        layers.write(folder)
    index.write(folder)


def crop_map(
    stored: MapReader, make_folder: Callable[[], Path], x: tuple[float, float], y: tuple[float, float]
) -> None:
    """Keep the part within x[0]..x[1] and y[0]..y[1] metres of the map frame; an empty part is an error."""
    if not (x[0] < x[1] and y[0] < y[1]):
        raise InputError(f"crop: expected X_MIN < X_MAX and Y_MIN < Y_MAX, found {x[0]:g} {x[1]:g} {y[0]:g} {y[1]:g}")

    def inside(px: Float64, py: Float64) -> NDArray[np.bool_]:
        return (px >= x[0]) & (px < x[1]) & (py >= y[0]) & (py < y[1])

    kept = [key for key in stored.ground.keys if (stored.planes(key).known & inside(*stored.grid(key).mesh())).any()]
    if not kept:
        raise InputError(f"{stored.folder}: nothing is known within x {x[0]:g}..{x[1]:g}, y {y[0]:g}..{y[1]:g}")
    folder = make_folder()
    tiles = MapTiles(folder, 1, 1)
    for key in kept:
        tile = stored.ground.get(key)
        if tile is not None:
            tile.information[:, ~inside(*stored.grid(key).mesh())] = 0
            _keep(tiles.ground, key, tile)
    for key, cloud in stored.points:
        corner = SIDE * stored.spacing * np.array([key[1], key[0]])
        part = cloud.only(lambda position, corner=corner: inside(*(position[:, :2] + corner).T))  # type: ignore[misc]
        if len(part.voxel):
            _keep(tiles.points, key, part)
    if stored.layers is not None:
        spacing = stored.layers.cell
        for key, grid in stored.cells:
            column, row = np.meshgrid(np.arange(CELLS) + 0.5, np.arange(CELLS) + 0.5)
            outside = ~inside((column + key[1] * CELLS) * spacing, (row + key[0] * CELLS) * spacing)
            grid.occupied[outside], grid.free[outside] = 0, 0
            if grid.occupied.any() or grid.free.any():
                _keep(tiles.cells, key, grid)
        stored.layers.write(folder)
    stored.index.write(folder)


def _keep(tiles: TileCache[T], key: Key, tile: T) -> None:
    tile.changed = True
    tiles.add(key, tile)
    tiles.flush()
    tiles.trim()


@dataclass
class _Sums:
    """The new map: tiles to which other tiles are added."""

    tiles: MapTiles
    spacing: float
    voxel: float
    cell: float

    def add(self, stored: MapReader, scale: float) -> None:
        """Add a map in the same frame, tile by tile."""
        for key, tile in stored.ground:
            target = self.tiles.ground.writable(key, partial(GroundTile.empty, tile.base))
            target.information += np.float32(scale) * tile.over(target.base)
        for key, cloud in stored.points:
            self.tiles.points.writable(key, PointTile).add_rows(*cloud.rows())
        for key, grid in stored.cells:
            self.tiles.cells.writable(key, OccupancyTile.empty).add(grid)

    def add_moved(self, stored: MapReader, T_to_from: Pose, scale: float) -> None:
        """Add a map in another frame: each node, voxel and cell goes to the nearest one here."""
        up = T_to_from.rotation[:, 2]
        if up[2] < np.cos(_LARGEST_TILT):
            raise InputError(
                f"{stored.folder}: its level plane is tilted by {np.degrees(np.arccos(up[2])):.1f} degrees "
                f"against the first map's, expected at most {np.degrees(_LARGEST_TILT):.1f}"
            )
        for key, tile in stored.ground:
            self._add_moved_ground(stored, key, tile, T_to_from, scale)
        for key, cloud in stored.points:
            corner = SIDE * stored.spacing * np.array([key[1], key[0], 0.0])
            for kind in (GROUND, OBSTACLE):
                position, intensity, count = cloud.means(kind)
                moved = T_to_from @ (position + corner)
                add_points(self.tiles.points, SIDE * self.spacing, moved, intensity, kind, self.voxel, count)
        for key, grid in stored.cells:
            self._add_moved_cells(key, grid, T_to_from)

    def _add_moved_ground(self, stored: MapReader, key: Key, tile: GroundTile, T_to_from: Pose, scale: float) -> None:
        known = tile.information[0] > KNOWN
        x, y = (axis[known] for axis in stored.grid(key).mesh())
        information = scale * tile.information[:, known].astype(np.float64)
        moved = T_to_from @ np.column_stack([x, y, np.full(len(x), tile.base)])
        up = T_to_from.rotation[:, 2]
        # A level plane of the old frame slopes in the new one; both frames are nearly level.
        information = rotated(information, T_to_from.yaw)
        information = tilted(information, -up[0] / up[2], -up[1] / up[2], np.zeros(len(x)))
        column, row = (np.floor(moved[:, axis] / self.spacing).astype(np.int64) for axis in (0, 1))
        dx, dy = ((n + 0.5) * self.spacing - moved[:, axis] for axis, n in enumerate((column, row)))
        information = translated(information, dx, dy)

        def put(target: GroundTile, here: NDArray[np.bool_], at: tuple[NDArray, NDArray]) -> None:
            lifted = tilted(information[:, here], 0.0, 0.0, moved[here, 2] - target.base)
            for layer in range(9):
                np.add.at(target.information[layer], at, lifted[layer].astype(np.float32))

        self.tiles.ground.scatter(SIDE, row, column, lambda: GroundTile.empty(float(moved[:, 2].mean())), put)

    def _add_moved_cells(self, key: Key, grid: OccupancyTile, T_to_from: Pose) -> None:
        known = (grid.occupied > 0) | (grid.free > 0)
        row, column = (n + k * CELLS + 0.5 for n, k in zip(np.nonzero(known), key))
        position = T_to_from @ (self.cell * np.column_stack([column, row, np.zeros(len(row))]))
        column, row = (np.floor(position[:, axis] / self.cell).astype(np.int64) for axis in (0, 1))
        occupied, free = grid.occupied[known], grid.free[known]

        def put(target: OccupancyTile, here: NDArray[np.bool_], at: tuple[NDArray, NDArray]) -> None:
            np.add.at(target.occupied, at, occupied[here])
            np.add.at(target.free, at, free[here])

        self.tiles.cells.scatter(CELLS, row, column, OccupancyTile.empty, put)
