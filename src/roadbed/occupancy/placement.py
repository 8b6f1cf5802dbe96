# SPDX-License-Identifier: Apache-2.0
"""Where the grid lies: around the vehicle, along fixed axes by whole cells, or turning with the vehicle."""

import math
from dataclasses import dataclass
from operator import sub

import numpy as np

from roadbed.config.occupancy import GridConfig
from roadbed.core.errors import ConfigError
from roadbed.core.frames import GroundFrame, Scan
from roadbed.core.geometry import Grid, Pose
from roadbed.occupancy.engine import GridMotion

_SAME = 1e-6  # m, rad: poses closer than this are one
_IDENTITY = Pose.identity()


@dataclass(frozen=True, eq=False)
class GridPlace:
    """Where the grid lies for one scan, and how it came there from the scan before."""

    grid: Grid  # of cells, along the grid's axes
    T_ground_grid: Pose | None  # None: the grid's axes are those of the ground's grid frame
    motion: GridMotion
    T_before_now: Pose | None  # the grid's axes now, in those of the scan before; None: they stay the same
    ego_velocity: tuple[float, float]  # m/s along the grid's axes


class GridPlacement:
    """Follows the vehicle. The home frame is the ground's grid frame at the first scan, fixed to the world."""

    def __init__(self, config: GridConfig) -> None:
        self.config = config
        self._lattice = lattice_of(config)
        self.reset()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return self._lattice.shape

    def reset(self) -> None:
        """The next scan is the first of a drive."""
        self._T_home_world: Pose | None = None
        self._T_home_vehicle: Pose | None = None
        self._T_home_grid = _IDENTITY

    def follow(self, scan: Scan, ground: GroundFrame, dt: float) -> GridPlace:
        """Move the grid to where the vehicle is now, `dt` seconds after the last scan."""
        T_ground_home, T_home_vehicle = self._vehicle_at_home(scan, ground)
        if self._T_home_world is None and scan.T_world_sensor is not None:
            self._T_home_world = ground.T_grid_sensor @ scan.T_world_sensor.inverse()
        before, self._T_home_vehicle = self._T_home_vehicle, T_home_vehicle
        T_home_before = self._T_home_grid
        rolls = self.config.motion == "rolling"  # along the home frame's axes
        motion = self._roll(T_home_vehicle) if rolls else self._turn(T_home_vehicle)
        T_ground_grid = T_ground_home if rolls else T_ground_home @ self._T_home_grid
        ego_velocity = (0.0, 0.0)
        if before is not None and dt > 0:
            travelled = map(sub, T_home_vehicle.xyz, before.xyz)
            x, y, _ = self._T_home_grid.inverse().turned(*travelled)
            ego_velocity = (x / dt, y / dt)
        apart = max(map(abs, map(sub, T_ground_grid.numbers, _IDENTITY.numbers)))
        return GridPlace(
            self._lattice,
            None if apart < _SAME else T_ground_grid,
            GridMotion() if before is None else motion,
            None if rolls else T_home_before.inverse() @ self._T_home_grid,
            ego_velocity,
        )

    def _vehicle_at_home(self, scan: Scan, ground: GroundFrame) -> tuple[Pose, Pose]:
        """T_ground_home and T_home_vehicle; the ground's grid frame may itself move with the vehicle."""
        if self._T_home_world is None or scan.T_world_sensor is None:
            return _IDENTITY, ground.T_grid_vehicle
        T_ground_home = ground.T_grid_sensor @ (self._T_home_world @ scan.T_world_sensor).inverse()
        return T_ground_home, T_ground_home.inverse() @ ground.T_grid_vehicle

    def _roll(self, T_home_vehicle: Pose) -> GridMotion:
        """By whole cells along the home frame's axes."""
        old, heading, (x, y, _) = self._lattice, T_home_vehicle.yaw, T_home_vehicle.xyz
        ahead = self.config.ahead
        self._lattice = old.around(x + ahead * math.cos(heading), y + ahead * math.sin(heading))
        return GridMotion.rolled(*old.steps_to(self._lattice), old.spacing)

    def _turn(self, T_home_vehicle: Pose) -> GridMotion:
        """With the vehicle: its heading is the grid's x axis."""
        config, before = self.config, self._T_home_grid
        self._lattice = Grid.centred(config.length, config.width, config.spacing, x=config.ahead)
        x, y, _ = T_home_vehicle.xyz
        self._T_home_grid = Pose.from_euler(x, y, yaw=T_home_vehicle.yaw)
        T_old_new = before.inverse() @ self._T_home_grid
        rotation = T_old_new.rotation[:2, :2]
        corner = np.array([self._lattice.extent[0], self._lattice.extent[2]])
        return GridMotion(rotation, rotation @ corner + T_old_new.translation[:2] - corner, None)


def lattice_of(grid: GridConfig) -> Grid:
    """The grid with the origin in its middle."""
    columns, rows = round(grid.length / grid.spacing), round(grid.width / grid.spacing)
    if columns < 1 or rows < 1:
        raise ConfigError(f"occupancy.grid: {grid.length:g} x {grid.width:g} m holds no cell of {grid.spacing:g} m")
    return Grid(0.0, 0.0, grid.spacing, columns, rows).around(0.0, 0.0)
