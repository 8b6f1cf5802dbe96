# SPDX-License-Identifier: Apache-2.0
"""Pose of the lattice, level around the vehicle along world or vehicle axes, and the motion of its prior."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from operator import sub
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.device_arrays import DeviceArray, to_host
from roadbed.core.errors import InputError
from roadbed.core.frames import Mounting
from roadbed.core.geometry import Grid, Pose, rotation_to_level
from roadbed.core.timeline import Link, Moment
from roadbed.ground.engine import (
    FrameOutput,
    GroundEngine,
    Misalignment,
    MovingMask,
    Placement,
    Rolled,
    Turned,
    Unaligned,
    Vehicle,
)
from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.sizes import lattice_of
from roadbed.mapping.best_estimate import BestEstimate

if TYPE_CHECKING:
    from roadbed.mapping.tile_store import TileStore

_HIGHEST_CLIMB = 4.0  # m above the base before a new base height is used, so that float32 stays exact


@dataclass(frozen=True, eq=False)
class GridPose:
    """Pose of one scan on the lattice."""

    lattice: Grid
    base: float  # m, base height of the engine in the lattice frame
    T_lattice_sensor: Pose
    T_lattice_vehicle: Pose
    T_world_grid: Pose | None  # None without odometry

    @cached_property
    def corner(self) -> tuple[float, float, float]:
        """m, the lattice's outer corner at the base height."""
        x_min, _, y_min, _ = self.lattice.extent
        return x_min, y_min, self.base

    def from_corner(self, pose: Pose) -> tuple[float, ...]:
        """The numbers of a pose, with its translation relative to the lattice's corner."""
        x, y, z = map(sub, pose.xyz, self.corner)
        return (*pose.numbers[:9], x, y, z)

    @cached_property
    def placement(self) -> Placement:
        numbers = np.array(self.from_corner(self.T_lattice_sensor))
        return Placement(numbers[:9].reshape(3, 3), numbers[9:], self.base)

    @cached_property
    def vehicle(self) -> Vehicle:
        (x, y, _), (x_min, y_min, _) = self.T_lattice_vehicle.xyz, self.corner
        return Vehicle(x - x_min, y - y_min)

    @property
    def road(self) -> float:
        """m, height of the road under the vehicle over the base."""
        return self.T_lattice_vehicle.xyz[2] - self.base

    def mask(self, cells: Grid, moving: NDArray[np.bool_] | DeviceArray) -> MovingMask:
        (x_min, _, y_min, _), (own_x, own_y, _) = cells.extent, self.corner
        corner = x_min - own_x, y_min - own_y
        if isinstance(moving, DeviceArray):
            return MovingMask(moving, cells.shape, corner, cells.spacing)
        mask = np.require(moving, np.bool_, ["C", "A", "W"])
        if mask.shape != cells.shape:
            raise InputError(f"moving: found a mask of shape {mask.shape}, expected {cells.shape} of its grid")
        return MovingMask(mask, mask.shape, corner, cells.spacing)

    def unaligned(self) -> Unaligned:
        return (*self.from_corner(self.T_lattice_sensor), *self.from_corner(self.T_lattice_vehicle)[9:])

    def corrected(self, by: Misalignment) -> Self:
        """The pose aligned with the prior surface: turned about the sensor, then lowered.

        Twin: `aligned` of align.cl.
        """
        tilt, lift = corrected_shares(by)
        turn = rotation_to_level(tilt * by.slope_x, tilt * by.slope_y)
        lower = lift * by.lift
        x, y, z = self.T_lattice_sensor.xyz
        u, v, w = Pose.of_numbers((*turn, 0.0, 0.0, 0.0)).of(x, y, z)
        correction = Pose.of_numbers((*turn, x - u, y - v, z - w - lower))
        sensor, vehicle = correction @ self.T_lattice_sensor, correction @ self.T_lattice_vehicle
        return replace(self, T_lattice_sensor=sensor, T_lattice_vehicle=vehicle)


def corrected_shares(by: Misalignment) -> tuple[float, float]:
    """The shares of a scan's tilt and lift that are corrected: ALIGNMENT_TRUST of what is beyond the dead zone."""
    tilt, lift = math.sqrt(by.slope_x * by.slope_x + by.slope_y * by.slope_y), abs(by.lift)
    dead_tilt, dead_lift = float(model.ALIGNMENT_DEAD_TILT), float(model.ALIGNMENT_DEAD_LIFT)
    return model.ALIGNMENT_TRUST * beyond(tilt, dead_tilt), model.ALIGNMENT_TRUST * beyond(lift, dead_lift)


def uncorrected(by: Misalignment) -> Misalignment:
    """What `GridPose.corrected` leaves of a misalignment."""
    tilt, lift = corrected_shares(by)
    return replace(by, lift=(1 - lift) * by.lift, slope_x=(1 - tilt) * by.slope_x, slope_y=(1 - tilt) * by.slope_y)


def beyond(size: float, dead: float) -> float:
    """The share of a misalignment of this size that is beyond the dead zone."""
    return 1 - dead / size if size > dead else 0.0


class GridTracker:
    """Moves the lattice and the engine's prior with the vehicle; the map stores nodes that leave the lattice."""

    def __init__(self, config: Config, engine: GroundEngine, long_term_map: TileStore | None) -> None:
        self._rolls = config.ground.time.motion == "rolling"
        self._engine, self._map = engine, long_term_map
        self.around_vehicle = lattice_of(config.ground)
        self._prior_lattice, self._prior_base = self.around_vehicle, 0.0
        self._single: GridPose | None = None
        self._best = None if long_term_map is None else BestEstimate(self.around_vehicle, long_term_map.surface)
        self.reset()

    def reset(self) -> None:
        """Prepare for the next sequence, which may have other axes; at its begin the map stores the prior."""
        self._T_lattice_world = self._map.T_map_world if self._map is not None else None

    def single(self, mounting: Mounting) -> GridPose:
        """Pose of a scan without odometry, on a lattice in the vehicle frame; cached while the mounting is the same."""
        pose = mounting.T_vehicle_sensor
        if self._single is None or self._single.T_lattice_sensor.numbers != pose.numbers:
            self._single = GridPose(self.around_vehicle, 0.0, pose, Pose.identity(), None)
        return self._single

    def follow(self, T_world_vehicle: Pose | None, mounting: Mounting, moment: Moment) -> tuple[GridPose, bool]:
        """Pose of a scan at this vehicle pose, and whether the engine's prior can be used."""
        if T_world_vehicle is None:
            return self.single(mounting), False
        if moment.link is Link.FIRST:
            self._store(np.ones(self._prior_lattice.shape, np.bool_))
            self._engine.forget()
            if self._best is not None:
                self._best.clear()
        if not self._rolls:
            if moment.link is Link.NEXT:
                self._engine.move(Turned(moment.T_old_new, self.around_vehicle.x0, self.around_vehicle.y0))
            pose = replace(self.single(mounting), T_world_grid=T_world_vehicle)
            return pose, moment.link is Link.NEXT
        if self._T_lattice_world is None:
            self._T_lattice_world = _level_world(T_world_vehicle, mounting)
            if self._map is not None:
                self._map.begin(self._T_lattice_world)
        T_lattice_vehicle = self._T_lattice_world @ T_world_vehicle
        lattice, base = self._roll(T_lattice_vehicle, first=moment.link is Link.FIRST)
        T_lattice_sensor = T_lattice_vehicle @ mounting.T_vehicle_sensor
        pose = GridPose(lattice, base, T_lattice_sensor, T_lattice_vehicle, self._T_lattice_world.inverse())
        if moment.link is Link.FIRST:
            return pose, self._map is not None and bool((self._engine.prior[0] > model.KNOWN_PRIOR).any())
        return pose, True

    def keep(self, output: FrameOutput) -> None:
        """Make the engine's result its prior, and update the copy for the map."""
        self._engine.keep()
        if self._best is not None and self._prior_lattice is not self.around_vehicle:
            elevation, slope = to_host(output.elevation), to_host(output.slope)
            self._best.update(self._engine.prior, elevation - np.float32(self._prior_base), slope)

    def save_map(self) -> None:
        """Write everything known to the long-term map."""
        if self._map is not None:
            self._store(np.ones(self._prior_lattice.shape, np.bool_))
            self._map.flush()

    def _roll(self, T_lattice_vehicle: Pose, first: bool) -> tuple[Grid, float]:
        """Shift the prior by whole nodes, and after a climb use the road as new base height."""
        x, y, z = T_lattice_vehicle.xyz
        old, lattice, base = self._prior_lattice, self.around_vehicle.around(x, y), z
        columns = rows = 0
        if not first:
            columns, rows = old.steps_to(lattice)
            if self._map is not None and (columns or rows):
                self._store(old.outside(columns, rows))
            climb = z - self._prior_base
            if abs(climb) <= _HIGHEST_CLIMB:
                climb, base = 0.0, self._prior_base
            if columns or rows or climb:
                self._engine.move(Rolled(columns, rows, climb))
                if self._best is not None:
                    self._best.roll(columns, rows, climb)
        self._prior_lattice, self._prior_base = lattice, base
        if self._map is not None:
            self._load(np.ones(lattice.shape, np.bool_) if first else lattice.outside(-columns, -rows))
        return lattice, base

    def _store(self, leaving: NDArray[np.bool_]) -> None:
        """Store nodes that leave the lattice in the long-term map, if there is one."""
        if self._map is None or self._best is None or self._prior_lattice is self.around_vehicle:
            return
        if leaving.any():
            self._map.store(self._prior_lattice, self._best.information, self._prior_base, leaving)

    def _load(self, entering: NDArray[np.bool_]) -> None:
        """Load nodes that enter the lattice from the map; without a map they are undefined."""
        if self._map is None or self._best is None or not entering.any():
            return
        information = self._engine.prior
        if self._map.load(self._prior_lattice, information, self._prior_base, entering):
            self._engine.prior = information
            self._best.load(information, entering)


def _level_world(T_world_vehicle: Pose, mounting: Mounting) -> Pose:
    """T_lattice_world: identity if the mounting is given, else level and at height 0 at the first vehicle position."""
    if not mounting.estimated:
        return Pose.identity()
    up_x, up_y, up_z = T_world_vehicle.turned(0.0, 0.0, 1.0)
    level = Pose.of_numbers((*rotation_to_level(-up_x / up_z, -up_y / up_z), 0.0, 0.0, 0.0))
    x, y, z = T_world_vehicle.xyz
    u, v, w = level.of(x, y, z)
    return Pose.of_numbers((*level.numbers[:9], x - u, y - v, -w))
