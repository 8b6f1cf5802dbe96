# SPDX-License-Identifier: Apache-2.0
"""Truth per cell: the ground under a node, the object in a cell, and which cells a scan saw."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float64, Pose
from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import NO, YES, max
from roadbed.kernels.parallel import parallel_for
from roadbed.simulate.heightfield import Field, height
from roadbed.simulate.solids import SQUARE, Movements, SolidIndex, Solids, ray_interval_of
from roadbed.simulate.terrain import Terrain

_SAMPLES = 3  # along each edge of a cell
_SLACK = 0.3  # m below the ground at which a beam still counts as being in the cell


def ground_under(terrain: Terrain, x: Float64, y: Float64, T_world_frame: Pose) -> tuple[Float64, Float64]:
    """Height and slope (..., 2) of the ground above (x, y) of a frame, which may be tilted against the world."""
    rotation, translation = T_world_frame.rotation, T_world_frame.translation
    foot = rotation[:, 0] * x[..., None] + rotation[:, 1] * y[..., None] + translation
    up = rotation[:, 2]
    upright = abs(up[2] - 1) < 1e-12
    h, gradient = terrain.height_and_slope(foot[..., 0], foot[..., 1])
    z = (h - foot[..., 2]) / up[2]
    if not upright:
        for _ in range(30):  # the gap along the frame's vertical shrinks by the product of tilt and slope each time
            point = foot + z[..., None] * up
            h, gradient = terrain.height_and_slope(point[..., 0], point[..., 1])
            change = (h - point[..., 2]) / up[2]
            z = z + change
            if np.abs(change).max() < 1e-7:
                break
    normal = np.concatenate([-gradient, np.ones((*gradient.shape[:-1], 1))], axis=-1) @ rotation
    return z, -normal[..., :2] / normal[..., 2:]


class HeightBand(NamedTuple):
    """Cells of an edge of `spacing` metres around nodes, and the heights over the ground that count as theirs."""

    nodes: Float64  # (rows, columns, 3), in the world
    rotation: Float64  # from the cells' axes to the world's
    spacing: float
    above: float
    below: float


def occupants(
    band: HeightBand, field: Field, solids: Solids, movements: Movements, grid: SolidIndex
) -> NDArray[np.int32]:
    """(rows, columns) row of the object that reaches into the band over each cell, -1 where none does."""
    owner = np.full(band.nodes.shape[:2], -1, np.int32)
    parallel_for(_find_occupants, len(owner), band, field, solids, movements, grid, owner)
    return owner


@njit(cache=True, nogil=True)
def _find_occupants(first, last, band, field, solids, movements, grid, owner):
    nodes, rotation, spacing, above, below = band
    squares = grid.high.shape[0]
    for row in range(first, last):
        for column in range(nodes.shape[1]):
            for sample in range(_SAMPLES * _SAMPLES):
                a = ((sample % _SAMPLES + 0.5) / _SAMPLES - 0.5) * spacing
                b = ((sample // _SAMPLES + 0.5) / _SAMPLES - 0.5) * spacing
                x = nodes[row, column, 0] + rotation[0, 0] * a + rotation[0, 1] * b
                y = nodes[row, column, 1] + rotation[1, 0] * a + rotation[1, 1] * b
                square_x, square_y = int((x - grid.x0) // SQUARE), int((y - grid.y0) // SQUARE)
                if square_x < 0 or square_y < 0 or square_x >= squares or square_y >= squares:
                    continue
                square = square_y * squares + square_x
                if grid.start[square] == grid.start[square + 1]:
                    continue
                z = height(field, x, y, NO, YES)[0]
                for index in range(grid.start[square], grid.start[square + 1]):
                    part = np.int64(grid.items[index])
                    enter, leave = ray_interval_of(solids, movements, part, 0.0, x, y, z, 0.0, 0.0, 1.0)
                    if enter <= below and leave >= above and leave >= enter:
                        owner[row, column] = solids.object[part]
                        break
                if owner[row, column] >= 0:
                    break


@njit(cache=True)
def seen(origins, sensor, ends, x0, y0, spacing, elevation, below):
    """Cells that a beam crosses less than `below` over the ground, or in which it ends. All in the grid frame."""
    rows, columns = elevation.shape
    visible = np.zeros((rows, columns), np.bool_)
    for point in range(ends.shape[0]):
        origin, end = origins[sensor[point]], ends[point]
        reach = math.hypot(end[0] - origin[0], end[1] - origin[1])
        steps = max(1, math.ceil(reach / (0.5 * spacing)))
        for step in range(steps + 1):
            share = step / steps
            column = math.floor((origin[0] + share * (end[0] - origin[0]) - x0) / spacing + 0.5)
            row = math.floor((origin[1] + share * (end[1] - origin[1]) - y0) / spacing + 0.5)
            if column < 0 or row < 0 or column >= columns or row >= rows or visible[row, column]:
                continue
            over = origin[2] + share * (end[2] - origin[2]) - elevation[row, column]
            if -_SLACK <= over <= below:
                visible[row, column] = True
    return visible
