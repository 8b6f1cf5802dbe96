# SPDX-License-Identifier: Apache-2.0
"""Refuse a grid that does not fit, before anything is allocated."""

from roadbed.config.occupancy import OccupancyConfig
from roadbed.core import memory
from roadbed.core.geometry import Grid
from roadbed.occupancy.hsbof.filter import Hsbof

_FRAME_BYTES_PER_CELL = 60  # one frame given out, and the grids of observation and fusion


def bytes_needed(lattice: Grid, config: OccupancyConfig) -> int:
    """Memory of the filter and of one frame."""
    return Hsbof.bytes_needed(lattice.size, config.filter.particles) + lattice.size * _FRAME_BYTES_PER_CELL


def check_memory(lattice: Grid, config: OccupancyConfig) -> None:
    """Raise with the size needed when the grid and its particles are larger than the free memory."""
    grid = config.grid
    cells = f"{grid.length:g} x {grid.width:g} m at {grid.spacing:g} m ({lattice.size:,} cells)"
    what = f"occupancy.grid: {cells} with {config.filter.particles:,} particles"
    memory.check_memory(what, bytes_needed(lattice, config))
