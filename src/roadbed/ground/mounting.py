# SPDX-License-Identifier: Apache-2.0
"""Where the sensor sits over the road: estimated from the lowest returns around it, kept as a median over a drive."""

from __future__ import annotations

import math

import numpy as np

from roadbed.compute.arrays import to_host
from roadbed.config.ground import MountingConfig
from roadbed.frames import Mounting, Scan
from roadbed.geometry import Float32, Pose, rotation_to_level

_DEFAULT_HEIGHT = 1.8  # m, where nothing can be found and nothing is given
_LOWEST, _HIGHEST = 0.3, 4.0  # m, heights searched
_HINT = 0.4  # m around a given height
_STEEPEST = 0.27  # slope of the plane
_FEWEST_CELLS = 20
_CHECK_EVERY = 20  # scans between checks of a kept mounting
_MOVED, _TILTED = 0.15, 0.05  # m and slope by which the checks must differ to replace it


class Mountings:
    """The mounting of every sensor of a vehicle: what its scans say, or an estimate."""

    def __init__(self, config: MountingConfig) -> None:
        self.config = config
        self._estimators: dict[str, MountingEstimator] = {}

    def of(self, scan: Scan, notes: list[str]) -> Mounting:
        """The scan's mounting; with odometry it is kept over the drive, and a change is noted."""
        if scan.T_vehicle_sensor is not None:
            return Mounting(scan.T_vehicle_sensor, estimated=False)
        if scan.sensor not in self._estimators:
            self._estimators[scan.sensor] = MountingEstimator(self.config)
        estimator, points = self._estimators[scan.sensor], to_host(scan.points)
        if scan.T_world_sensor is None:
            return estimator.estimate(points)
        mounting, changed = estimator.track(points)
        if changed:
            notes.append(f"mounting of {scan.sensor} re-estimated: height {mounting.height:.2f} m")
        return mounting

    def reset(self) -> None:
        """Start estimating anew."""
        self._estimators.clear()


class MountingEstimator:
    """Estimates one sensor's mounting; `track` keeps the median over the first scans of a drive."""

    def __init__(self, config: MountingConfig) -> None:
        self.config = config
        side = math.ceil(2 * config.radius / config.cell)
        self._lowest = np.empty((side, side), np.int32)
        self._second = np.empty((side, side), np.int32)
        self._cells = np.empty((3, side * side), np.float64)
        self._planes: list[tuple[float, float, float, float]] = []
        self._checks: list[tuple[float, float, float, float]] = []
        self._scans = 0

    def estimate(self, points: Float32) -> Mounting:
        """From one scan alone, points in the sensor frame."""
        return self._mounting(*self._plane(points))

    def track(self, points: Float32) -> tuple[Mounting, bool]:
        """The median over the first good scans of a drive, checked now and then; True when it had to be replaced."""
        self._scans += 1
        changed = False
        if len(self._planes) < self.config.first_scans:
            plane = self._plane(points)
            if plane[3] > 0:
                self._planes.append(plane)
            elif not self._planes:
                return self._mounting(*plane), False
        elif self._scans % _CHECK_EVERY == 0:
            changed = self._check(self._plane(points))
        return self._mounting(*(float(v) for v in np.median(np.array(self._planes), axis=0))), changed

    def _check(self, plane: tuple[float, float, float, float]) -> bool:
        """Replace the kept planes when the latest checks agree that the sensor now sits elsewhere."""
        if plane[3] > 0:
            self._checks = [*self._checks, plane][-self.config.first_scans :]
        if len(self._checks) < self.config.first_scans:
            return False
        kept, seen = np.median(self._planes, axis=0), np.median(self._checks, axis=0)
        moved = abs(kept[0] - seen[0]) > _MOVED or np.hypot(*(kept[1:3] - seen[1:3])) > _TILTED
        if moved:
            self._planes, self._checks = self._checks, []
        return bool(moved)

    def _plane(self, points: Float32) -> tuple[float, float, float, float]:
        """Height along the plane's normal, slopes, quality."""
        from roadbed.ground.mounting_cpu import fit_plane, lowest_returns

        config = self.config
        hint = config.height
        n = lowest_returns(
            points,
            np.float32(config.cell),
            np.float32(config.radius),
            np.float32(1.0),
            np.float32(1.0),
            self._lowest,
            self._second,
            self._cells,
        )
        if n >= _FEWEST_CELLS:
            x, y, z = self._cells[0, :n], self._cells[1, :n], self._cells[2, :n]
            weight = 1 / (1 + (x**2 + y**2) / 64.0)
            low, high = (_LOWEST, _HIGHEST) if hint is None else (hint - _HINT, hint + _HINT)
            height, slope_x, slope_y, quality = fit_plane(x, y, z, weight, low, high, _STEEPEST, config.trials)
            if quality > config.smallest_quality:
                return height / math.sqrt(1 + slope_x**2 + slope_y**2), slope_x, slope_y, quality
        return (_DEFAULT_HEIGHT if hint is None else hint), 0.0, 0.0, 0.0

    def _mounting(self, height: float, slope_x: float, slope_y: float, quality: float) -> Mounting:
        config = self.config
        rotation = rotation_to_level(slope_x, slope_y)
        if config.pitch is not None or config.roll is not None:
            found = Pose(rotation, np.zeros(3))
            pitch = found.pitch if config.pitch is None else math.radians(config.pitch)
            roll = found.roll if config.roll is None else math.radians(config.roll)
            rotation = Pose.from_euler(pitch=pitch, roll=roll).rotation
        if config.height is not None:
            height = config.height
        given = None not in (config.height, config.pitch, config.roll)
        pose = Pose(rotation, np.array([0.0, 0.0, height]))
        return Mounting(pose, estimated=not given, quality=1.0 if given else quality)
