# SPDX-License-Identifier: Apache-2.0
"""Motion of objects and the ego vehicle: smooth paths on the plane, poses on the ground, odometry with errors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import ConfigError
from roadbed.core.geometry import Float64, Pose
from roadbed.simulate.rng import gaussian, make_key
from roadbed.simulate.terrain import Terrain

_TABLE_STEP = 0.25  # m of x between entries of the arc length table


@dataclass(frozen=True)
class Pace:
    """Distance travelled over time: starts at `begin` with `initial` m/s, gains `acceleration` up to `speed`."""

    speed: float  # m/s
    begin: float = -math.inf  # s; before it the object is at rest (with -inf it has always been at `speed`)
    acceleration: float = math.inf  # m/s^2

    def __post_init__(self) -> None:
        if self.speed < 0 or not self.acceleration > 0:
            raise ConfigError(
                f"pace of {self.speed} m/s with {self.acceleration} m/s^2: expected speed >= 0 and acceleration > 0"
            )

    def distance(self, time: float) -> float:
        """Metres since time 0 (since `begin` where it starts from rest)."""
        if not math.isfinite(self.begin):
            return self.speed * time
        elapsed = max(0.0, time - self.begin)
        gaining = min(elapsed, self.speed / self.acceleration)
        gained = 0.5 * self.acceleration * gaining**2 if math.isfinite(self.acceleration) else 0.0
        return gained + self.speed * (elapsed - gaining)


class Path:
    """Position of an object on the plane over time; fixed unless it `moves`."""

    def at(self, terrain: Terrain, time: float) -> tuple[float, float, float]:
        """x, y in metres and heading in radians."""
        raise NotImplementedError

    @property
    def moves(self) -> bool:
        return False


class _MovingPath(Path):
    pace: Pace

    @property
    def moves(self) -> bool:
        return self.pace.speed > 0


@dataclass(frozen=True)
class Fixed(Path):
    x: float
    y: float
    heading: float = 0.0

    def at(self, terrain: Terrain, time: float) -> tuple[float, float, float]:
        return self.x, self.y, self.heading


@dataclass(frozen=True)
class Roadside(Path):
    """Static, next to the road: x, distance from the centreline, and heading relative to the road."""

    x: float
    offset: float
    heading: float = 0.0  # relative to the road

    def at(self, terrain: Terrain, time: float) -> tuple[float, float, float]:
        y, slope = _lane(terrain, self.x, self.offset)
        return self.x, y, math.atan(slope) + self.heading


@dataclass(frozen=True)
class Along(_MovingPath):
    """Follows the road at a constant distance from its centreline; direction -1 drives towards smaller x."""

    start: float  # x at time 0
    offset: float  # m, left positive
    pace: Pace
    direction: int = 1

    def at(self, terrain: Terrain, time: float) -> tuple[float, float, float]:
        x = _advance(terrain, self.offset, self.start, self.direction * self.pace.distance(time))
        y, slope = _lane(terrain, x, self.offset)
        return x, y, math.atan(slope) + (math.pi if self.direction < 0 else 0.0)


@dataclass(frozen=True)
class Straight(_MovingPath):
    """Moves in a straight line from (x, y)."""

    x: float
    y: float
    heading: float
    pace: Pace

    def at(self, terrain: Terrain, time: float) -> tuple[float, float, float]:
        travelled = self.pace.distance(time)
        return self.x + travelled * math.cos(self.heading), self.y + travelled * math.sin(self.heading), self.heading


def _lane(terrain: Terrain, x: float, offset: float) -> tuple[float, float]:
    """y and dy/dx of the line at a constant distance from the centreline."""
    centre, first, second = terrain.centreline_at(x)
    stretch = math.sqrt(1 + first**2)
    return centre + offset * stretch, first + offset * first * second / stretch


def _advance(terrain: Terrain, offset: float, x: float, distance: float) -> float:
    """x after `distance` metres along the lane from x."""
    if not terrain.bends:
        return x + distance
    positions, lengths = _arc_length(terrain, offset)
    return float(np.interp(np.interp(x, positions, lengths) + distance, lengths, positions))


@lru_cache(maxsize=256)
def _arc_length(terrain: Terrain, offset: float) -> tuple[Float64, Float64]:
    """x and the length of the lane up to it, over any scene's extent."""
    x = np.arange(-2000.0, 6000.0, _TABLE_STEP)
    _, first, second = terrain.centreline(x + _TABLE_STEP / 2)
    slope = first + offset * first * second / np.sqrt(1 + first**2)
    length = np.concatenate([[0.0], np.cumsum(np.sqrt(1 + slope[:-1] ** 2) * _TABLE_STEP)])
    return x, length


class Bodies(NamedTuple):
    """Poses and motion of bodies that rest on the ground."""

    rotation: Float64  # (n, 3, 3) T_world_body
    translation: Float64  # (n, 3) m
    velocity: Float64  # (n, 3) m/s in the world
    rate: Float64  # (n, 3) rad/s in the body frame


def rest_on_ground(
    terrain: Terrain, states: Float64, base: Float64, upright: NDArray[np.bool_]
) -> tuple[Float64, Float64]:
    """Rotations and translations of bodies at (n, 3) x, y, heading. Pitch and roll follow the four corners of their
    (n, 2) length and width, except for those that stand upright."""
    heading = states[:, 2]
    zero = np.zeros_like(heading)
    forward = np.stack([np.cos(heading), np.sin(heading), zero], -1)
    left = np.stack([-forward[:, 1], forward[:, 0], zero], -1)
    ahead, aside = forward * base[:, :1] / 2, left * base[:, 1:] / 2
    corners = states[:, None, :2] + np.stack([ahead + aside, ahead - aside, aside - ahead, -ahead - aside], 1)[..., :2]
    heights = terrain.height(corners[..., 0], corners[..., 1])
    forward[:, 2] = np.where(upright, 0.0, (heights @ [1, 1, -1, -1]) / (2 * base[:, 0]))
    left[:, 2] = np.where(upright, 0.0, (heights @ [1, -1, 1, -1]) / (2 * base[:, 1]))
    forward /= np.linalg.norm(forward, axis=1, keepdims=True)
    up = np.cross(forward, left)
    up /= np.linalg.norm(up, axis=1, keepdims=True)
    rotation = np.stack([forward, np.cross(up, forward), up], -1)
    return rotation, np.column_stack([states[:, :2], heights.mean(axis=1)])


def bodies_at(
    terrain: Terrain, paths: Sequence[Path], time: float, base: Float64, upright: NDArray[np.bool_]
) -> Bodies:
    """Poses and motion of bodies at a time, by differences over 10 ms."""
    step = 0.005
    states = [path.at(terrain, time + shift) for shift in (-step, 0.0, step) for path in paths]
    rotation, translation = rest_on_ground(
        terrain, np.array(states).reshape(-1, 3), np.tile(base, (3, 1)), np.tile(upright, 3)
    )
    before, now, after = rotation.reshape(3, -1, 3, 3)
    turn = np.swapaxes(before, 1, 2) @ after
    rate = np.stack([turn[:, 2, 1] - turn[:, 1, 2], turn[:, 0, 2] - turn[:, 2, 0], turn[:, 1, 0] - turn[:, 0, 1]], -1)
    from_, here, to = translation.reshape(3, -1, 3)
    return Bodies(now, here, (to - from_) / (2 * step), rate / (4 * step))


@dataclass(frozen=True)
class Odometry:
    """Errors of the measured poses. All zero: exact."""

    scale: float = 0.0  # standard deviation of the constant error of distance, a share
    drift: float = 0.0  # m per square root of metre travelled
    yaw_drift: float = 0.0  # rad per square root of metre travelled
    noise: float = 0.0  # m, of each pose, not accumulated
    angle_noise: float = 0.0  # rad, of each pose, not accumulated

    def measure(self, true: list[Pose], seed: int) -> list[Pose]:
        """Poses with these errors; the first one is exact up to noise."""
        if self == Odometry():
            return list(true)
        key = np.uint64(make_key(seed, 7001, 0))
        stretch = 1 + self.scale * gaussian(key, 0)
        measured = [true[0]]
        for index in range(1, len(true)):
            key = np.uint64(make_key(seed, 7002, index))
            step = true[index - 1].inverse() @ true[index]
            root = np.sqrt(np.linalg.norm(step.translation))
            shift = stretch * step.translation + root * self.drift * np.array([gaussian(key, 2 * i) for i in range(3)])
            turn = Pose.from_euler(yaw=root * self.yaw_drift * gaussian(key, 6))
            measured.append(measured[-1] @ Pose(step.rotation @ turn.rotation, shift))
        return [pose @ self._jitter(seed, index) for index, pose in enumerate(measured)]

    def _jitter(self, seed: int, index: int) -> Pose:
        key = np.uint64(make_key(seed, 7003, index))
        x, y, z, yaw, pitch, roll = (gaussian(key, 2 * i) for i in range(6))
        angle = self.angle_noise
        return Pose.from_euler(
            x * self.noise, y * self.noise, z * self.noise, yaw=yaw * angle, pitch=pitch * angle, roll=roll * angle
        )


ODOMETRIES = {
    "exact": Odometry(),
    "drift": Odometry(scale=0.005, drift=0.01, yaw_drift=0.001),
    "noise": Odometry(noise=0.02, angle_noise=0.001),
    "drift+noise": Odometry(scale=0.005, drift=0.01, yaw_drift=0.001, noise=0.02, angle_noise=0.001),
}
