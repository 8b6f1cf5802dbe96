# SPDX-License-Identifier: Apache-2.0
"""Scans in, frames out. SI units; x forward, y left, z up; the origin of the vehicle frame lies on the road."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.confidence import Confidence, Mounting, SurfaceLayers, frame_confidence
from roadbed.core.device_arrays import DeviceArray, DeviceGround, lies_on_device, to_host
from roadbed.core.display import Drawable
from roadbed.core.errors import ConfigError, InputError
from roadbed.core.geometry import Float32, Grid, Pose
from roadbed.core.point_arrays import DESKEWED_TIME, as_numbers, as_pose, map_shift, near_origin, per_point, selection
from roadbed.core.tracked_objects import TrackedObject
from roadbed.core.traversability import Traversability, TraversabilityLimits, traversability
from roadbed.core.variance_cells import VarianceCells

# float32 has steps of more than a centimetre beyond it; 64-bit points in map coordinates are shifted.
_STEPS_OF_CENTIMETRES_M = 131072.0
_LATEST_S = 1e11  # stamps beyond it are milli-, micro- or nanoseconds since 1970
_SIMULTANEOUS_S = 0.02  # between scans of sensors that are triggered together; 0.3 m at 15 m/s
PER_POINT = ("intensity", "ring", "point_time", "classes")
# A grid in the ground's grid frame and its moving cells, [y][x]: a mask on the host or on a device.
Moving = tuple[Grid, NDArray[np.bool_] | DeviceArray]


def check_fields(fields: Iterable[str] | None, known: Collection[str]) -> frozenset[str]:
    """The optional fields that a caller requests; None: all known ones."""
    names = frozenset(known if fields is None else fields)
    if unknown := sorted(names - set(known)):
        raise ConfigError(f"fields: found {', '.join(unknown)}, expected some of {', '.join(known)}")
    return names


class Label(IntEnum):
    """Class of a point, in `GroundFrame.label`."""

    UNKNOWN = 0  # outside the grid, not finite, on the ego vehicle, or over unknown ground
    GROUND = 1
    OBSTACLE = 2
    OVERHANG = 3  # above `vehicle.clearance`: the vehicle passes under it
    LOW_OUTLIER = 4  # below the ground: multipath or noise


@dataclass(frozen=True)
class SensorMount:
    """One sensor of a rig."""

    name: str
    T_vehicle_sensor: Pose


@dataclass(frozen=True, kw_only=True, eq=False)
class Scan:
    """One sweep of one sensor, in the sensor frame, with all its channels. Nothing is filtered out.

    A merged scan of several sensors lies in the vehicle frame and has `mounts`.
    """

    points: Float32 = field(kw_only=False)  # (N, 3) m; an array in GPU memory (CuPy, PyTorch) stays there
    time: float | None = None  # s, on one clock for all scans of a source
    T_world_sensor: Pose | None = None  # pose of the sensor at `time`, m; None: no odometry, the scan is used alone
    T_vehicle_sensor: Pose | None = None  # mounting of the sensor, m; None: the ground filter estimates it
    sensor: str = "lidar"  # one name per sensor
    name: str = ""  # stem of the output files, e.g. of the input file
    intensity: NDArray | None = None  # (N,) in the unit of the sensor
    ring: NDArray | None = None  # (N,) beam number
    point_time: NDArray | None = None  # (N,) s relative to `time`
    classes: NDArray | None = None  # (N,) uint32 annotated class, instance in the upper 16 bits
    channels: Mapping[str, NDArray] = field(default_factory=dict)  # (N, ...) other channels by name
    mounts: tuple[SensorMount, ...] = ()  # sensors of a merged scan; channel "sensor_index" has the index per point
    diagnostics: tuple[str, ...] = ()  # what the reader left out or doubts, one line each
    has_origin: bool | None = None  # a sensor was at the origin; False: a map, an aerial tile; None: recognised
    front: float = 0.0  # rad, direction of the vehicle's front in the sensor's xy plane if the mounting is unknown

    def __post_init__(self) -> None:
        what = f"scan {self.name}".rstrip()
        for name in ("T_world_sensor", "T_vehicle_sensor"):
            self._set(name, as_pose(getattr(self, name)))
        points: Any = self.points if lies_on_device(self.points) else as_numbers(self.points, f"{what}: points")
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"{what}: expected points of shape (N, 3), found {tuple(points.shape)}")
        if isinstance(points, np.ndarray) and (points.dtype != np.float32 or not points.flags.carray):
            shift = map_shift(points.T, _STEPS_OF_CENTIMETRES_M)
            points = near_origin(list(points.T), shift)
            if shift is not None:
                if self.T_world_sensor is not None:
                    raise InputError(f"{what}: points: found map coordinates, expected the sensor frame with a pose")
                self._set("T_world_sensor", shift)
                self._set("has_origin", False if self.has_origin is None else self.has_origin)
        self._set("points", points)
        for name in PER_POINT:
            if (values := getattr(self, name)) is not None:
                self._set(name, per_point(values, f"{what}: channel {name}", len(points), as_numbers, 1))
        channels = {name: per_point(v, f"{what}: channel {name}", len(points)) for name, v in self.channels.items()}
        self._set("channels", channels)
        if self.time is not None and not (isinstance(self.time, Real) and abs(self.time) < _LATEST_S):
            raise InputError(f"{what}: time: expected a finite number of seconds, found {self.time}")
        if self.mounts and np.shape(self.channels.get("sensor_index", 0)) != (len(points),):
            raise InputError(f"{what}: mounts: expected a channel sensor_index that says which mount saw each point")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _per_point(self) -> Iterator[tuple[str, NDArray]]:
        yield from ((name, values) for name in PER_POINT if (values := getattr(self, name)) is not None)
        yield from self.channels.items()

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        when = "" if self.time is None else f", time {self.time:.3f} s"
        pose = "" if self.T_world_sensor is None else ", with pose"
        channels = ", ".join(name for name, _ in self._per_point())
        return f"Scan({self.name!r}, {self.sensor}, {len(self):,} points{when}{pose}; channels: {channels or 'none'})"

    @classmethod
    def of(
        cls, scan: Scan | ArrayLike, T_world_sensor: Pose | ArrayLike | None = None, time: float | None = None
    ) -> Scan:
        """A Scan from a Scan or an array (N, 3) or wider, and a pose or its matrix."""
        pose = as_pose(T_world_sensor)
        if isinstance(scan, Scan):
            return scan if pose is None and time is None else scan.at(pose or scan.T_world_sensor, time)
        points: Any = scan if lies_on_device(scan) else as_numbers(scan, "points", "numbers of shape (N, 3) or wider")
        if points.ndim != 2 or points.shape[1] < 3:
            raise InputError(f"points: expected numbers of shape (N, 3) or wider, found {tuple(points.shape)}")
        if points.shape[0] == 3 and points.shape[1] > 6:
            raise InputError(f"points: expected shape (N, 3), found {tuple(points.shape)}: it looks transposed")
        return cls(points[:, :3], time=time, T_world_sensor=pose)

    @property
    def T_world_vehicle(self) -> Pose | None:
        if self.T_world_sensor is None or self.T_vehicle_sensor is None:
            return None
        return self.T_world_sensor @ self.T_vehicle_sensor.inverse()

    def all_channels(self) -> dict[str, NDArray]:
        """All per-point arrays except the coordinates, by name."""
        return dict(self._per_point())

    @classmethod
    def merged(cls, scans: Iterable[Scan]) -> Scan:
        """One scan in the vehicle frame from simultaneous scans of several sensors with known mountings.

        Poses take scans of other times to the time of the first, unless all points have times, for deskewing.
        """
        scans = list(scans)
        if not scans:
            raise InputError("merging scans: expected at least one, found none")
        mounts: list[SensorMount] = []
        indices = []
        for scan in scans:
            if scan.T_vehicle_sensor is None:
                raise InputError(f"merging scans: the mounting of sensor {scan.sensor!r} is unknown")
            indices.append(len(mounts) + (scan.channels["sensor_index"] if scan.mounts else np.zeros(len(scan))))
            mounts += [mount for mount, _ in scan.split()]
        names = [mount.name for mount in mounts]
        if len(set(names)) < len(names):
            raise InputError(f"merging scans: expected one scan per sensor, found sensors {', '.join(names)}")
        first = scans[0]
        arrays = [scan._channels_since(first.time) for scan in scans]
        has_times = all("point_time" in channels for channels in arrays)
        poses, notes = zip(*(scan._placed_in(first, has_times) for scan in scans))
        shared = {
            name: np.concatenate([channels[name] for channels in arrays])
            for name, values in arrays[0].items()
            if all(name in channels and channels[name].shape[1:] == values.shape[1:] for channels in arrays)
        }
        named: Any = {name: shared.pop(name, None) for name in PER_POINT}
        shared["sensor_index"] = np.concatenate(indices).astype(np.uint8)
        return cls(
            np.concatenate([pose @ scan.points for pose, scan in zip(poses, scans)]),
            time=first.time,
            T_world_sensor=first.T_world_vehicle,
            T_vehicle_sensor=Pose.identity(),
            sensor="+".join(names),
            name=first.name,
            channels=shared,
            mounts=tuple(mounts),
            diagnostics=tuple(dict.fromkeys(note for lines in notes for note in lines)),
            **named,
        )

    def _placed_in(self, first: Scan, has_times: bool) -> tuple[Pose, tuple[str, ...]]:
        """Pose of the sensor in the vehicle frame of `first`, and notes; deskewing moves points that have times."""
        apart = 0.0 if self.time is None or first.time is None or has_times else self.time - first.time
        if apart and self.T_world_sensor is not None and first.T_world_vehicle is not None:
            return first.T_world_vehicle.inverse() @ self.T_world_sensor, self.diagnostics
        note = f"time of {self.sensor}: {apart:+.3f} s from {first.sensor}; the motion is unknown without poses"
        notes = (*self.diagnostics, note) if abs(apart) > _SIMULTANEOUS_S else self.diagnostics
        return self.T_vehicle_sensor or Pose.identity(), notes

    def _channels_since(self, time: float | None) -> dict[str, NDArray]:
        """All channels; times of points relative to `time`, where both are known."""
        channels = self.all_channels()
        if self.time is not None and time is not None and time != self.time:
            for name in channels.keys() & {"point_time", DESKEWED_TIME}:
                channels[name] = channels[name] + (self.time - time)
        return channels

    def split(self) -> list[tuple[SensorMount, NDArray[np.int64]]]:
        """Each mount of a merged scan with the indices of its points; a scan of one sensor has one mount."""
        if not self.mounts:
            mount = SensorMount(self.sensor, self.T_vehicle_sensor or Pose.identity())
            return [(mount, np.arange(len(self)))]
        index = self.channels["sensor_index"]
        return [(mount, np.flatnonzero(index == k)) for k, mount in enumerate(self.mounts)]

    def part(self, chosen: NDArray | slice) -> Scan:
        """Only the chosen points, with all their channels."""
        chosen = selection(chosen, len(self), f"part of scan {self.name}".rstrip())
        arrays = {name: values[chosen] for name, values in self._per_point()}
        named: Any = {name: arrays.pop(name, None) for name in PER_POINT}
        return replace(self, points=self.points[chosen], channels=arrays, **named)

    def with_points(self, points: Float32) -> Scan:
        """The same scan with other points of the same shape and type, unchecked."""
        other = object.__new__(Scan)
        other.__dict__.update(self.__dict__, points=points)
        return other

    def at(self, T_world_sensor: Pose | None, time: float | None = None) -> Scan:
        """The same scan with another pose (and time)."""
        return replace(self, T_world_sensor=T_world_sensor, time=self.time if time is None else time)


@dataclass(frozen=True, kw_only=True, eq=False)
class GroundFrame(Drawable):
    """The ground under one scan: one label per point in input order, and the surface as layers of a grid.

    Arrays are NumPy arrays; with `GroundFilter(outputs="device")` labels and layers are CuPy arrays. The grid frame has
    level axes fixed to the world with odometry, else it is the vehicle frame.
    """

    label: NDArray[np.uint8]  # (N,) `Label` per point
    ground_probability: Float32  # (N,) c_j of the E-step, 0 where unknown
    height_above_ground: Float32  # (N,) m, NaN where no ground is known
    grid: Grid  # m, of the layers, in the grid frame
    elevation: Float32  # (rows, columns) m, NaN where unknown
    slope: Float32  # (rows, columns, 2) dz/dx, dz/dy, NaN where unknown
    variance: Float32  # (rows, columns) m^2 of the elevation; grows without data, never NaN
    T_grid_sensor: Pose  # m, takes the points of this scan to the grid frame
    mounting: Mounting  # pose of the sensor on the vehicle
    scan: Scan | None = None  # the input
    time: float | None = None  # s, of the scan
    ego_mask: NDArray[np.bool_] | None = None  # (N,) points on the ego vehicle, label unknown; None: it is not known
    T_world_grid: Pose | None = None  # m, the grid frame in the world of the odometry; None without odometry
    used_prior: bool = False  # whether the surface of earlier scans was used
    has_origin: bool = True  # False: the points were handled as a cloud without a sensor
    cells: VarianceCells | None = None  # statistics per cell, with the method "variance"
    surface_variance: Float32 | None = None  # m^2, `variance` without the scatter of the poses; None: there is none
    traversability_limits: TraversabilityLimits | None = None  # of the configuration; None: the defaults
    device: DeviceGround | None = None  # private: the same results on the accelerator
    diagnostics: tuple[str, ...] = ()  # messages: pose jump, late scan, mounting estimated anew, ...
    timings: Mapping[str, float] = field(default_factory=dict)  # s per phase

    def __repr__(self) -> str:
        return (
            f"GroundFrame({len(self.label):,} points{_label_counts(self.label)}; {_size(self.grid)}; "
            f"diagnostics: {'; '.join(self.diagnostics) or 'none'})"
        )

    @cached_property
    def T_grid_vehicle(self) -> Pose:
        """m, pose of the vehicle in the grid frame."""
        return self.T_grid_sensor @ self.mounting.T_vehicle_sensor.inverse()

    @cached_property
    def confidence(self) -> Confidence:
        """How sure mounting and surface are; computed by the host at the first use, in milliseconds.

        Of a cloud without a sensor both are the share of its grid nodes with points that have ground.
        """
        if not self.has_origin:
            share, doubt = self.mounting.quality, self.mounting.doubt
            return Confidence(mounting=share, surface=share, doubts=(doubt,) if doubt else ())
        if self.scan is None:
            raise InputError("this ground frame was made without keeping its scan")
        ego_mask = None if self.ego_mask is None else to_host(self.ego_mask)
        layers = SurfaceLayers(self.grid, *map(to_host, (self.elevation, self.slope, self.variance)))
        seen = to_host(self.scan.points), to_host(self.is_ground), ego_mask, self.T_grid_sensor
        return frame_confidence(*seen, self.mounting, layers, self.T_world_grid is None)

    @property
    def is_ground(self) -> NDArray[np.bool_]:
        """(N,) points labelled ground."""
        return self.label == Label.GROUND

    def traversability(self, limits: TraversabilityLimits | None = None) -> Traversability:
        """Where a vehicle can drive: score and reason per cell; without limits by those of the configuration."""
        limits = limits or self.traversability_limits
        return traversability(self.elevation, self.slope, self.variance, self.grid.spacing, limits)

    @property
    def points_grid(self) -> Float32:
        """(N, 3) m, points of the scan in the grid frame."""
        if self.scan is None:
            raise InputError("this ground frame was made without keeping its scan")
        return self.T_grid_sensor @ self.scan.points


class VarianceFrame(GroundFrame):
    """A ground frame of the method "variance": its elevation, slope and variance are made when they are first read."""

    @classmethod
    def of(cls, **known: Any) -> VarianceFrame:
        """From all other fields."""
        frame = object.__new__(cls)
        frame.__dict__.update(known)
        return frame

    def __getattr__(self, name: str) -> Any:
        if name not in ("elevation", "slope", "variance"):
            raise AttributeError(f"GroundFrame has no attribute {name!r}")
        self.__dict__[name] = getattr(self.cells, name)
        return self.__dict__[name]


@dataclass(frozen=True, kw_only=True, eq=False)
class OccupancyFrame(Drawable):
    """Occupancy per cell: static + dynamic + free + unknown = 1. Layers have the shape (rows, columns)."""

    grid: Grid  # m, of the cells, along the grid's own axes
    time: float  # s
    static: Float32  # probability of a static object
    dynamic: Float32  # probability of a moving object
    free: Float32  # probability of free space; 0 where a tracked object hides it
    velocity: Float32  # (rows, columns, 2) m/s, NaN where nothing moves
    velocity_covariance: Float32  # (rows, columns, 3) xx, xy, yy in m^2/s^2, NaN where nothing moves
    moving: NDArray[np.bool_]  # cells that move with high confidence
    observation: Float32 | None = None  # occupancy probability p_z of this scan, all sensors fused
    observedness: Float32 | None = None  # weight lambda of that observation, 0 = nothing seen
    objects: Sequence[TrackedObject] = ()  # moving objects, tracked over time
    diagnostics: tuple[str, ...] = ()  # messages: late scan, gap, too few particles, ...
    timings: Mapping[str, float] = field(default_factory=dict)  # s per phase
    T_ground_grid: Pose | None = None  # m, from this grid's axes to the grid frame of the ground; None: identity
    T_world_grid: Pose | None = None  # m, this grid's axes in the world of the odometry; None without odometry
    device: DeviceArray | None = None  # private: `moving` on the accelerator, until the filter's next frame

    def __repr__(self) -> str:
        return (
            f"OccupancyFrame({_size(self.grid)}, time {self.time:.3f} s, {np.count_nonzero(self.moving)} moving cells, "
            f"{len(self.objects)} objects; diagnostics: {'; '.join(self.diagnostics) or 'none'})"
        )

    @cached_property
    def unknown(self) -> Float32:
        """(rows, columns) 1 - static - dynamic - free."""
        return np.maximum(1 - self.static - self.dynamic - self.free, 0, dtype=np.float32)

    @cached_property
    def occupied(self) -> Float32:
        """(rows, columns) P(occupied) = static + dynamic + unknown / 2."""
        return self.static + self.dynamic + np.float32(0.5) * self.unknown

    def moving_cells(self) -> tuple[Grid, NDArray[np.bool_]]:
        """Moving cells in the grid frame of the ground, for `GroundFilter(...)(scan, moving=...)`."""
        if self.T_ground_grid is None:
            return self.grid, self.moving
        grid = self.grid
        size = math.hypot(grid.columns, grid.rows) * grid.spacing
        x = grid.x0 + (grid.columns - 1) / 2 * grid.spacing
        y = grid.y0 + (grid.rows - 1) / 2 * grid.spacing
        middle_x, middle_y, _ = self.T_ground_grid.of(x, y, 0.0)
        if abs(self.T_ground_grid.yaw) * size / 2 < grid.spacing:  # rotated by less than a cell: a shift is enough
            corner = grid.x0 + (middle_x - x), grid.y0 + (middle_y - y)
            return Grid(*corner, grid.spacing, grid.columns, grid.rows), self.moving
        upright = Grid.centred(size, size, grid.spacing, middle_x, middle_y)
        xs, ys = upright.mesh()
        turned = self.T_ground_grid.inverse() @ np.stack([xs.ravel(), ys.ravel(), np.zeros(xs.size)], axis=1)
        cell = grid.index(turned[:, 0], turned[:, 1])
        return upright, ((cell >= 0) & self.moving.ravel()[cell]).reshape(upright.shape)


def _size(grid: Grid) -> str:
    return f"{grid.rows} x {grid.columns} cells of {grid.spacing:g} m"


def _label_counts(label: NDArray[np.uint8]) -> str:
    """Points per class; labels on a device are not read."""
    if not isinstance(label, np.ndarray) or not len(label):
        return ""
    counts = np.bincount(label, minlength=len(Label))
    return ": " + ", ".join(f"{counts[kind]:,} {kind.name.lower()}" for kind in Label if counts[kind])
