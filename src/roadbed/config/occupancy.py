# SPDX-License-Identifier: Apache-2.0
"""Parameters of the occupancy stages: observation grid, fusion, particle filter, objects."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roadbed.config.base import Stage


class GridConfig(Stage):
    """The occupancy grid around the vehicle."""

    length: float = Field(80.0, gt=0, le=2000, description="m along x")
    width: float = Field(80.0, gt=0, le=2000, description="m along y")
    resolution: float = Field(0.2, ge=0.02, le=5, description="m per cell")


class FusionConfig(Stage):
    """How the sensors' grids become one."""

    rule: Literal["linear", "independent", "logarithmic", "dempster"] = "linear"


class OccupancyConfig(Stage):
    """Observation grid, fusion and the occupancy filter."""

    grid: GridConfig = GridConfig()
    fusion: FusionConfig = FusionConfig()
