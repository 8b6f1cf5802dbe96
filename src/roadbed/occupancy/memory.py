# SPDX-License-Identifier: Apache-2.0
"""Refuse a grid that does not fit, before anything is allocated."""

from __future__ import annotations

from roadbed.config.occupancy import OccupancyConfig
from roadbed.errors import ConfigError
from roadbed.geometry import Lattice
from roadbed.memory import available_bytes
from roadbed.occupancy.hsbof import Hsbof

_FRAME_BYTES_PER_CELL = 60  # one frame given out, and the grids of observation and fusion


def bytes_needed(lattice: Lattice, config: OccupancyConfig) -> int:
    """Memory of the filter and of one frame."""
    return Hsbof.bytes_needed(lattice.size, config.filter.particles) + lattice.size * _FRAME_BYTES_PER_CELL


def check_memory(lattice: Lattice, config: OccupancyConfig) -> None:
    """Raise with the size needed when the grid and its particles are larger than the free memory."""
    needed, free = bytes_needed(lattice, config), available_bytes()
    if free is not None and needed > free:
        grid = config.grid
        raise ConfigError(
            f"occupancy.grid: {grid.length:g} x {grid.width:g} m at {grid.spacing:g} m "
            f"({lattice.size:,} cells) with {config.filter.particles:,} particles needs {needed / 2**30:.1f} GiB, "
            f"found {free / 2**30:.1f} GiB free"
        )
