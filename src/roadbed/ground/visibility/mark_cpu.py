# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The occlusion filter as one kernel; threads share its phases."""

from typing import NamedTuple, Self

import numpy as np

from roadbed.ground.visibility.directions_cpu import find_directions, find_lone, mark_directions, sort_by_direction
from roadbed.ground.visibility.model import LONE_FEWEST, LONE_SHARE, MANY_SHARE, MOST, SQUARES
from roadbed.ground.visibility.neighbours_cpu import grow_non_ground, list_non_ground, list_road, release_road
from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import max
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk


class Work(NamedTuple):
    """Arrays shared by the phases, for N points."""

    cell: np.ndarray  # (N,) sensor and direction
    range_height: np.ndarray  # (N, 2) from the sensor, m
    level: np.ndarray  # (N, 3) coordinates along the level axes, m
    start: np.ndarray  # (cells + 1,) where each cell begins in `order`; zeros before
    order: np.ndarray  # (N,) points sorted by cell
    seen: np.ndarray  # (2, N) ranges and heights in that order
    lone: np.ndarray  # (N,) in that order: the beam passed below another return and ended alone
    passed: np.ndarray  # (chunks, 3) number of such beams, of those that ended alone, and of directions with many beams
    used: np.ndarray  # (1,) number of cells with points
    squares: np.ndarray  # (2, SQUARES^2) heads of the lists of road and of non-ground returns; zeros before
    next_entry: np.ndarray  # (N,) of the linked lists

    @classmethod
    def of(cls, count: int, cells: int, chunks: int) -> Self:
        """Arrays for `count` points and `cells` cells, shared by threads in chunks."""
        whole, seen = np.empty((3, count), np.int32), np.empty((7, count))
        range_height, level = seen[:2].reshape(count, 2), seen[2:5].reshape(count, 3)
        start, squares = np.zeros(cells + 1, np.int32), np.zeros((2, SQUARES**2), np.int32)
        lone, passed, used = np.empty(count, np.uint8), np.zeros((chunks, 3), np.int64), np.zeros(1, np.int32)
        return cls(whole[0], range_height, level, start, whole[1], seen[5:], lone, passed, used, squares, whole[2])


FIND, SORT, LONE, MARK, LIST_ROAD, RELEASE, LIST_NON_GROUND, GROW, PHASES = range(9)


@njit(cache=True, nogil=True)
def mark_non_ground(tasks, most_chunks, views, limits, work, non_ground):
    """Set `non_ground` (N,), False before, for points that cannot be ground; a dense scan is left unchanged.

    `views`: points, rotation to level axes, sensor origins, the sensor of each point, and the borders of directions;
    `limits`: densest, layered and beams of `VisibilityModel`.
    """
    densest, layered, beams = limits
    count, cells = non_ground.shape[0], work.start.shape[0] - 1
    for phase in range(PHASES):
        sparse = has_strays = False
        if phase > SORT:
            mean = work.start[cells] / max(work.used[0], 1)
            sparse = mean <= densest
            if phase > LONE:
                passed = lone = many = 0
                for k in range(most_chunks):
                    passed, lone, many = passed + work.passed[k, 0], lone + work.passed[k, 1], many + work.passed[k, 2]
                sparse &= many <= MANY_SHARE * work.used[0]
                has_strays = lone >= LONE_FEWEST and lone > LONE_SHARE * passed
            if mean > layered or (phase > MARK and not sparse):
                return
        chunks = 1 if phase in (SORT, LIST_ROAD, LIST_NON_GROUND) else most_chunks
        chunk = first_chunk(tasks, phase)
        while chunk < chunks:
            first_cell, last_cell = chunk * cells // chunks, (chunk + 1) * cells // chunks
            first, last = chunk * count // chunks, (chunk + 1) * count // chunks
            if phase == FIND:
                find_directions(first, last, views, work.cell, work.range_height, work.level)
            elif phase == SORT:
                work.used[0] = sort_by_direction(work.cell, work.range_height, work.start, work.order, work.seen)
            elif phase == LONE:
                if sparse:
                    directions, most = views[4].shape[0] - 1, MOST * densest
                    given = directions, work.start, work.seen, most, beams, work.lone, work.passed[chunk]
                    find_lone(first_cell, last_cell, *given)
            elif phase == MARK:
                most = MOST * (densest if sparse else layered)
                given = work.order, work.start, work.seen, work.lone, most, sparse, has_strays
                mark_directions(first_cell, last_cell, *given, non_ground)
            elif phase == LIST_ROAD:
                ordered = work.order[: work.start[cells]]
                list_road(ordered, work.level, work.squares[0], work.next_entry, non_ground)
            elif phase == RELEASE:
                road = work.squares[0], work.next_entry
                release_road(first_cell, last_cell, work.level, work.order, work.start, work.seen, *road, non_ground)
            elif phase == LIST_NON_GROUND:
                list_non_ground(work.level, work.squares[1], work.next_entry, non_ground)
            else:
                grow_non_ground(first, last, work.level, work.squares[1], work.next_entry, non_ground)
            chunk = next_chunk(tasks, phase)
        barrier(tasks, phase, chunks)
