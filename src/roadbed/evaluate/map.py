# SPDX-License-Identifier: Apache-2.0
"""A map against the terrain of the simulated drive it was made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from roadbed.errors import InputError
from roadbed.mapping.cache import SIDE, Key
from roadbed.mapping.stored import StoredMap
from roadbed.sources import Source

_RETURNS = (1, 10, 100)  # true returns from the ground from which a node counts as seen


def evaluate_map(
    stored: StoredMap, source: Source, watch: Callable[[Iterable[int]], Iterable[int]] = lambda numbers: numbers
) -> dict[str, Any]:
    """Errors of the elevation, over nodes by how many rays of the drive truly ended on their ground."""
    if not hasattr(source, "truth"):
        raise InputError(f"{source.location}: found a source without truth, expected a simulated drive")
    if not stored.index.T_lattice_world.is_identity:
        raise InputError(
            f"{stored.folder}: found a frame of its own, expected that of the simulated world (mounting=known)"
        )
    seen = {key: np.zeros((SIDE, SIDE), np.int64) for key in stored.keys}
    for index in watch(range(len(source))):
        truth = source.truth(index)
        _count(seen, truth.points_world[truth.is_ground], stored.spacing)
    terrain = source.truth(0).terrain
    errors, returns = [], []
    for key in stored.keys:
        planes = stored.planes(key)
        x, y = stored.lattice(key).mesh()
        errors.append((planes.elevation - terrain.height(x, y))[planes.known])
        returns.append(seen[key][planes.known])
    error, count = np.concatenate(errors), np.concatenate(returns)
    rows = [{"returns": least, **_statistics(error[count >= least])} for least in _RETURNS]
    return {"map": str(stored.folder), "source": source.location, "known_nodes": len(error), "seen": rows}


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


def _count(seen: dict[Key, np.ndarray], points: np.ndarray, spacing: float) -> None:
    column, row = np.floor(points[:, :2] / spacing).astype(np.int64).T
    tiles = np.stack([row // SIDE, column // SIDE], axis=1)
    for row_of_tiles, column_of_tiles in np.unique(tiles, axis=0).tolist():
        if (row_of_tiles, column_of_tiles) in seen:
            here = (tiles == (row_of_tiles, column_of_tiles)).all(axis=1)
            np.add.at(seen[row_of_tiles, column_of_tiles], (row[here] % SIDE, column[here] % SIDE), 1)
