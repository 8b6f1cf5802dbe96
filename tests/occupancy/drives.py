# SPDX-License-Identifier: Apache-2.0
"""Simulated scans with their ground, as engines and device stages get them; made once per session."""

from functools import cache

from roadbed import Config, GroundFilter
from roadbed.config.occupancy import GridConfig
from roadbed.core.geometry import Pose
from roadbed.occupancy.engine import OccupancyInput
from roadbed.occupancy.placement import lattice_of
from tests.simulated import simulated

SMALL = Config.parse({"occupancy": {"grid": {"length": 40.0, "width": 36.0, "spacing": 0.2}}})


@cache
def segmented(sensor: str, frames: int) -> list:
    """Scans of a drive through the city, each with its ground frame."""
    ground = GroundFilter()
    return [(scan, ground(scan)) for scan in simulated(f"sim:city?sensor={sensor}", frames)]


def looked_at(scan, ground, grid: GridConfig = SMALL.occupancy.grid, yaw: float = 0.0) -> OccupancyInput:
    """A scan over a grid around its sensor, which may be turned against the ground's lattice."""
    turn = Pose.from_euler(yaw=yaw)
    x, y, _ = turn.inverse() @ ground.T_grid_sensor.translation
    lattice = lattice_of(grid).around(float(x), float(y))
    return OccupancyInput.of(scan, ground, lattice, turn, time=scan.time)
