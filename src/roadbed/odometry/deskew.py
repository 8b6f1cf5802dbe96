# SPDX-License-Identifier: Apache-2.0
"""Deskewing: every point is moved to the sensor pose at the scan's time."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from roadbed.core.device_arrays import lies_on_device
from roadbed.core.errors import needs_extra
from roadbed.core.frames import Scan
from roadbed.core.geometry import Float64, Pose, rotation_of, rotation_vector
from roadbed.core.point_arrays import DESKEWED_TIME

_LONGEST_S = 2.0  # largest time between scans whose poses give a velocity


@dataclass(frozen=True, eq=False)
class Motion:
    """Velocity of the sensor at the time of a scan, in its own axes."""

    velocity: Float64  # (3,) m/s
    turn_rate: Float64  # (3,) rad/s

    @classmethod
    def between(cls, first: Scan | None, second: Scan | None) -> Self | None:
        """Constant motion from one scan to a later one; None without poses or times."""
        if first is None or second is None or first.time is None or second.time is None:
            return None
        if first.T_world_sensor is None or second.T_world_sensor is None:
            return None
        return cls.over(first.T_world_sensor.inverse() @ second.T_world_sensor, second.time - first.time)

    @classmethod
    def over(cls, T_old_new: Pose, seconds: float) -> Self | None:
        """Constant motion by `T_old_new` in `seconds`."""
        if not 0 < seconds <= _LONGEST_S:
            return None
        turn = rotation_vector(T_old_new.rotation)
        # On an arc the chord has the direction of the axes halfway through the turn.
        velocity = rotation_of(-turn / 2) @ T_old_new.translation / seconds
        return cls(velocity, turn / seconds)

    def mean(self, other: "Motion | None") -> "Motion":
        if other is None:
            return self
        return Motion((self.velocity + other.velocity) / 2, (self.turn_rate + other.turn_rate) / 2)


def deskew(scan: Scan, motion: Motion | None) -> Scan:
    """The scan as seen by a sensor at rest; computed on the host or on the GPU, where its points are.

    Without point times or motion the scan is returned unchanged. Points with NaN as time are not moved.
    """
    if scan.point_time is None or motion is None:
        return scan
    xp = _library(scan.points)
    points = xp.asarray(scan.points).astype(xp.float64)
    seconds = xp.nan_to_num(xp.asarray(scan.point_time).astype(xp.float64))
    speed = float(np.linalg.norm(motion.turn_rate))
    if speed > 1e-9:
        axis = xp.asarray(motion.turn_rate / speed)
        angle = (speed * seconds)[:, None]
        along = axis * (points @ axis)[:, None]
        points = along + (points - along) * xp.cos(angle) + xp.cross(axis, points) * xp.sin(angle)
    bend = np.cross(motion.turn_rate, motion.velocity) / 2  # on an arc the direction turns along the path
    points = points + seconds[:, None] * (xp.asarray(motion.velocity) + seconds[:, None] * xp.asarray(bend))
    # No reader takes this channel for times to deskew by.
    channels = {**scan.channels, DESKEWED_TIME: scan.channels.get(DESKEWED_TIME, scan.point_time)}
    return replace(scan, points=points.astype(xp.float32), point_time=None, channels=channels)


def _library(points: Any) -> Any:
    """NumPy, or CuPy for points in GPU memory."""
    if not lies_on_device(points):
        return np
    with needs_extra("cupy", "cuda", "motion distortion of points in GPU memory"):
        import cupy
    return cupy
