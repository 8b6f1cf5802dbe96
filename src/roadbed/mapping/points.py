# SPDX-License-Identifier: Apache-2.0
"""Downsampled points of a map: per voxel and kind the number of returns and their sum, so that maps merge by adding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float64
from roadbed.io.arrays import check_numbers

GROUND, OBSTACLE = 0, 1  # kinds
_MOST_WAITING = 200_000  # rows not yet summed
_HALF = 1 << 19  # voxels to each side of the tile's corner that a voxel number can encode
_WIDTH = 2 * _HALF


@dataclass
class PointTile:
    """The voxels of one tile; `sums` are whole millimetres from the tile's corner, so that adding is exact."""

    voxel: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # (N,) number of the voxel and kind
    count: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # (N,) returns
    sums: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), np.int64))  # x, y, z in mm, intensity
    changed: bool = False
    _waiting: list[tuple[NDArray, NDArray, NDArray]] = field(default_factory=list)

    @classmethod
    def of(cls, arrays: dict[str, NDArray]) -> PointTile:
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

    def only(self, keep_if: Callable[[Float64], NDArray[np.bool_]]) -> PointTile:
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
