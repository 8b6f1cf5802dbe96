# SPDX-License-Identifier: Apache-2.0
"""Layers of a map besides the ground: downsampled points, and occupancy counts of cells."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, Label, OccupancyFrame
from roadbed.core.geometry import Float32, Float64
from roadbed.io.atomic import write_file
from roadbed.io.files import read_text
from roadbed.mapping.cache import SIDE, TileCache
from roadbed.mapping.tiles import CELLS, GROUND, OBSTACLE, MapTiles, OccupancyTile, PointTile

_NAME = "survey.json"
_SURE = 0.5  # mass above which a cell counts as occupied or free in a scan


@dataclass(frozen=True)
class LayersIndex:
    """Resolution of the layers of a map; stored in survey.json."""

    voxel: float = 0.2  # m, one point of each kind per voxel
    cell: float = 0.2  # m

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        path = folder / _NAME
        if not path.exists():
            return None
        try:
            index = json.loads(read_text(path))
            found = cls(float(index["voxel"]), float(index["cell"]))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(f"{path}: expected voxel and cell ({error})") from None
        if not (0.01 <= found.voxel <= 10 and 0.01 <= found.cell <= 10):
            raise InputError(f"{path}: expected voxels and cells of 0.01 to 10 m, found {found.voxel}, {found.cell}")
        return found

    def write(self, folder: Path) -> None:
        write_file(folder / _NAME, json.dumps({"version": 1, "voxel": self.voxel, "cell": self.cell}))


def add_points(
    tiles: TileCache[PointTile],
    tile_m: float,
    points: Float64,
    intensity: NDArray,
    kind: NDArray | int,
    voxel: float,
    count: NDArray | int = 1,
) -> None:
    """Add points (N, 3) of the map frame to the tiles, each `count` times."""
    column, row = np.floor(points[:, :2] / tile_m).astype(np.int64).T
    kind, count = np.broadcast_to(kind, len(points)), np.broadcast_to(count, len(points))

    def put(tile: PointTile, here: NDArray[np.bool_], at: tuple[NDArray, NDArray]) -> None:
        corner = tile_m * np.column_stack([column[here], row[here], np.zeros(here.sum())])
        tile.add(points[here] - corner, intensity[here], kind[here], voxel, count[here])

    tiles.scatter(1, row, column, PointTile, put)


class MapLayers:
    """`add` the frames of a sequence; `flush` writes the tiles in memory. Frames without odometry are skipped."""

    def __init__(self, folder: str | Path, spacing: float, cell: float = 0.2) -> None:
        self.folder, self._tile_m = Path(folder), SIDE * spacing
        self._tiles = MapTiles(self.folder)
        known = LayersIndex.read(self.folder)
        self.index = known or LayersIndex(cell=cell)
        self._begun = known is not None
        if self.index.cell != cell:
            raise InputError(
                f"{self.folder / _NAME}: expected cells of {cell:g} m as the occupancy has them, "
                f"found {self.index.cell:g} m"
            )

    def add(self, ground: GroundFrame, occupancy: OccupancyFrame | None = None) -> None:
        if ground.T_world_grid is None:
            return
        if not self._begun:
            self.index.write(self.folder)
            self._begun = True
        points = ground.points_grid
        usable = np.isfinite(points).all(axis=1) & np.isin(ground.label, (Label.GROUND, Label.OBSTACLE, Label.OVERHANG))
        if occupancy is not None:
            usable &= ~_moves(points, occupancy)
        points, label = points[usable], ground.label[usable]
        intensity = None if ground.scan is None else ground.scan.intensity
        intensity = np.zeros(len(points)) if intensity is None else _whole(intensity[usable])
        kind = np.where(label == Label.GROUND, GROUND, OBSTACLE)
        add_points(self._tiles.points, self._tile_m, points.astype(np.float64), intensity, kind, self.index.voxel)
        if occupancy is not None and occupancy.T_ground_grid is None:
            observed = True if occupancy.observedness is None else occupancy.observedness > 0
            self._add_cells(
                *_cells_of(occupancy), (occupancy.static > _SURE) & observed, (occupancy.free > _SURE) & observed
            )
        else:
            self._add_cells(*_cells_hit(points, label, self.index.cell))

    def flush(self) -> None:
        self._tiles.flush()

    def _add_cells(self, column: NDArray, row: NDArray, occupied: NDArray, free: NDArray) -> None:
        """Count observations of cells, given by their column and row in the map."""
        known = occupied | free
        column, row, occupied, free = column[known], row[known], occupied[known], free[known]

        def put(tile: OccupancyTile, here: NDArray[np.bool_], at: tuple[NDArray, NDArray]) -> None:
            tile.occupied[at] += occupied[here]
            tile.free[at] += free[here]

        self._tiles.cells.scatter(CELLS, row, column, OccupancyTile.empty, put)


def _whole(intensity: NDArray) -> NDArray:
    """Intensities as whole numbers 0..65535; values up to 1 are scaled to 255."""
    values = np.nan_to_num(np.asarray(intensity, np.float64), posinf=0, neginf=0)
    if len(values) and 0 < values.max() <= 1:
        values = 255 * values
    return np.clip(np.round(values), 0, 65535)


def _moves(points: Float32, occupancy: OccupancyFrame) -> NDArray[np.bool_]:
    grid, moving = occupancy.moving_cells()
    cell = grid.index(points[:, 0], points[:, 1])
    return (cell >= 0) & moving.ravel()[cell]


def _cells_of(occupancy: OccupancyFrame) -> tuple[NDArray, NDArray]:
    """(rows, columns) column and row numbers in the map of the cells of a grid."""
    grid = occupancy.grid
    column = round(grid.x0 / grid.spacing - 0.5) + np.arange(grid.columns)
    row = round(grid.y0 / grid.spacing - 0.5) + np.arange(grid.rows)
    columns, rows = np.meshgrid(column, row)
    return columns, rows


def _cells_hit(points: Float32, label: NDArray, cell: float) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Without an occupancy filter: cells with obstacle points are occupied, cells with only ground points free."""
    low = label != Label.OVERHANG
    number = np.floor(points[low, :2].astype(np.float64) / cell).view(np.complex128)  # `unique` of rows is slow
    hit, inverse = np.unique(number, return_inverse=True)
    obstacle = np.bincount(inverse.ravel(), label[low] == Label.OBSTACLE, len(hit)) > 0
    return hit.real.astype(np.int64), hit.imag.astype(np.int64), obstacle, ~obstacle
