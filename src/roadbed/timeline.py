# SPDX-License-Identifier: Apache-2.0
"""A drive's poses: which scans follow each other, and which must not be joined to what came before."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from roadbed.config.ground import TimeConfig
from roadbed.frames import Mounting, Scan
from roadbed.geometry import Pose, rotation_to_level

if TYPE_CHECKING:
    from roadbed.mapping.tiles import TileMap


class Link(Enum):
    """How a scan relates to the ones before it."""

    ALONE = "no pose: nothing is used from other scans, nothing is kept"
    FIRST = "start of a drive, or of its next part after a jump or a long pause"
    NEXT = "follows the last scan"
    ASIDE = "late or repeated: the prior is used, the result is not kept"


@dataclass(frozen=True)
class Step:
    """One scan's place in the drive."""

    link: Link
    T_lattice_sensor: Pose
    T_lattice_vehicle: Pose
    T_old_new: Pose  # vehicle now -> vehicle at the last scan; identity unless it follows one
    notes: tuple[str, ...] = ()


class Drive:
    """Keeps the lattice frame and the last pose; `step` places one scan, `reset` starts over."""

    def __init__(self, config: TimeConfig, long_term_map: TileMap | None = None) -> None:
        self.config = config
        self.map = long_term_map
        self.reset()

    def reset(self) -> None:
        self.T_lattice_world = self.map.T_lattice_world if self.map is not None else None
        self._T_world_vehicle: Pose | None = None
        self._time: float | None = None
        self._time_of_sensor: dict[str, float] = {}

    def step(self, scan: Scan, mounting: Mounting) -> Step:
        T_vehicle_sensor = mounting.T_vehicle_sensor
        if scan.T_world_sensor is None:
            alone = ("no pose: this scan stands alone",) if self._T_world_vehicle is not None else ()
            return Step(Link.ALONE, T_vehicle_sensor, Pose.identity(), Pose.identity(), alone)
        T_world_vehicle = scan.T_world_sensor @ T_vehicle_sensor.inverse()
        link, notes = self._link(scan, T_world_vehicle)
        T_old_new = Pose.identity()
        if link in (Link.NEXT, Link.ASIDE) and self._T_world_vehicle is not None:
            T_old_new = self._T_world_vehicle.inverse() @ T_world_vehicle
        if self.config.motion == "vehicle":
            T_lattice_vehicle = Pose.identity()
        else:
            if self.T_lattice_world is None:
                self.T_lattice_world = self._level_world(T_world_vehicle, mounting)
                if self.map is not None:
                    self.map.begin(self.T_lattice_world)
            T_lattice_vehicle = self.T_lattice_world @ T_world_vehicle
        if link is not Link.ASIDE:
            self._remember(scan, T_world_vehicle)
        return Step(link, T_lattice_vehicle @ T_vehicle_sensor, T_lattice_vehicle, T_old_new, notes)

    def _remember(self, scan: Scan, T_world_vehicle: Pose) -> None:
        self._T_world_vehicle = T_world_vehicle
        if scan.time is not None:
            self._time = scan.time
            self._time_of_sensor[scan.sensor] = scan.time

    def _link(self, scan: Scan, T_world_vehicle: Pose) -> tuple[Link, tuple[str, ...]]:
        last = self._T_world_vehicle
        if last is None:
            return Link.FIRST, ()
        config = self.config
        seconds = None
        if scan.time is not None and self._time is not None:
            seconds = scan.time - self._time
            since_own = scan.time - self._time_of_sensor.get(scan.sensor, -np.inf)
            if since_own == 0:
                return Link.ASIDE, ("repeated scan: same sensor and time as before; not counted twice",)
            if since_own < 0:
                return Link.ASIDE, (f"late scan: {-since_own:.3f} s older than the last one; not kept",)
            if abs(seconds) > config.longest_pause:
                return Link.FIRST, (f"pause of {seconds:.1f} s: started cold",)
        metres, turn = last.distance_to(T_world_vehicle), last.angle_to(T_world_vehicle)
        farthest = config.largest_step if seconds is None else 1.0 + config.largest_speed * abs(seconds)
        if metres > farthest or turn > config.largest_turn:
            return Link.FIRST, (f"pose jump of {metres:.1f} m and {np.degrees(turn):.0f} degrees: started cold",)
        return Link.NEXT, ()

    @staticmethod
    def _level_world(T_world_vehicle: Pose, mounting: Mounting) -> Pose:
        """The world itself where the mounting is given; else turned level and lifted at the first vehicle position."""
        if not mounting.estimated:
            return Pose.identity()
        up = T_world_vehicle.rotation[:, 2]
        level = rotation_to_level(-up[0] / up[2], -up[1] / up[2])
        first = T_world_vehicle.translation
        target = np.array([first[0], first[1], 0.0])
        return Pose(level, target - level @ first)
