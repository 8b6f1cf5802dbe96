# SPDX-License-Identifier: Apache-2.0
"""Estimates the extrinsics of a sensor from the lowest returns around it; over a sequence their median is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from roadbed.config.ground import MountingConfig
from roadbed.core.device_arrays import to_host
from roadbed.core.errors import ConfigError
from roadbed.core.frames import Mounting, Scan
from roadbed.core.geometry import Float32, Pose, rotation_to_level
from roadbed.ground.mounting.level_surfaces import (
    Level,
    PlaneSupport,
    axis_up_instead,
    floor_and_table,
    is_one_sided,
    level_surfaces,
    plane_support,
    sampled_returns,
    why_not_ground,
)
from roadbed.ground.mounting.search import CAMERA, UPSIDE_DOWN, Candidate, candidate_frames

_RADIUS, _CELL = 15.0, 1.0  # m around the sensor, in cells of which each gives its lowest return
_TRIALS = 150  # planes
_SMALLEST_QUALITY = 0.25  # of a plane that is used
_FIRST_SCANS = 5  # of a sequence, whose median is kept
_DEFAULT_HEIGHT = 1.8  # m, where nothing can be found and nothing is given
_USUAL_HEIGHTS = (0.3, 4.0)  # m, searched first, below a nearly level sensor
_ANY_HEIGHT = (0.05, 15.0)  # m, searched where nothing convincing was found there
_HINT = 0.4  # m around a given height
_STEEPEST = 0.27  # slope of the plane
_FEWEST_CELLS = 20
_MOST_RETURNS = 50_000  # a larger scan is sampled by vectors of eight
_UNITS = {"centimetres": 100, "millimetres": 1000}  # per metre
_CONVINCING = 0.5  # quality from which no other frame is searched
_CLEARLY_BETTER = 0.1  # in quality, for an unusual mounting to be accepted
_UPSIDE_DOWN_FACTOR = 2.0  # times the trust of the plane below an upright sensor: rooms have ceilings
_DOUBTFUL, _SURE = 0.4, 0.8  # quality below which a mounting is doubtful, and from which it is not,
_SURE_AHEAD = 0.88  # and from which it is not if the ground is seen on one side of the sensor only,
_FEW_AHEAD, _SURE_FEW = 500, 0.95  # and, of so few columns, as four layers see: a plane fits them anywhere
_FLOOR_RANGE = 0.15  # m around the height of a floor that was preferred to a table
_LOWEST_SENSOR, _HIGHEST_SENSOR = 0.1, 5.0  # m over the ground; beyond, the points may be in another frame or unit
_TILT = 20.0  # degrees of a usual sensor
_CHECK_EVERY = 20  # scans between checks of the kept mounting
_MOVED, _TILTED = 0.15, 0.05  # m and slope by which the checks must differ to replace it
_UNSTEADY = 0.08  # slope by which the kept planes differ on uneven ground
_HOW_TO_GIVE = "give --height H, --mounting X Y Z ROLL PITCH YAW or Scan.T_vehicle_sensor"


class Plane(NamedTuple):
    """The ground below a nearly level sensor."""

    height: float  # m along the normal
    slope_x: float
    slope_y: float
    quality: float  # 0: none was found
    trust: float  # the quality, reduced where most returns are above the sensor: it may be upside down


_NONE = Plane(_DEFAULT_HEIGHT, 0.0, 0.0, 0.0, 0.0)


class MountingEstimate(NamedTuple):
    """The mounting for one scan."""

    mounting: Mounting
    note: str = ""  # message about an unusual or replaced mounting; empty: none
    other_axes: bool = False  # the points are in millimetres or in camera axes
    returns: Float32 | None = None  # (3, n) sampled, where doubts were looked for
    doubted: Callable[[], MountingEstimate] | None = None  # looks for doubts, which may change it; None: that was done


def _describe_tilt(T_vehicle_sensor: Pose) -> str:
    """Message about a tilt above that of usual sensors; empty for others."""
    tilt = math.degrees(math.acos(min(abs(float(T_vehicle_sensor.rotation[2, 2])), 1.0)))
    return f"{tilt:.0f} degrees against z, which points up in clouds (?origin=none)" if tilt > _TILT else ""


class Mountings:
    """The mounting of every sensor of a vehicle: given by its scans, or estimated."""

    def __init__(self, config: MountingConfig) -> None:
        self.config = config
        self._estimators: dict[str, MountingEstimator] = {}
        self._mounted: set[str] = set()  # sensors with mountings of their own

    def of(self, scan: Scan, doubt_later: bool = False) -> MountingEstimate:
        """The mounting for a scan; with odometry the estimate is kept over the sequence. `doubt_later`: the caller
        asks for doubts itself where the estimate says so, and computes meanwhile."""
        if scan.T_vehicle_sensor is not None:
            mounting = Mounting(T_vehicle_sensor=scan.T_vehicle_sensor, estimated=False)
            return MountingEstimate(mounting, self._not_used(scan.sensor))
        if not (self.config.estimate or self.config.is_given):
            raise ConfigError(
                f"mounting of {scan.sensor}: found none and ground.mounting.estimate off, expected it given: "
                f"--height H, --mounting X Y Z ROLL PITCH YAW or Scan.T_vehicle_sensor"
            )
        if scan.sensor not in self._estimators:
            self._estimators[scan.sensor] = MountingEstimator(self.config, scan.sensor)
        estimator, points = self._estimators[scan.sensor], to_host(scan.points)
        later = doubt_later and not scan.front
        found = estimator.estimate(points, later) if scan.T_world_sensor is None else estimator.track(points)
        if scan.front:  # points show height and tilt, but not the vehicle's heading
            ahead = Pose.from_euler(yaw=-scan.front) @ found.mounting.T_vehicle_sensor
            return found._replace(mounting=replace(found.mounting, T_vehicle_sensor=ahead))
        return found

    def _not_used(self, sensor: str) -> str:
        """With the first scan of a sensor that has a mounting: that the given values are not used."""
        is_first, given = sensor not in self._mounted, (self.config.height, self.config.pitch, self.config.roll)
        self._mounted.add(sensor)
        if not is_first or given == (None, None, None):
            return ""
        return f"mounting of {sensor}: its scans have one, so ground.mounting (--height) is not used"

    def reads(self, scan: Scan) -> bool:
        """Whether the mounting of the next scan will be estimated from its points."""
        if scan.T_vehicle_sensor is not None:
            return False
        estimator = self._estimators.get(scan.sensor)
        return estimator is None or scan.T_world_sensor is None or estimator.reads_next

    def reset(self) -> None:
        """Start estimating anew."""
        self._estimators.clear()
        self._mounted.clear()


@dataclass(frozen=True, eq=False)
class _Fit:
    """The ground plane found in one scan, in a frame that is nearly level."""

    T_level_sensor: Pose
    plane: Plane
    heights: tuple[float, float] = _ANY_HEIGHT  # m, range of the search
    note: str = ""
    table: float = 0.0  # m over that plane: the table that the sensor is on; 0: none
    is_far: bool = False  # the points lie far from their origin, which is no doubt about a good plane
    other_axes: bool = False
    returns: Float32 | None = None  # (3, n) sampled, where doubts were looked for


class MountingEstimator:
    """Estimates one sensor's mounting; `track` keeps the median over the first scans of a sequence."""

    def __init__(self, config: MountingConfig, sensor: str = "lidar") -> None:
        self.config, self.sensor = config, sensor
        side = math.ceil(2 * _RADIUS / _CELL)
        self._cells = np.empty((3, side * side), np.float64)
        self._first = _Fit(Pose.identity(), _NONE, _USUAL_HEIGHTS)  # of the first of `_planes`
        self._planes: list[Plane] = []
        self._checks: list[Plane] = []
        self._scans = 0
        self._kept: Mounting | None = None  # from the median plane; None: not computed yet

    def estimate(self, points: Float32, doubt_later: bool = False) -> MountingEstimate:
        """From one scan alone, points (N, 3) in the sensor frame."""
        found = self._search(points)
        if doubt_later and not found.note and self.config.height is None:
            return MountingEstimate(self._mounting(found), doubted=partial(self._estimated, found, points))
        return self._estimated(found, points)

    def _estimated(self, found: _Fit, points: Float32) -> MountingEstimate:
        fit = self._doubted(found, points)
        return MountingEstimate(self._mounting(fit), fit.note, fit.other_axes, fit.returns)

    def track(self, points: Float32) -> MountingEstimate:
        """The median over the first good scans of a sequence; every `_CHECK_EVERY` scans it is checked."""
        self._scans += 1
        note, other_axes = "", False
        if not self._planes:
            fit = self._doubted(self._search(points), points)
            note, other_axes = fit.note, fit.other_axes
            if fit.plane.quality == 0:
                return MountingEstimate(self._mounting(fit), note, other_axes)
            self._first, self._planes, self._kept = fit, [fit.plane], None
        elif len(self._planes) < _FIRST_SCANS:
            plane = self._plane(self._levelled(points), self._first.heights)
            if plane.quality > 0:
                self._planes.append(plane)
                self._kept = None
        elif self._scans % _CHECK_EVERY == 0 and self._check(self._plane(self._levelled(points), self._first.heights)):
            note = f"mounting of {self.sensor} re-estimated: height {np.median(self._planes, axis=0)[0]:.2f} m"
            self._kept = None
        if self._kept is None:
            median = Plane(*(float(v) for v in np.median(np.array(self._planes), axis=0)))
            self._kept = self._mounting(replace(self._first, plane=median, note=self._first.note or self._unsteady()))
        return MountingEstimate(self._kept, note, other_axes)

    def _unsteady(self) -> str:
        """Why the median of the kept planes is doubtful: they differ by more than a mounting may be off."""
        height, *slopes = np.ptp(np.array(self._planes)[:, :3], axis=0)
        if height < _MOVED and max(slopes) < _UNSTEADY:
            return ""
        found = f"its planes in {len(self._planes)} scans differ by {height:.2f} m"
        differ = f"{found} and {math.degrees(max(slopes)):.0f} degrees: uneven ground"
        return f"mounting of {self.sensor} is doubtful: {differ}; {_HOW_TO_GIVE}"

    @property
    def reads_next(self) -> bool:
        """Whether `track` reads the next scan, and not only counts it."""
        return len(self._planes) < _FIRST_SCANS or (self._scans + 1) % _CHECK_EVERY == 0

    def _levelled(self, points: Float32) -> Float32:
        T_level_sensor = self._first.T_level_sensor
        return points if T_level_sensor.is_identity else T_level_sensor @ points

    def _check(self, plane: Plane) -> bool:
        """Replace the kept planes when the latest checks agree on another pose of the sensor."""
        if plane.quality > 0:
            self._checks = [*self._checks, plane][-_FIRST_SCANS:]
        if len(self._checks) < _FIRST_SCANS:
            return False
        kept, seen = np.median(self._planes, axis=0), np.median(self._checks, axis=0)
        moved = abs(kept[0] - seen[0]) > _MOVED or np.hypot(*(kept[1:3] - seen[1:3])) > _TILTED
        if moved:
            self._planes, self._checks, self._first = self._checks, [], replace(self._first, note="", table=0.0)
        return bool(moved)

    def _doubted(self, found: _Fit, points: Float32) -> _Fit:
        """The ground plane, with a note where it is unusual, doubtful or not at the given height."""
        if self.config.height is not None:
            return self._at_given_height(found, points, self.config.height)
        return found if found.is_far else self._with_doubts(found, points)

    def _at_given_height(self, found: _Fit, points: Float32, height: float) -> _Fit:
        """With a note where no ground lies at the given height; a floor around a table is enough."""
        if found.plane.quality >= _CONVINCING:
            return found
        levels = floor_and_table(self._nearly_level(found, points))
        if levels and abs(levels[0].height + height) < _HINT:
            return replace(found, table=levels[1].height - levels[0].height)
        if found.plane.quality:
            return found
        expected = f"no ground {height - _HINT:.2f} to {height + _HINT:.2f} m below {self.sensor}"
        return replace(found, note=f"{expected} (given height {height:g} m); {self._surfaces(found, points)}")

    def _with_doubts(self, found: _Fit, points: Float32) -> _Fit:
        """With a note where the mounting is doubtful; the floor instead of a table that the sensor is on."""
        plane = found.plane
        doubtful, levels = f"mounting of {self.sensor} is doubtful: {plane.height:.2f} m over the ground", None
        if found.note:
            levels = floor_and_table(points) if plane.quality < _CONVINCING else None
            return found if levels is None else self._on_table(found, points, *levels)
        pose, returns = self._mounting(found).T_vehicle_sensor, sampled_returns(points)
        found = replace(found, returns=returns)
        support = plane_support(returns, pose)
        if why := self._objections(plane.quality, pose, support):
            levels = floor_and_table(self._nearly_level(found, points))
            found = replace(found, note=f"{doubtful}, {why}; {self._surfaces(found, points)}; {_HOW_TO_GIVE}")
        elif why := axis_up_instead(returns):
            found = replace(found, note=f"{doubtful}, {why}")
        elif why := self._unusual(plane, support):
            found = replace(found, note=f"{doubtful}, {why}; {_HOW_TO_GIVE}")
        return found if levels is None else self._on_table(found, points, *levels)

    @staticmethod
    def _unusual(plane: Plane, support: PlaneSupport) -> str:
        """Why a good plane may still have another height; empty where there is no reason."""
        if plane.height < _LOWEST_SENSOR:
            return "lower than any sensor on a vehicle: points in the vehicle frame, or a sensor on a table"
        if plane.height > _HIGHEST_SENSOR:
            return "higher than any sensor on a vehicle: a sensor on a mast, or points in feet"
        sure = _SURE_AHEAD if support.on > _FEW_AHEAD else _SURE_FEW
        if plane.quality < sure and is_one_sided(support):
            return "uneven ground is seen on one side of the sensor only"
        return ""

    @staticmethod
    def _objections(quality: float, pose: Pose, support: PlaneSupport) -> str:
        """Why a plane is hardly the ground; empty where there is no reason."""
        reason = (why_not_ground(support) or _describe_tilt(pose)) if quality < _SURE else ""
        if not reason and quality >= _DOUBTFUL:
            return ""
        return f"confidence {quality:.2f}" + (f", {reason}" if reason else "")

    def _on_table(self, found: _Fit, points: Float32, floor: Level, table: Level) -> _Fit:
        """A sensor on a table: the floor is the ground."""
        height, share = -floor.height, floor.area / (floor.area + table.area)
        used = f"mounting of {self.sensor} is doubtful: two level surfaces lie below it, the lower one is used: {floor}"
        choose = f"give --height {height:.2f} for it or --height {-table.height:.2f} for the upper one: {table}"
        return _Fit(
            found.T_level_sensor if self.config.tilt != (None, None) else Pose.identity(),
            Plane(height, 0.0, 0.0, share, share),
            (height - _FLOOR_RANGE, height + _FLOOR_RANGE),
            f"{used}; {choose}; {self._surfaces(found, points)}",
            table.height - floor.height,
        )

    def _nearly_level(self, found: _Fit, points: Float32) -> Float32:
        # Without a given tilt the sensor's own axes are nearer to level than a doubtful plane.
        return found.T_level_sensor @ points if self.config.tilt != (None, None) else points

    def _surfaces(self, found: _Fit, points: Float32) -> str:
        levels = ", ".join(map(str, level_surfaces(self._nearly_level(found, points))))
        return f"level surfaces around the sensor: {levels or 'none'}"

    def _search(self, points: Float32) -> _Fit:
        """The plane below a nearly level sensor; where its quality is low, the best of the candidate frames."""
        config = self.config
        best = _Fit(Pose.identity(), self._plane(points, _USUAL_HEIGHTS), _USUAL_HEIGHTS)
        if best.plane.trust >= _CONVINCING:
            return best
        if config.pitch is not None or config.roll is not None:
            turned = Pose.from_euler(pitch=math.radians(config.pitch or 0), roll=math.radians(config.roll or 0))
            given = _Fit(turned, self._plane(turned @ points, _ANY_HEIGHT))
            return given if given.plane.trust > best.plane.trust else best
        if config.height is not None:
            return best
        for frame in candidate_frames(points):
            plane, other = self._plane(frame.T_level_sensor @ points, _ANY_HEIGHT), best.plane.trust
            upside_down = frame.orientation == UPSIDE_DOWN
            needed = _UPSIDE_DOWN_FACTOR * other if upside_down else other + _CLEARLY_BETTER if other else 0.0
            if plane.trust > needed:
                note, other_axes = self._describe_frame(frame, plane), frame.orientation == CAMERA
                best = _Fit(frame.T_level_sensor, plane, note=note, is_far=frame.far, other_axes=other_axes)
        if best.other_axes:
            return _Fit(Pose.identity(), _NONE, note=best.note, other_axes=True)
        return best if best.plane.quality else self._not_found(points)

    def _describe_frame(self, frame: Candidate, plane: Plane) -> str:
        """Message about an unusual frame; empty for an upright sensor."""
        if frame.orientation == CAMERA:
            give = f"give --mounting 0 0 {plane.height:.1f} -90 0 -90"
            return f"points of {self.sensor} look like {CAMERA} (z forward, y down): {give}"
        if frame.far:
            T_sensor_level = frame.T_level_sensor.inverse()
            x, y, z = T_sensor_level @ np.array([0.0, 0.0, -plane.height])
            return f"points of {self.sensor} lie far from their origin: the vehicle is put at {x:.1f}, {y:.1f}, {z:.1f}"
        if frame.orientation == UPSIDE_DOWN:
            return f"{self.sensor} hangs upside down, {plane.height:.2f} m over the ground"
        return ""

    def _not_found(self, points: Float32) -> _Fit:
        """The default mounting, and why no plane was found."""
        planes = {unit: self._usual_plane(points / np.float32(per_metre)) for unit, per_metre in _UNITS.items()}
        advice = [
            f"like {unit}: divide them by {_UNITS[unit]} (then the ground is {plane.height:.2f} m below the sensor)"
            for unit, plane in sorted(planes.items(), key=lambda item: -item[1].trust)
            if plane.trust
        ]
        if advice:
            note = f"points of {self.sensor} look {' or '.join(advice)}"
            return _Fit(Pose.identity(), _NONE, note=note, other_axes=True)
        assumed = f"{_DEFAULT_HEIGHT:g} m over level ground is assumed"
        return _Fit(Pose.identity(), _NONE, note=f"mounting of {self.sensor} not found: {assumed}; {_HOW_TO_GIVE}")

    def _usual_plane(self, points: Float32) -> Plane:
        """The ground below a sensor at a usual height, turned in any way."""
        planes = [self._plane(frame.T_level_sensor @ points, _USUAL_HEIGHTS) for frame in candidate_frames(points)]
        return max(planes, key=lambda plane: plane.trust, default=_NONE)

    def _plane(self, points: Float32, heights: tuple[float, float]) -> Plane:
        """The ground below a nearly level sensor; quality 0 where there is none."""
        from roadbed.ground.mounting.mounting_cpu import fit_plane, lowest_returns

        config = self.config
        stride, cell, radius = max(1, len(points) // _MOST_RETURNS), np.float32(_CELL), np.float32(_RADIUS)
        n, low_share = lowest_returns(points, stride, cell, radius, np.float32(1.0), self._cells)
        if n >= _FEWEST_CELLS:
            x, y, z = self._cells[0, :n], self._cells[1, :n], self._cells[2, :n]
            weight = 1 / (1 + (x**2 + y**2) / 64.0)
            hint = config.height
            low, high = heights if hint is None else (hint - _HINT, hint + _HINT)
            height, slope_x, slope_y, quality = fit_plane(x, y, z, weight, low, high, _STEEPEST, _TRIALS)
            if quality > _SMALLEST_QUALITY:
                trust = quality * min(1.0, 2 * low_share)
                return Plane(height / math.sqrt(1 + slope_x**2 + slope_y**2), slope_x, slope_y, quality, trust)
        return _NONE if config.height is None else _NONE._replace(height=config.height)

    def _mounting(self, fit: _Fit) -> Mounting:
        config, plane = self.config, fit.plane
        tilt = rotation_to_level(plane.slope_x, plane.slope_y)
        pose = Pose.of_numbers((*tilt, 0.0, 0.0, plane.height)) @ fit.T_level_sensor
        given = config.tilt
        if given != (None, None):
            pitch, roll = (
                own if angle is None else math.radians(angle) for angle, own in zip(given, (pose.pitch, pose.roll))
            )
            pose = Pose(Pose.from_euler(pitch=pitch, roll=roll).rotation, pose.translation)
        if config.height is not None:
            pose = Pose.of_numbers((*pose.numbers[:-1], config.height))
        return Mounting(
            T_vehicle_sensor=pose,
            estimated=not config.is_given,
            quality=1.0 if config.is_given else plane.quality,
            table=fit.table,
            doubt="" if fit.is_far and plane.quality >= _DOUBTFUL else fit.note,
        )
