# SPDX-License-Identifier: Apache-2.0
"""Accuracy of a map against the terrain of its simulated sequence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.errors import InputError
from roadbed.core.geometry import Float64
from roadbed.ground.filter import GroundFilter
from roadbed.mapping.cache import SIDE, Key
from roadbed.mapping.reader import MapReader
from roadbed.sources import Source

_RETURNS = (1, 10, 100)  # true returns from the ground from which a node counts as seen


def evaluate_map(
    folder: str | Path, source: Source, make: bool = False, watch: Callable[[Iterable[int]], Iterable[int]] = iter
) -> dict[str, Any]:
    """Errors of the elevation, for nodes by the number of rays that truly ended on their ground.

    With `make` the map is made first, in the same pass: simulation takes most of the time.
    """
    if not hasattr(source, "truth"):
        raise InputError(f"{source.location}: found a source without truth, expected a simulated sequence")
    if make and Path(folder).exists():
        raise InputError(f"{folder}: exists, expected a new folder to keep a map in")
    rays = RayCounts(Config().ground.stcrf.spacing if make else MapReader(folder).spacing)
    ground = GroundFilter(Config(), map_folder=folder) if make else None
    for index in watch(range(len(source))):
        if ground is not None:
            ground(source[index])
        truth = source.truth(index)
        rays.add(truth.points_world[truth.is_ground])
    if ground is not None:
        ground.save_map()
    rows, nodes = _compared(MapReader(folder), rays, source.truth(0).terrain)
    return {"map": str(folder), "source": source.location, "known_nodes": nodes, "seen": rows}


def _compared(stored: MapReader, rays: RayCounts, terrain: Any) -> tuple[list[dict[str, Any]], int]:
    """A row for each number of rays, and the number of known nodes."""
    if not stored.index.T_map_world.is_identity:
        raise InputError(
            f"{stored.folder}: found a frame of its own, expected that of the simulated world (mounting=known)"
        )
    errors, returns = [], []
    for key in stored.ground.keys:
        planes = stored.planes(key)
        x, y = stored.grid(key).mesh()
        errors.append((planes.elevation - terrain.height(x, y))[planes.known])
        returns.append(rays.of(key)[planes.known])
    error, count = np.concatenate(errors), np.concatenate(returns)
    return [{"returns": least, **_statistics(error[count >= least])} for least in _RETURNS], len(error)


class RayCounts:
    """How many rays ended on the ground of each node, tile by tile."""

    def __init__(self, spacing: float) -> None:
        self._spacing, self._tiles = spacing, defaultdict[Key, NDArray](lambda: np.zeros((SIDE, SIDE), np.int64))

    def add(self, points: Float64) -> None:
        column, row = np.floor(points[:, :2] / self._spacing).astype(np.int64).T
        tiles = np.stack([row // SIDE, column // SIDE], axis=1)
        for down, right in np.unique(tiles, axis=0).tolist():
            here = (tiles == (down, right)).all(axis=1)
            np.add.at(self._tiles[down, right], (row[here] % SIDE, column[here] % SIDE), 1)

    def of(self, key: Key) -> NDArray:
        return self._tiles[key]


def _statistics(error: np.ndarray) -> dict[str, Any]:
    if not len(error):
        return {"nodes": 0}
    size = np.abs(error)
    return {
        "nodes": len(error),
        "rms": float(np.sqrt(np.mean(error**2))),
        "median": float(np.median(size)),
        "within_5_cm_percent": float(100 * np.mean(size <= 0.05)),
        "rms_of_best_99_percent": float(np.sqrt(np.mean(np.sort(size)[: -(-99 * len(size) // 100)] ** 2))),
    }
