# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The occlusion filter as one kernel, whose phases several threads share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.ground.visibility.directions_cpu import find_directions, mark_directions, sort_by_direction
from roadbed.ground.visibility.model import MOST, SQUARES
from roadbed.ground.visibility.neighbours_cpu import grow_non_ground, list_non_ground, list_road, release_road
from roadbed.kernels.jit import njit
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk


class Work(NamedTuple):
    """Arrays shared by the phases, for N points."""

    cell: np.ndarray  # (N,) sensor and direction
    place: np.ndarray  # (N, 2) range and height over the sensor, m
    level: np.ndarray  # (N, 3) along the level axes
    start: np.ndarray  # (cells + 1,) zeros at first; where cells begin in
    order: np.ndarray  # (N,) the points in the order of their cells, and
    seen: np.ndarray  # (2, N) their ranges and heights
    used: np.ndarray  # (1,) cells that hold any
    squares: np.ndarray  # (2, SQUARES^2) zeros at first; lists of road and of what stands
    following: np.ndarray  # (N,)

    @classmethod
    def of(cls, count: int, cells: int) -> Work:
        """Room for so many points and cells."""
        whole, seen = np.empty((3, count), np.int32), np.empty((7, count))
        place, level = seen[:2].reshape(count, 2), seen[2:5].reshape(count, 3)
        start, squares = np.zeros(cells + 1, np.int32), np.zeros((2, SQUARES**2), np.int32)
        return cls(whole[0], place, level, start, whole[1], seen[5:], np.zeros(1, np.int32), squares, whole[2])


FIND, SORT, MARK, LIST_ROAD, RELEASE, LIST_NON_GROUND, GROW, PHASES = range(8)


@njit(cache=True, nogil=True)
def mark_non_ground(tasks, parts, views, densest, layered, work, non_ground):
    """`non_ground` (N,) of the points that cannot be ground, False at first; left so where the scan is dense.

    `views`: points, rotation to level axes, where the sensors stand, which of them saw each point, and the borders of
    directions.
    """
    count, cells = non_ground.shape[0], work.start.shape[0] - 1
    for phase in range(PHASES):
        mean = 0.0
        if phase > SORT:
            mean = work.start[cells] / max(work.used[0], 1)
            if mean > layered or (mean > densest and phase > MARK):
                return
        shares = 1 if phase in (SORT, LIST_ROAD, LIST_NON_GROUND) else parts
        part = first_chunk(tasks, phase)
        while part < shares:
            first_cell, last_cell = part * cells // shares, (part + 1) * cells // shares
            first, last = part * count // shares, (part + 1) * count // shares
            if phase == FIND:
                find_directions(first, last, views, work.cell, work.place, work.level)
            elif phase == SORT:
                work.used[0] = sort_by_direction(work.cell, work.place, work.start, work.order, work.seen)
            elif phase == MARK:
                sparse = mean <= densest
                most = MOST * (densest if sparse else layered)
                mark_directions(first_cell, last_cell, work.order, work.start, work.seen, most, sparse, non_ground)
            elif phase == LIST_ROAD:
                ordered = work.order[: work.start[cells]]
                list_road(ordered, work.level, work.squares[0], work.following, non_ground)
            elif phase == RELEASE:
                road = work.squares[0], work.following
                release_road(first_cell, last_cell, work.level, work.order, work.start, work.seen, *road, non_ground)
            elif phase == LIST_NON_GROUND:
                list_non_ground(work.level, work.squares[1], work.following, non_ground)
            else:
                grow_non_ground(first, last, work.level, work.squares[1], work.following, non_ground)
            part = next_chunk(tasks, phase)
        barrier(tasks, phase, shares)
