# SPDX-License-Identifier: Apache-2.0
"""A scene at an instant: terrain, solids and their motion, ready for casting."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roadbed.core.errors import ConfigError
from roadbed.core.geometry import Float64, Pose
from roadbed.simulate.ground_ray import Bounds
from roadbed.simulate.motion import Bodies, Path, bodies_at
from roadbed.simulate.objects import SEMANTICS, SceneObject
from roadbed.simulate.solids import NO_SOLIDS, Movements, Solids, join, placed, select
from roadbed.simulate.terrain import Terrain

SWATH = 130.0  # m around the ego path that is modelled
VEHICLE_BASE = 2.6, 1.5  # m, wheelbase and track of the ego vehicle
MOVING_SPEED = 0.1  # m/s above which an object counts as moving


@dataclass(frozen=True)
class Instant:
    """The solids near the ego vehicle at one time. SceneObject k has the identity k + 1."""

    time: float
    solids: Solids
    movements: Movements  # one row per object of the scene
    poses: dict[int, Pose]  # T_world_object of nearby objects


@dataclass(frozen=True)
class Scene:
    """Terrain, the objects on it, and the path of the ego vehicle."""

    name: str
    terrain: Terrain
    objects: tuple[SceneObject, ...]
    ego_path: Path
    duration: float  # s that the scene is made for

    def __post_init__(self) -> None:
        if self.duration <= 0:
            raise ConfigError(f"scene {self.name}: duration {self.duration}: expected a time above 0 s")

    def vehicle(self, times: Sequence[float]) -> Bodies:
        """The ego vehicle at several times."""
        base, upright = np.array([VEHICLE_BASE]), np.array([False])
        moments = [bodies_at(self.terrain, [self.ego_path], time, base, upright) for time in times]
        return Bodies(*(np.concatenate(columns) for columns in zip(*moments)))

    def bounds(self, times: Float64) -> Bounds:
        """Bounds of the terrain around the ego vehicle at the given times."""
        positions = np.array([self.ego_path.at(self.terrain, float(time))[:2] for time in times])
        x_min, y_min = positions.min(axis=0) - SWATH
        x_max, y_max = positions.max(axis=0) + SWATH
        return self.terrain.bounds(x_min, x_max, y_min, y_max)

    @cached_property
    def _still(self) -> tuple[dict[int, Pose], Solids]:
        """Poses and solids of objects that never move."""
        return self._place([row for row, obj in enumerate(self.objects) if not obj.path.moves], 0.0)[:2]

    @cached_property
    def _movers(self) -> list[int]:
        return [row for row, obj in enumerate(self.objects) if obj.path.moves]

    def _place(self, rows: list[int], time: float) -> tuple[dict[int, Pose], Solids, Bodies]:
        """Poses, solids and motion of some objects at a time."""
        objects = [self.objects[row] for row in rows]
        base = np.array([obj.base for obj in objects]).reshape(-1, 2)
        upright = np.array([not obj.leans for obj in objects], bool)
        bodies = bodies_at(self.terrain, [obj.path for obj in objects], time, base, upright)
        poses = {row: Pose(bodies.rotation[k], bodies.translation[k]) for k, row in enumerate(rows)}
        groups = [
            placed(obj.solids, bodies.rotation[k], bodies.translation[k], row)
            for k, (row, obj) in enumerate(zip(rows, objects))
        ]
        return poses, join(groups or [NO_SOLIDS]), bodies

    def at(self, time: float) -> Instant:
        """Everything within the swath around the ego vehicle at a time."""
        here = self.ego_path.at(self.terrain, time)
        still_poses, still = self._still
        poses = {row: pose for row, pose in still_poses.items() if self._near(row, pose.translation, here)}
        solids = select(still, np.isin(still.object, np.fromiter(poses, np.int64, len(poses))))
        movers = [row for row in self._movers if self._near(row, self.objects[row].path.at(self.terrain, time), here)]
        mover_poses, mover_solids, bodies = self._place(movers, time)
        poses |= mover_poses
        count = len(self.objects)
        movements = Movements(np.zeros((count, 3)), np.zeros((count, 3)), np.zeros(count))
        for row, pose in poses.items():
            movements.origin[row] = pose.translation
        movements.velocity[movers] = bodies.velocity
        movements.yaw_rate[movers] = np.einsum("ni,ni->n", bodies.rotation[:, 2], bodies.rate)
        solids = join([solids, mover_solids])
        for mover in np.flatnonzero(np.linalg.norm(movements.velocity, axis=1) > MOVING_SPEED):
            static, moving = SEMANTICS[self.objects[mover].kind]
            solids.semantic[(solids.object == mover) & (solids.semantic == static)] = moving
        return Instant(time, solids, movements, poses)

    def _near(self, row: int, position: Sequence[float] | Float64, here: Sequence[float]) -> bool:
        reach = SWATH + max(self.objects[row].length, self.objects[row].width)
        return math.hypot(position[0] - here[0], position[1] - here[1]) < reach
