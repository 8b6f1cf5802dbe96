# SPDX-License-Identifier: Apache-2.0
"""Constants, argument struct and device program of the grid-variance method, shared by the CPU and devices."""

import math

import numpy as np

from roadbed.config.ground import VarianceConfig
from roadbed.core.frames import Label
from roadbed.core.geometry import Grid
from roadbed.runtime.program import Program

GROUP = 256
TILE = 16  # cells along a side of a tile in the classification
SIZE_CLASSES = 7  # of cells, by number of points: 1, 2, 3-4, 5-8, 9-16, 17-32, more
FARTHEST_HEIGHT = np.float32(1e4)  # m: heights beyond are not returns
UNITS_PER_METRE, METRES_PER_UNIT = np.float32(2.0**24), np.float32(2.0**-24)  # of heights in integer sums
MOST_SQUARES = np.float32(2.0**61)  # of a cell's deviations, in squared units
UNKNOWN, GROUND, OBSTACLE = np.uint8(Label.UNKNOWN), np.uint8(Label.GROUND), np.uint8(Label.OBSTACLE)

# Arguments of a frame for device kernels. An address of 0 stands for the engine's own buffer.
FRAME = np.dtype(
    [
        ("points", np.uint64),  # (count, 3) float
        ("label", np.uint64),  # outputs, one per point
        ("probability", np.uint64),
        ("height", np.uint64),
        ("cells", np.uint64),  # per cell with points: its index; twice its points, plus one when it is ground
        ("statistics", np.uint64),  # of these cells: mean, variance, lowest, highest
        ("occupied", np.uint64),  # how many there are
        ("count", np.int32),
    ],
    align=True,
)


def lattice_of(config: VarianceConfig) -> Grid:
    """The grid of cells, along the axes of the points; counts are rounded up (100 m at 0.3 m: 334 cells)."""
    limits, spacing = config.pointcloud_limits, config.spacing
    columns = math.ceil((limits.x_max - limits.x_min) / spacing)
    rows = math.ceil((limits.y_max - limits.y_min) / spacing)
    return Grid(limits.x_min + spacing / 2, limits.y_min + spacing / 2, spacing, columns, rows)


def program(config: VarianceConfig) -> Program:
    """An exact program: divisions and thresholds round the same on every backend, so labels are equal."""
    limits, grid = config.pointcloud_limits, lattice_of(config)
    constants: dict[str, int | float | np.generic] = {
        "GROUP": GROUP,
        "TILE": TILE,
        "SIZE_CLASSES": SIZE_CLASSES,
        "FARTHEST_HEIGHT": FARTHEST_HEIGHT,
        "UNITS_PER_METRE": UNITS_PER_METRE,
        "METRES_PER_UNIT": METRES_PER_UNIT,
        "MOST_SQUARES": MOST_SQUARES,
        "UNKNOWN": UNKNOWN,
        "GROUND": GROUND,
        "OBSTACLE": OBSTACLE,
        "COLUMNS": grid.columns,
        "ROWS": grid.rows,
        "CELLS": grid.size,
        "X_MIN": limits.x_min,
        "X_MAX": limits.x_max,
        "Y_MIN": limits.y_min,
        "Y_MAX": limits.y_max,
        "CELLS_PER_METRE": 1 / config.spacing,
        "FEWEST": config.point_number_threshold,
        "LARGEST_VARIANCE": config.min_variance_threshold,
        "TOLERANCE": config.height_threshold.ground,
    }
    return Program(("ground/variance/variance.cl",), constants, {"VarianceFrame": FRAME}, exact=True)
