# SPDX-License-Identifier: Apache-2.0
"""A scene at an instant: terrain, solids and their motion, ready for casting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roadbed.errors import ConfigError
from roadbed.frames import Float64, Pose
from roadbed.simulate.motion import Path, body_motion, body_pose
from roadbed.simulate.solids import Movements, Solids, join, select
from roadbed.simulate.terrain import Bounds, Terrain
from roadbed.simulate.things import SEMANTICS, Part, Thing

SWATH = 130.0  # m around the drive that is modelled
MOVING_SPEED = 0.1  # m/s above which a thing counts as moving


@dataclass(frozen=True)
class Instant:
    """The solids near the own vehicle at one time. Thing k has the identity k + 1."""

    time: float
    solids: Solids
    movements: Movements  # one row per thing of the scene
    poses: dict[int, Pose]  # T_world_thing of the things near by


@dataclass(frozen=True)
class Scene:
    """Terrain, things on it, and the drive through them."""

    name: str
    terrain: Terrain
    things: tuple[Thing, ...]
    drive: Path  # of the own vehicle
    duration: float  # s that the scene is made for

    def __post_init__(self) -> None:
        if self.duration <= 0:
            raise ConfigError(f"scene {self.name}: duration {self.duration}: expected a time above 0 s")

    def T_world_vehicle(self, time: float) -> Pose:
        return body_pose(self.terrain, self.drive, time)

    def vehicle_motion(self, time: float) -> tuple[Float64, Float64]:
        """Velocity in the world and rotation rate in the vehicle frame."""
        return body_motion(self.terrain, self.drive, time)

    def bounds(self, times: Float64) -> Bounds:
        """Bounds of the terrain around the drive at the given times."""
        places = np.array([self.drive.at(self.terrain, float(time))[:2] for time in times])
        x_min, y_min = places.min(axis=0) - SWATH
        x_max, y_max = places.max(axis=0) + SWATH
        return self.terrain.bounds(x_min, x_max, y_min, y_max)

    @cached_property
    def _still(self) -> tuple[dict[int, Pose], Solids]:
        """Things that never move: their poses and solids."""
        placed = [
            (row, thing, thing_pose(self.terrain, thing, 0.0))
            for row, thing in enumerate(self.things)
            if not thing.path.moves
        ]
        return {row: pose for row, _, pose in placed}, pack(placed)

    def at(self, time: float) -> Instant:
        """Everything within the swath around the own vehicle at a time."""
        here = np.array(self.drive.at(self.terrain, time)[:2])
        still_poses, still = self._still
        poses = {row: pose for row, pose in still_poses.items() if _near(pose.translation, here, self.things[row])}
        movements = Movements(
            np.zeros((len(self.things), 3)), np.zeros((len(self.things), 3)), np.zeros(len(self.things))
        )
        movers = []
        for row, thing in enumerate(self.things):
            if not thing.path.moves or not _near(np.array(thing.path.at(self.terrain, time)), here, thing):
                continue
            poses[row] = thing_pose(self.terrain, thing, time)
            velocity, rate = body_motion(self.terrain, thing.path, time, **_footprint(thing))
            movements.velocity[row] = velocity
            movements.yaw_rate[row] = (poses[row].rotation @ rate)[2]
            movers.append((row, thing, poses[row]))
        for row, pose in poses.items():
            movements.origin[row] = pose.translation
        chosen = np.isin(still.thing, np.fromiter(poses, np.int64, len(poses)))
        solids = join(select(still, chosen), pack(movers))
        self._mark_moving(solids, movements)
        return Instant(time, solids, movements, poses)

    def _mark_moving(self, solids: Solids, movements: Movements) -> None:
        """A moving thing has its own class."""
        for row in np.flatnonzero(np.linalg.norm(movements.velocity, axis=1) > MOVING_SPEED):
            standing, moving = SEMANTICS[self.things[row].kind]
            solids.semantic[(solids.thing == row) & (solids.semantic == standing)] = moving


def _near(place: Float64, here: Float64, thing: Thing) -> bool:
    return bool(np.hypot(*(place[:2] - here)) < SWATH + max(thing.length, thing.width))


def _footprint(thing: Thing) -> dict[str, float]:
    """The base that a thing rests on: slim things stay upright on slopes of their own size."""
    return {"length": max(0.6 * thing.length, 0.4), "width": max(0.8 * thing.width, 0.4)}


def thing_pose(terrain: Terrain, thing: Thing, time: float) -> Pose:
    """T_world_thing: wheels follow the ground, everything else stands upright on it."""
    if thing.kind in ("car", "truck", "cyclist", "obstacle"):
        return body_pose(terrain, thing.path, time, **_footprint(thing))
    x, y, heading = thing.path.at(terrain, time)
    return Pose.from_euler(x, y, float(terrain.height(x, y)), yaw=heading)


def pack(placed: list[tuple[int, Thing, Pose]]) -> Solids:
    """Parts of placed things as arrays, in the world."""
    rows: list[tuple[int, Thing, Part, Pose]] = []
    for row, thing, pose in placed:
        for part in thing.parts:
            local = Pose.from_euler(*part.centre, pitch=part.pitch, roll=part.roll)
            rows.append((row, thing, part, pose @ local))
    return Solids(
        np.array([part.shape for _, _, part, _ in rows], np.int8),
        np.array([pose.translation for *_, pose in rows]).reshape(-1, 3),
        np.array([pose.rotation.T for *_, pose in rows]).reshape(-1, 3, 3),
        np.array([part.half for _, _, part, _ in rows], np.float64).reshape(-1, 3),
        np.array([part.density for _, _, part, _ in rows], np.float64),
        np.array([part.reflectivity for _, _, part, _ in rows], np.float64),
        np.array([row for row, *_ in rows], np.int32),
        np.array([part.semantic or SEMANTICS[thing.kind][0] for _, thing, part, _ in rows], np.uint16),
    )
