# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The slope-aware start: a second coarse start for hillsides, used where it explains clearly more lowest returns.

The level start never reaches a hillside, whose points are far above it and have no weight. The slope-aware start begins
at the lower envelope of all slopes up to the limit, so it does not depend on the tilt of the lattice, but it also
follows objects that hide the ground. Both are computed, and each region uses the better one. Twin: slope_start.cl.
"""

from typing import NamedTuple

import numpy as np

from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.points.node_classes_cpu import box_sum
from roadbed.ground.stcrf.points.select_cpu import UNSEEN
from roadbed.kernels.jit import inner, njit
from roadbed.kernels.numeric import FAST, F, U, max, min
from roadbed.kernels.scratch import uncounted
from roadbed.kernels.simd import STEP, load, splat, where
from roadbed.kernels.simd_reductions import sum_lanes


class SlopeArrays(NamedTuple):
    """Scratch of the slope-aware start, allocated once per lattice."""

    heights: np.ndarray  # (2, rows + 2, columns + 2) two buffers for the envelope
    counts: np.ndarray  # (3, rows, columns) lowest points: all, explained by the level start, by the sloped one
    sums: np.ndarray  # (5, rows, columns) the same summed over regions, the second over 3 x 3 nodes, then scratch


def slope_arrays(rows: int, columns: int) -> SlopeArrays:
    """Scratch for a lattice of coarse nodes."""
    heights = np.full((2, rows + 2, columns + 2), UNSEEN, np.float32)
    return SlopeArrays(heights, np.zeros((3, rows, columns), np.int32), np.zeros((5, rows, columns), np.int32))


@njit(cache=True)
def find_heights(lowest, shape, vehicle_x, vehicle_y, road, heights):
    """Height of each coarse node: its second lowest point, so that one stray return below ground has no effect."""
    z, reserved, length = lowest.z, lowest.reserved, lowest.length
    for row in range(shape.rows):
        for column in range(shape.columns):
            node = row * shape.columns + column
            first = second = UNSEEN
            for k in range(reserved[node], reserved[node] + length[node]):
                if z[k] < first:
                    first, second = z[k], first
                elif z[k] < second:
                    second = z[k]
            if second >= model.FAR_ABOVE:
                second = first if first < model.FAR_ABOVE else UNSEEN
            heights[row + 1, column + 1] = second
    row, column = np.int32(vehicle_y / shape.spacing), np.int32(vehicle_x / shape.spacing)
    if 0 <= row < shape.rows and 0 <= column < shape.columns:
        heights[row + 1, column + 1] = min(heights[row + 1, column + 1], road)


@njit(cache=True, fastmath=FAST)
def lower_envelope(heights, slope, shape):
    """Lower each node until it is not higher over a neighbour than `slope` allows; the result is in heights[0]."""
    straight = slope * shape.spacing
    across = straight * F(np.sqrt(2))
    for step in range(model.ENVELOPE_STEPS):
        old, new = heights[step % 2], heights[1 - step % 2]
        for r in range(1, shape.rows + 1):
            below, here, above, out = old[r - 1], old[r], old[r + 1], new[r]
            for c in range(U(1), U(shape.columns + 1)):
                sides = min(min(here[c - U(1)], here[c + U(1)]), min(below[c], above[c])) + straight
                corner = min(min(below[c - U(1)], below[c + U(1)]), min(above[c - U(1)], above[c + U(1)])) + across
                out[c] = min(here[c], min(sides, corner))


@inner()
def _height_or(heights, r, c, road):
    return heights[r, c] if heights[r, c] < model.FAR_ABOVE else road


@njit(cache=True)
def expect_envelope(heights, road, slope, shape, expected):
    """The envelope as expected planes; level at the border, and at height `road` where nothing is known."""
    double = F(2) * shape.spacing
    for row in range(shape.rows):
        r = row + 1
        for column in range(shape.columns):
            c = column + 1
            expected[r, 0, c] = _height_or(heights, r, c, road)
            expected[r, 1, c] = expected[r, 2, c] = F(0)
            if 0 < row < shape.rows - 1 and 0 < column < shape.columns - 1:
                rise_x = _height_or(heights, r, c + 1, road) - _height_or(heights, r, c - 1, road)
                rise_y = _height_or(heights, r + 1, c, road) - _height_or(heights, r - 1, c, road)
                expected[r, 1, c] = min(max(rise_x / double, -slope), slope)
                expected[r, 2, c] = min(max(rise_y / double, -slope), slope)


@njit(cache=True)
def count_explained(lowest, mean, shape, explained):
    """Count the lowest points of each node that are on its plane; padding points are far above."""
    for row in range(shape.rows):
        for column in range(shape.columns):
            node = row * shape.columns + column
            explained[row, column] = 0
            if lowest.length[node] == 0:
                continue
            h, sx, sy = mean[row + 1, 0, column + 1], mean[row + 1, 1, column + 1], mean[row + 1, 2, column + 1]
            tolerance = min(model.EXPLAINED + model.EXPLAINED_ON_SLOPES * (sx * sx + sy * sy), model.EXPLAINED_AT_MOST)
            first, n = U(lowest.reserved[node]), splat(F(0))
            for k in range(first, first + U(lowest.length[node]), STEP):
                dz = load(lowest.z, k) - (h + sx * load(lowest.x, k) + sy * load(lowest.y, k))
                n = n + where((dz < tolerance) & (dz > -tolerance), splat(F(1)), splat(F(0)))
            explained[row, column] = np.int32(sum_lanes(n))


@njit(inline="always")
def _is_better(points, level, sloped, own_is_sloped):
    """Whether the sloped start explains clearly more points of a region: many more, or nearly all of the region's or of
    the node's own."""
    more = sloped - level
    nearly_all = F(sloped) > model.SLOPE_NEARLY_ALL * F(points) or own_is_sloped
    enough = more > model.SLOPE_MANY_MORE or (more > model.SLOPE_SOME_MORE and nearly_all)
    return F(sloped) > model.SLOPE_BETTER * F(level) and enough


@njit(inline="always")
def _own_is_sloped(points, level, sloped, level_around):
    """Whether the sloped start explains nearly all points of a node and the level start hardly any, next to seen
    ground."""
    nearly_all = model.SLOPE_NEARLY_ALL * F(points)
    seen = points >= model.SLOPE_FEWEST and level_around >= model.SLOPE_FEWEST
    return seen and F(sloped) >= nearly_all and F(level) <= F(points) - nearly_all


@njit(cache=True)
def may_be_better(counts, sums):
    """Whether the slope-aware start would be used anywhere if it explained all points; writes sums[0] and sums[1]."""
    counts, sums = uncounted((counts, sums))
    box_sum(counts[0], model.SLOPE_REGION, sums[4], sums[0])
    box_sum(counts[1], model.SLOPE_REGION, sums[4], sums[1])
    for row in range(counts.shape[1]):
        for column in range(counts.shape[2]):
            if _is_better(sums[0, row, column], sums[1, row, column], sums[0, row, column], False):
                return True
    return False


@njit(cache=True)
def take_better(counts, sums, sloped_information, sloped_mean, information, mean):
    """Replace information and planes of the level start where the slope-aware start explains its region better."""
    counts, sums = uncounted((counts, sums))
    box_sum(counts[2], model.SLOPE_REGION, sums[4], sums[2])
    box_sum(counts[1], np.int64(1), sums[4], sums[3])
    for row in range(counts.shape[1]):
        for column in range(counts.shape[2]):
            own, level, sloped = counts[0, row, column], counts[1, row, column], counts[2, row, column]
            own_is_sloped = _own_is_sloped(own, level, sloped, sums[3, row, column])
            if _is_better(sums[0, row, column], sums[1, row, column], sums[2, row, column], own_is_sloped):
                for k in range(9):
                    information[row + 1, k, column + 1] = sloped_information[row + 1, k, column + 1]
                for k in range(3):
                    mean[row + 1, k, column + 1] = sloped_mean[row + 1, k, column + 1]
