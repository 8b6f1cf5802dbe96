# SPDX-License-Identifier: Apache-2.0
"""Where the sensor sits over the road: estimated from the lowest returns around it, kept as a median over a drive."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from roadbed.config.ground import MountingConfig
from roadbed.core.device_arrays import to_host
from roadbed.core.errors import ConfigError
from roadbed.core.frames import Mounting, Scan
from roadbed.core.geometry import Float32, Pose, rotation_to_level
from roadbed.ground.mounting.level_surfaces import Level, floor_and_table, in_words, level_surfaces, why_not_ground
from roadbed.ground.mounting.search import CAMERA, UPSIDE_DOWN, Start, starts

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
_ENOUGH = 50_000  # returns that are looked at; of more, every so many-th vector of eight
_UNITS = {"centimetres": 100, "millimetres": 1000}  # per metre
_CONVINCING = 0.5  # quality from which nothing else is looked for
_CLEARLY_BETTER = 0.1  # in quality, for an unusual mounting to be believed
_HANGING = 2.0  # times the trust of what lies below the sensor, for it to hang upside down: rooms have ceilings
_DOUBTFUL, _SURE = 0.4, 0.8  # quality below which a mounting is doubtful, and from which it is not
_FLOOR_RANGE = 0.15  # m around the height of a floor that was preferred to a table
_LOWEST_SENSOR = 0.1  # m over the ground; lower, the points may be in the vehicle frame
_TILT = 20.0  # degrees of a usual sensor
_CHECK_EVERY = 20  # scans between checks of a kept mounting
_MOVED, _TILTED = 0.15, 0.05  # m and slope by which the checks must differ to replace it
_HOW_TO_GIVE = "give --height H, --mounting X Y Z ROLL PITCH YAW or Scan.T_vehicle_sensor"


class Plane(NamedTuple):
    """The ground below a nearly level sensor."""

    height: float  # m along the normal
    slope_x: float
    slope_y: float
    quality: float  # 0: none was found
    trust: float  # the quality, less where most returns lie above the sensor: it may hang


_NONE = Plane(_DEFAULT_HEIGHT, 0.0, 0.0, 0.0, 0.0)


def _tilt_in_words(T_vehicle_sensor: Pose) -> str:
    """A tilt that only few sensors have; empty for others."""
    tilt = math.degrees(math.acos(min(abs(float(T_vehicle_sensor.rotation[2, 2])), 1.0)))
    return f"{tilt:.0f} degrees against z, which points up in clouds (?origin=none)" if tilt > _TILT else ""


class Mountings:
    """The mounting of every sensor of a vehicle: what its scans say, or an estimate."""

    def __init__(self, config: MountingConfig) -> None:
        self.config = config
        self._estimators: dict[str, MountingEstimator] = {}

    def of(self, scan: Scan, diagnostics: list[str]) -> Mounting:
        """The scan's mounting; with odometry it is kept over the drive. What is unusual about it is noted."""
        if scan.T_vehicle_sensor is not None:
            return Mounting(T_vehicle_sensor=scan.T_vehicle_sensor, estimated=False)
        if not (self.config.estimate or self.config.is_given):
            raise ConfigError(
                f"mounting of {scan.sensor}: found none and ground.mounting.estimate off, expected it given: "
                f"--height H, --mounting X Y Z ROLL PITCH YAW or Scan.T_vehicle_sensor"
            )
        if scan.sensor not in self._estimators:
            self._estimators[scan.sensor] = MountingEstimator(self.config, scan.sensor)
        estimator, points = self._estimators[scan.sensor], to_host(scan.points)
        mounting, note = estimator.estimate(points) if scan.T_world_sensor is None else estimator.track(points)
        if note:
            diagnostics.append(note)
        if scan.front:  # height and tilt can be seen, which way the vehicle drives cannot
            ahead = Pose.from_euler(yaw=-scan.front) @ mounting.T_vehicle_sensor
            mounting = replace(mounting, T_vehicle_sensor=ahead)
        return mounting

    def reads(self, scan: Scan) -> bool:
        """Whether the mounting of the next scan will be estimated from its points."""
        if scan.T_vehicle_sensor is not None:
            return False
        estimator = self._estimators.get(scan.sensor)
        return estimator is None or scan.T_world_sensor is None or estimator.reads_next

    def reset(self) -> None:
        """Start estimating anew."""
        self._estimators.clear()


@dataclass(frozen=True, eq=False)
class _Sight:
    """What one scan says: the ground's plane in a frame that is nearly level."""

    T_level_sensor: Pose
    plane: Plane
    heights: tuple[float, float] = _ANY_HEIGHT  # m, where it was looked for
    note: str = ""
    table: float = 0.0  # m over that plane, where the sensor stands on a table
    is_far: bool = False  # the points lie far from their origin, which says nothing against the plane


class MountingEstimator:
    """Estimates one sensor's mounting; `track` keeps the median over the first scans of a drive."""

    def __init__(self, config: MountingConfig, sensor: str = "lidar") -> None:
        self.config, self.sensor = config, sensor
        side = math.ceil(2 * _RADIUS / _CELL)
        self._cells = np.empty((3, side * side), np.float64)
        self._sight = _Sight(Pose.identity(), _NONE, _USUAL_HEIGHTS)  # with which the planes below began
        self._planes: list[Plane] = []
        self._checks: list[Plane] = []
        self._scans = 0
        self._kept: Mounting | None = None  # what the planes say, until they change

    def estimate(self, points: Float32) -> tuple[Mounting, str]:
        """From one scan alone, points in the sensor frame; with a note where something is unusual."""
        sight = self._look(points)
        return self._mounting(sight), sight.note

    def track(self, points: Float32) -> tuple[Mounting, str]:
        """The median over the first good scans of a drive, checked now and then; a note when it had to be replaced."""
        self._scans += 1
        note = ""
        if not self._planes:
            sight = self._look(points)
            note = sight.note
            if sight.plane.quality == 0:
                return self._mounting(sight), note
            self._sight, self._planes, self._kept = sight, [sight.plane], None
        elif len(self._planes) < _FIRST_SCANS:
            plane = self._plane(self._levelled(points), self._sight.heights)
            if plane.quality > 0:
                self._planes.append(plane)
                self._kept = None
        elif self._scans % _CHECK_EVERY == 0 and self._check(self._plane(self._levelled(points), self._sight.heights)):
            note = f"mounting of {self.sensor} re-estimated: height {np.median(self._planes, axis=0)[0]:.2f} m"
            self._kept = None
        if self._kept is None:
            median = Plane(*(float(v) for v in np.median(np.array(self._planes), axis=0)))
            self._kept = self._mounting(replace(self._sight, plane=median))
        return self._kept, note

    @property
    def reads_next(self) -> bool:
        """Whether `track` reads the next scan, and not only counts it."""
        return len(self._planes) < _FIRST_SCANS or (self._scans + 1) % _CHECK_EVERY == 0

    def _levelled(self, points: Float32) -> Float32:
        T_level_sensor = self._sight.T_level_sensor
        return points if T_level_sensor.is_identity else T_level_sensor @ points

    def _check(self, plane: Plane) -> bool:
        """Replace the kept planes when the latest checks agree that the sensor now sits elsewhere."""
        if plane.quality > 0:
            self._checks = [*self._checks, plane][-_FIRST_SCANS:]
        if len(self._checks) < _FIRST_SCANS:
            return False
        kept, seen = np.median(self._planes, axis=0), np.median(self._checks, axis=0)
        moved = abs(kept[0] - seen[0]) > _MOVED or np.hypot(*(kept[1:3] - seen[1:3])) > _TILTED
        if moved:
            self._planes, self._checks, self._sight = self._checks, [], replace(self._sight, note="", table=0.0)
        return bool(moved)

    def _look(self, points: Float32) -> _Sight:
        """The ground's plane, with a note where it is unusual, doubtful or not where it was given."""
        found = self._search(points)
        if self.config.height is not None:
            return self._at_given_height(found, points, self.config.height)
        return found if found.is_far else self._doubted(found, points)

    def _at_given_height(self, found: _Sight, points: Float32, height: float) -> _Sight:
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

    def _doubted(self, found: _Sight, points: Float32) -> _Sight:
        """With a note where the mounting is doubtful; the floor instead of a table that the sensor stands on."""
        plane = found.plane
        said, levels = f"mounting of {self.sensor} is doubtful: {plane.height:.2f} m over the ground", None
        if found.note:
            levels = floor_and_table(points) if plane.quality < _CONVINCING else None
        elif why := self._against(found, points):
            levels = floor_and_table(self._nearly_level(found, points))
            found = replace(found, note=f"{said}, {why}; {self._surfaces(found, points)}; {_HOW_TO_GIVE}")
        elif plane.height < _LOWEST_SENSOR:
            why = "lower than any sensor on a vehicle: points in the vehicle frame, or a sensor on a table"
            found = replace(found, note=f"{said}, {why}; {_HOW_TO_GIVE}")
        return found if levels is None else self._on_table(found, points, *levels)

    def _against(self, found: _Sight, points: Float32) -> str:
        """What speaks against a plane; empty where nothing does."""
        quality = found.plane.quality
        pose = self._mounting(found).T_vehicle_sensor
        against = (why_not_ground(pose @ points) or _tilt_in_words(pose)) if quality < _SURE else ""
        if not against and quality >= _DOUBTFUL:
            return ""
        return f"confidence {quality:.2f}" + (f", {against}" if against else "")

    def _on_table(self, found: _Sight, points: Float32, floor: Level, table: Level) -> _Sight:
        """A sensor on a table: the floor is the ground."""
        height, share = -floor.height, floor.area / (floor.area + table.area)
        said = f"mounting of {self.sensor} is doubtful: two level surfaces lie below it, the lower one is used: {floor}"
        choose = f"give --height {height:.2f} for it or --height {-table.height:.2f} for the upper one: {table}"
        return _Sight(
            found.T_level_sensor if self.config.tilt != (None, None) else Pose.identity(),
            Plane(height, 0.0, 0.0, share, share),
            (height - _FLOOR_RANGE, height + _FLOOR_RANGE),
            f"{said}; {choose}; {self._surfaces(found, points)}",
            table.height - floor.height,
        )

    def _nearly_level(self, found: _Sight, points: Float32) -> Float32:
        # Without a given tilt the sensor's own axes are nearer to level than a doubtful plane.
        return found.T_level_sensor @ points if self.config.tilt != (None, None) else points

    def _surfaces(self, found: _Sight, points: Float32) -> str:
        return f"level surfaces around the sensor: {in_words(level_surfaces(self._nearly_level(found, points)))}"

    def _search(self, points: Float32) -> _Sight:
        """Below a nearly level sensor first; where that does not convince, wherever else the ground may be."""
        config = self.config
        best = _Sight(Pose.identity(), self._plane(points, _USUAL_HEIGHTS), _USUAL_HEIGHTS)
        if best.plane.trust >= _CONVINCING:
            return best
        if config.pitch is not None or config.roll is not None:
            turned = Pose.from_euler(pitch=math.radians(config.pitch or 0), roll=math.radians(config.roll or 0))
            given = _Sight(turned, self._plane(turned @ points, _ANY_HEIGHT))
            return given if given.plane.trust > best.plane.trust else best
        if config.height is not None:
            return best
        for start in starts(points):
            plane, other = self._plane(start.T_level_sensor @ points, _ANY_HEIGHT), best.plane.trust
            needed = _HANGING * other if start.turn == UPSIDE_DOWN else other + _CLEARLY_BETTER if other else 0.0
            if plane.trust > needed:
                note = self._what_is_unusual(start, plane)
                best = _Sight(start.T_level_sensor, plane, note=note, is_far=start.far)
        if best.plane.quality and CAMERA not in best.note:
            return best
        return _Sight(Pose.identity(), _NONE, note=best.note or self._why_not(points))

    def _what_is_unusual(self, start: Start, plane: Plane) -> str:
        if start.turn == CAMERA:
            give = f"give --mounting 0 0 {plane.height:.1f} -90 0 -90"
            return f"points of {self.sensor} look like {CAMERA} (z forward, y down): {give}"
        if start.far:
            T_sensor_level = start.T_level_sensor.inverse()
            x, y, z = T_sensor_level @ np.array([0.0, 0.0, -plane.height])
            return f"points of {self.sensor} lie far from their origin: the vehicle is put at {x:.1f}, {y:.1f}, {z:.1f}"
        return (
            f"{self.sensor} hangs upside down, {plane.height:.2f} m over the ground"
            if start.turn == UPSIDE_DOWN
            else ""
        )

    def _why_not(self, points: Float32) -> str:
        planes = {unit: self._usual_plane(points / np.float32(per_metre)) for unit, per_metre in _UNITS.items()}
        advice = [
            f"like {unit}: divide them by {_UNITS[unit]} (then the ground is {plane.height:.2f} m below the sensor)"
            for unit, plane in sorted(planes.items(), key=lambda item: -item[1].trust)
            if plane.trust
        ]
        if advice:
            return f"points of {self.sensor} look {' or '.join(advice)}"
        assumed = f"{_DEFAULT_HEIGHT:g} m over level ground is assumed"
        return f"mounting of {self.sensor} not found: {assumed}; {_HOW_TO_GIVE}"

    def _usual_plane(self, points: Float32) -> Plane:
        """The ground below a sensor at a usual height, turned in any way."""
        planes = [self._plane(start.T_level_sensor @ points, _USUAL_HEIGHTS) for start in starts(points)]
        return max(planes, key=lambda plane: plane.trust, default=_NONE)

    def _plane(self, points: Float32, heights: tuple[float, float]) -> Plane:
        """The ground below a nearly level sensor; quality 0 where there is none."""
        from roadbed.ground.mounting.mounting_cpu import fit_plane, lowest_returns

        config = self.config
        n, low_share = lowest_returns(
            points,
            max(1, len(points) // _ENOUGH),
            np.float32(_CELL),
            np.float32(_RADIUS),
            np.float32(1.0),
            self._cells,
        )
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

    def _mounting(self, sight: _Sight) -> Mounting:
        config, plane = self.config, sight.plane
        tilt = rotation_to_level(plane.slope_x, plane.slope_y)
        pose = Pose.of_numbers((*tilt, 0.0, 0.0, plane.height)) @ sight.T_level_sensor
        given = config.tilt
        if given != (None, None):
            pitch, roll = (
                own if angle is None else math.radians(angle) for angle, own in zip(given, (pose.pitch, pose.roll))
            )
            pose = Pose(Pose.from_euler(pitch=pitch, roll=roll).rotation, pose.translation)
        if config.height is not None:
            pose = Pose(pose.rotation, np.array([*pose.translation[:2], config.height]))
        return Mounting(
            T_vehicle_sensor=pose,
            estimated=not config.is_given,
            quality=1.0 if config.is_given else plane.quality,
            table=sight.table,
            doubt="" if sight.is_far else sight.note,
        )
