# SPDX-License-Identifier: Apache-2.0
"""The three kinds of tiles of a map: planes of the ground, downsampled points, and counts of occupied and free cells.

All are sums, so that maps merge by adding.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32, Float64
from roadbed.io.arrays import check_numbers
from roadbed.mapping.cache import SIDE, TileCache
from roadbed.mapping.information import raise_base

KNOWN = 0.05  # effective points from which a node is stored
CELLS = 256  # to a side of an occupancy tile
GROUND, OBSTACLE = 0, 1  # kinds of points
_MOST_WAITING = 200_000  # rows not yet summed
_HALF = 1 << 19  # voxels to each side of the tile's corner that a voxel number can encode
_WIDTH = 2 * _HALF


@dataclass
class GroundTile:
    """Information of 64 x 64 nodes, heights relative to `base`."""

    information: Float32  # (9, SIDE, SIDE)
    base: float  # m
    changed: bool = False

    @classmethod
    def empty(cls, base: float) -> Self:
        return cls(np.zeros((9, SIDE, SIDE), np.float32), base)

    @classmethod
    def of(cls, arrays: dict[str, NDArray]) -> Self:
        information = np.array(check_numbers(arrays["information"], "information"), np.float32)
        base = float(check_numbers(arrays["base"], "base").item())
        finite = np.isfinite(base) and np.isfinite(information).all()
        if information.shape != (9, SIDE, SIDE) or not finite:
            raise ValueError(f"expected 9 x {SIDE} x {SIDE} finite numbers")
        return cls(information, base)

    def arrays(self) -> dict[str, NDArray]:
        return {"information": self.information, "base": np.array(self.base, np.float64)}

    def over(self, base: float) -> Float32:
        """A copy of the information with heights relative to another base."""
        information = self.information.copy()
        raise_base(information[None], base - self.base)
        return information


@dataclass
class PointTile:
    """Returns per voxel and kind; `sums` are whole millimetres from the tile's corner, so that adding is exact."""

    voxel: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # (N,) number of the voxel and kind
    count: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # (N,) returns
    sums: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), np.int64))  # x, y, z in mm, intensity
    changed: bool = False
    _waiting: list[tuple[NDArray, NDArray, NDArray]] = field(default_factory=list)

    @classmethod
    def of(cls, arrays: dict[str, NDArray]) -> Self:
        found = [check_numbers(arrays[name], name) for name in ("voxel", "count", "sums")]
        voxel, count, sums = (values.astype(np.int64) for values in found)
        if voxel.shape != count.shape or sums.shape != (len(voxel), 4) or (count < 1).any():
            raise ValueError("expected rows of a voxel, a count of at least 1 and four sums")
        return cls(voxel, count, sums)

    def arrays(self) -> dict[str, NDArray]:
        return dict(zip(("voxel", "count", "sums"), self.rows()))

    def add(
        self, points: Float64, intensity: NDArray, kind: NDArray | int, voxel_side: float, count: NDArray | int = 1
    ) -> None:
        """Add points (N, 3), in metres from the tile's corner, each `count` times."""
        ix, iy, iz = np.floor(points / voxel_side).astype(np.int64).T
        number = ((ix * _WIDTH + iy) * _WIDTH + iz + _HALF) * 2 + kind
        counts = np.broadcast_to(count, number.shape).astype(np.int64)
        sums = np.round(np.column_stack([points * 1000, intensity]) * counts[:, None]).astype(np.int64)
        self.add_rows(number, counts, sums)

    def add_rows(self, voxel: NDArray, count: NDArray, sums: NDArray) -> None:
        self._waiting.append((voxel, count, sums))
        self.changed = True
        if sum(len(rows[0]) for rows in self._waiting) > _MOST_WAITING:
            self._add_up()

    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Voxels, counts and sums, each voxel once."""
        self._add_up()
        return self.voxel, self.count, self.sums

    def only(self, keep_if: Callable[[Float64], NDArray[np.bool_]]) -> "PointTile":
        """The voxels whose mean positions (N, 3), in metres from the tile's corner, pass `keep_if`."""
        voxel, count, sums = self.rows()
        keep = keep_if(sums[:, :3] / count[:, None] / 1000)
        return PointTile(voxel[keep], count[keep], sums[keep])

    def means(self, kind: int) -> tuple[Float64, Float64, NDArray[np.int64]]:
        """Mean positions (N, 3) in metres from the tile's corner, mean intensities and counts of one kind."""
        voxel, count, sums = self.rows()
        count, sums = count[voxel % 2 == kind], sums[voxel % 2 == kind]
        mean = sums / count[:, None]
        return mean[:, :3] / 1000, mean[:, 3], count

    def _add_up(self) -> None:
        if not self._waiting:
            return
        rows = [(self.voxel, self.count, self.sums), *self._waiting]
        voxel, count, sums = (np.concatenate(parts) for parts in zip(*rows))
        order = np.argsort(voxel, kind="stable")
        first = np.flatnonzero(np.diff(voxel[order], prepend=-1))
        self.voxel = voxel[order][first]
        self.count = np.add.reduceat(count[order], first) if len(first) else count[:0]
        self.sums = np.add.reduceat(sums[order], first, axis=0) if len(first) else sums[:0]
        self._waiting = []


@dataclass
class OccupancyTile:
    """256 x 256 cells: the number of scans in which each was occupied, and free."""

    occupied: NDArray[np.uint32]  # (CELLS, CELLS) scans
    free: NDArray[np.uint32]
    changed: bool = False

    @classmethod
    def empty(cls) -> Self:
        return cls(np.zeros((CELLS, CELLS), np.uint32), np.zeros((CELLS, CELLS), np.uint32))

    @classmethod
    def of(cls, arrays: dict[str, NDArray]) -> Self:
        counts = [check_numbers(arrays[name], name) for name in ("occupied", "free")]
        if any(values.shape != (CELLS, CELLS) or values.dtype.kind != "u" for values in counts):
            raise ValueError(f"expected {CELLS} x {CELLS} counts, twice")
        occupied, free = (values.astype(np.uint32) for values in counts)
        return cls(occupied, free)

    def arrays(self) -> dict[str, NDArray]:
        return {"occupied": self.occupied, "free": self.free}

    def add(self, other: Self) -> None:
        self.occupied += other.occupied
        self.free += other.free
        self.changed = True

    @property
    def probability(self) -> NDArray[np.float32]:
        """Occupancy probability of each cell from the two counts (Krichevsky-Trofimov), NaN where unknown."""
        total = self.occupied.astype(np.float32) + self.free
        return np.where(total > 0, (self.occupied + np.float32(0.5)) / (total + 1), np.float32(np.nan))


class MapTiles:
    """The tiles in a map folder, so many ground tiles and so many of each other kind in memory."""

    def __init__(self, folder: Path, ground: int = 64, others: int = 16) -> None:
        self.ground = TileCache(folder, "tile", GroundTile, ground)
        self.points = TileCache(folder, "points", PointTile, others)
        self.cells = TileCache(folder, "cells", OccupancyTile, others)

    def flush(self) -> None:
        """Write every changed tile."""
        for tiles in (self.ground, self.points, self.cells):
            tiles.flush()
