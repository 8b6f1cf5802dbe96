# SPDX-License-Identifier: Apache-2.0
"""Occupancy cell by cell against the simulator's truth: ranking, calibration, static, moving and free cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from roadbed.core.frames import OccupancyFrame
from roadbed.core.geometry import Pose
from roadbed.evaluate.metrics import percent

if TYPE_CHECKING:
    from roadbed.simulate.truth import FrameTruth

OCCUPIED = 0.6  # occupancy from which a cell counts as occupied
FREE = 0.2  # occupancy up to which it counts as free
HIT = 0.5  # probability of an observation above which a cell was hit
SEEN_BELOW = 1.0  # m over the ground under which a beam must pass, or end, for a cell to be visible
_LEVELS = 1000  # steps of probability for ranking
_BINS = 10  # of the calibration curve


class TruthScorer:
    """Counts over all frames after the first `warm_up` seconds, on visible cells."""

    def __init__(self, warm_up: float = 1.0) -> None:
        self.warm_up = warm_up
        self._start: float | None = None
        self._occupied = np.zeros(_LEVELS, np.int64)  # visible cells by predicted occupancy, truly occupied
        self._empty = np.zeros(_LEVELS, np.int64)  # the same, truly empty
        self._static = np.zeros(3, np.int64)  # hits, false alarms, misses
        self._dynamic = np.zeros(3, np.int64)
        self._dynamic_hits = np.zeros(3, np.int64)  # the same if all hits on movers counted as moving
        self._free = np.zeros(2, np.int64)  # cells called free, and of them truly occupied
        self._standing = np.zeros(2)  # dynamic, and static + dynamic mass on static objects

    def add(self, frame: OccupancyFrame, truth: FrameTruth, T_grid_sensor: Pose) -> None:
        """One frame; `T_grid_sensor` takes the scan's points to the frame's grid."""
        self._start = frame.time if self._start is None else self._start
        if frame.time < self._start + self.warm_up - 1e-6:
            return
        there = truth.occupancy(frame.grid, T_grid_sensor, seen_below=SEEN_BELOW)
        # An occupied cell is seen where a beam ends in it: beams also pass under and over objects.
        ended = _hit_cells(frame, truth, T_grid_sensor)
        visible = np.where(there.occupied, ended, there.visible)
        level = np.minimum((frame.occupied * _LEVELS).astype(int), _LEVELS - 1)
        self._occupied += np.bincount(level[visible & there.occupied], minlength=_LEVELS)
        self._empty += np.bincount(level[visible & ~there.occupied], minlength=_LEVELS)

        occupied = frame.occupied > OCCUPIED
        moves = occupied & (frame.dynamic > frame.static)
        stands = occupied & ~moves
        self._dynamic += _confusion(moves, there.occupied & there.moving, visible)
        if frame.observation is not None:
            on_movers = _around(there.occupied & there.moving) & (there.moving | ~there.occupied)
            hits = (frame.observation > HIT) & on_movers
            self._dynamic_hits += _confusion(hits, there.occupied & there.moving, visible)
        self._static += _confusion(stands, there.occupied & ~there.moving, visible)

        free = (frame.occupied < FREE) & there.visible
        self._free += (np.count_nonzero(free), np.count_nonzero(free & _interior(there.occupied)))
        still = visible & there.occupied & ~there.moving
        dynamic = float(frame.dynamic[still].sum())
        self._standing += (dynamic, dynamic + float(frame.static[still].sum()))

    def result(self) -> dict[str, Any]:
        """Areas and shares, None where nothing was there to count."""
        total = self._occupied + self._empty
        per_bin = total.reshape(_BINS, -1).sum(axis=1)
        true = self._occupied.reshape(_BINS, -1).sum(axis=1)
        middles = (np.arange(_LEVELS) + 0.5) / _LEVELS
        said = (total * middles).reshape(_BINS, -1).sum(axis=1)
        filled = per_bin > 0
        curve = [
            {"predicted": round(float(s / n), 4), "observed": round(float(t / n), 4), "cells": int(n)}
            for s, t, n in zip(said[filled], true[filled], per_bin[filled])
        ]
        error = np.abs(said - true).sum() / max(per_bin.sum(), 1)
        return {
            "occupancy_auc": self._auc(),
            "calibration_error": float(error),
            "calibration": curve,
            "static_iou": _iou(self._static),
            "dynamic_iou": _iou(self._dynamic),
            "dynamic_iou_of_hits": _iou(self._dynamic_hits),
            "free_space_violations_percent": percent(self._free[1], self._free[0]),
            "standing_dynamic_percent": percent(*self._standing),
        }

    def _auc(self) -> float | None:
        """Chance that an occupied cell is given a higher occupancy than an empty one."""
        occupied, empty = self._occupied.sum(), self._empty.sum()
        if not occupied or not empty:
            return None
        below = np.cumsum(self._empty) - self._empty
        return float((self._occupied * (below + 0.5 * self._empty)).sum() / (float(occupied) * float(empty)))


def _hit_cells(frame: OccupancyFrame, truth: FrameTruth, T_grid_sensor: Pose) -> NDArray[np.bool_]:
    """Cells in which a beam ended on an object."""
    on_objects = truth.points_world[(truth.object_id > 0) & ~truth.spurious]
    ends = (T_grid_sensor @ truth.T_world_sensor.inverse()) @ on_objects
    cell = frame.grid.index(ends[:, 0], ends[:, 1])
    hit = np.zeros(frame.grid.size, bool)
    hit[cell[cell >= 0]] = True
    return hit.reshape(frame.grid.shape)


def _confusion(said: NDArray[np.bool_], true: NDArray[np.bool_], visible: NDArray[np.bool_]) -> NDArray[np.int64]:
    pairs = (said & true, said & ~true, ~said & true)
    return np.array([np.count_nonzero(pair & visible) for pair in pairs])


def _interior(occupied: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Occupied cells that are not at the rim of an object: a cell that an object only touches may be mostly free."""
    inner = occupied.copy()
    for axis in (0, 1):
        for step in (1, -1):
            inner &= np.roll(occupied, step, axis)
    return inner


def _around(cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.any(sliding_window_view(np.pad(cells, 1), (3, 3)), axis=(2, 3))


def _iou(counts: NDArray[np.int64]) -> float | None:
    return float(counts[0] / counts.sum()) if counts.sum() else None
