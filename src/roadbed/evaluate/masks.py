# SPDX-License-Identifier: Apache-2.0
"""Regions with unannotated moving objects, which are excluded from the count of false alarms.

A mask file is JSON: `rectangles` of [x_min, x_max, y_min, y_max], `strips` of [x_0, y_0, x_1, y_1, radius], both always
masked, and `passers`: regions that objects cross, each {"rectangle" or "strip", "radius", "frames"?}. A cell of such a
region that an object crossed (hit in few scans, ground in others) masks its surroundings while it is hit.
"""

import json
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.io.files import read_text

CELL = 0.2  # m, cells of passers
MOST_HITS, LEAST_GROUND = 12, 8  # scans in which a crossed cell is hit at most, and is ground at least


Passers = tuple[tuple[float, ...], float]  # a region (4 numbers: rectangle, 5: strip), and the radius it masks, m


class Masks:
    """World-frame masks of one sequence; `update` finds crossing objects from the scans themselves."""

    def __init__(self, rectangles: list, strips: list, passers: list[Passers]) -> None:
        self.rectangles, self.strips, self.passers = rectangles, strips, passers
        self._hits: list[dict[int, NDArray[np.int64]]] = []
        self._ground: list[dict[int, NDArray[np.int64]]] = []
        self._crossings: list[NDArray] = []

    @classmethod
    def load(cls, path: str | Path) -> Self:
        try:
            content = json.loads(read_text(path))
            passers = [
                (tuple(float(v) for v in item.get("rectangle") or item["strip"]), float(item["radius"]))
                for item in content.get("passers", [])
            ]
            rectangles = [tuple(float(v) for v in item) for item in content.get("rectangles", [])]
            strips = [tuple(float(v) for v in item) for item in content.get("strips", [])]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise InputError(f"{path}: expected a mask file with rectangles, strips and passers ({error})") from None
        if any(len(item) != 4 for item in rectangles) or any(len(item) != 5 for item in strips):
            raise InputError(f"{path}: expected 4 numbers per rectangle and 5 per strip")
        return cls(rectangles, strips, passers)

    def update(self, x: NDArray, y: NDArray, height: NDArray) -> None:
        """Add one scan: x and y of its points in the world, and their heights over the ground, m."""
        hits, ground = {}, {}
        for k, (region, _) in enumerate(self.passers):
            near = _covers(region, x, y)
            hits[k] = _cells(x, y, near & (height > 0.3) & (height < 2.3))
            ground[k] = _cells(x, y, near & (height > -0.3) & (height < 0.1))
        self._hits.append(hits)
        self._ground.append(ground)
        self._crossings.clear()

    def covers(self, frame: int, x: NDArray, y: NDArray) -> NDArray[np.bool_]:
        """Which points (x, y) are masked in frame number `frame`."""
        masked = np.zeros(np.shape(x), bool)
        for region in (*self.rectangles, *self.strips):
            masked |= _covers(region, x, y)
        if self.passers and not self._crossings:
            self._crossings = self._find_crossings()
        for px, py, radius, seen in self._crossings:
            if abs(frame - seen) <= 1:
                masked |= np.hypot(x - px, y - py) <= radius
        return masked

    def _find_crossings(self) -> list[NDArray]:
        crossings = []
        for k, (_, radius) in enumerate(self.passers):
            hit_cells, hit_counts = _counts([frame[k] for frame in self._hits])
            ground_cells, ground_counts = _counts([frame[k] for frame in self._ground])
            passed = np.intersect1d(
                hit_cells[hit_counts <= MOST_HITS], ground_cells[ground_counts >= LEAST_GROUND], assume_unique=True
            )
            for number, frame in enumerate(self._hits):
                for cell in np.intersect1d(frame[k], passed, assume_unique=True):
                    column, row = int(cell) >> 32, (int(cell) & 0xFFFFFFFF) - 2**31
                    crossings.append(np.array([(column + 0.5) * CELL, (row + 0.5) * CELL, radius, number]))
        return crossings


def _covers(region: tuple[float, ...], x: NDArray, y: NDArray) -> NDArray[np.bool_]:
    if len(region) == 4:
        x_min, x_max, y_min, y_max = region
        return (x > x_min) & (x < x_max) & (y > y_min) & (y < y_max)
    x_0, y_0, x_1, y_1, radius = region
    dx, dy = x_1 - x_0, y_1 - y_0
    along = np.clip(((x - x_0) * dx + (y - y_0) * dy) / (dx * dx + dy * dy), 0, 1)
    return np.hypot(x - x_0 - along * dx, y - y_0 - along * dy) <= radius


def _cells(x: NDArray, y: NDArray, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    column = np.floor(x[chosen] / CELL).astype(np.int64)
    row = np.floor(y[chosen] / CELL).astype(np.int64)
    return np.unique((column << 32) + (row + 2**31))


def _counts(frames: list[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if not frames:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    cells, counts = np.unique(np.concatenate(frames), return_counts=True)
    return cells, counts
