# SPDX-License-Identifier: Apache-2.0
"""What flows through Roadbed. SI units; x forward, y left, z up; the vehicle frame's origin lies on the road."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.config import TraversabilityConfig
from roadbed.core.device_arrays import DeviceArray, lies_on_device
from roadbed.core.display import Shown
from roadbed.core.errors import ConfigError, InputError
from roadbed.core.geometry import Float32, Float64, Grid, Pose
from roadbed.core.tracked_objects import TrackedObject
from roadbed.core.traversability import Traversability, traversability

# Cells, along the axes of the ground's grid frame, and which of them move: [y][x], on the host or on a device.
Moving = tuple[Grid, NDArray[np.bool_] | DeviceArray]


def check_fields(fields: Iterable[str] | None, known: Collection[str]) -> frozenset[str]:
    """Which of the known results a caller wants: all of them unless told."""
    names = frozenset(known if fields is None else fields)
    if strange := sorted(names - set(known)):
        raise ConfigError(f"fields: found {', '.join(strange)}, expected some of {', '.join(known)}")
    return names


class Label(IntEnum):
    """What a point is, in `GroundFrame.label`."""

    UNKNOWN = 0  # outside the lattice, not finite, or no ground known beneath it
    GROUND = 1
    OBSTACLE = 2
    OVERHANG = 3  # above the clearance height: a vehicle passes under it
    LOW_OUTLIER = 4  # below the ground: multipath or noise


@dataclass(frozen=True)
class SensorMount:
    """One sensor of a rig."""

    name: str
    T_vehicle_sensor: Pose


@dataclass(frozen=True, eq=False)
class Scan:
    """One sweep of one sensor, in the sensor frame, with every channel it came with. Nothing is filtered out."""

    points: Float32  # (N, 3); an array in GPU memory stays there
    time: float | None = None  # s; the same clock for all scans of a source
    T_world_sensor: Pose | None = None  # where the sensor was at `time`; None: no odometry, every scan stands alone
    T_vehicle_sensor: Pose | None = None  # mounting; None: unknown, estimated by the ground filter
    sensor: str = "lidar"
    name: str = ""  # e.g. the file's stem; outputs are named after it
    intensity: NDArray | None = None  # (N,)
    ring: NDArray | None = None  # (N,) beam number
    point_time: NDArray | None = None  # (N,) s relative to `time`
    classes: NDArray | None = None  # (N,) uint32 semantic class where a data set says it, instance in the high half
    channels: Mapping[str, NDArray] = field(default_factory=dict)  # everything else, by its own name
    # A merged scan of a rig lies in the vehicle frame; its channel "sensor_index" says which mount saw each point.
    mounts: tuple[SensorMount, ...] = ()
    front: float = 0.0  # rad; where the vehicle's front lies in the sensor's xy plane, if the mounting is unknown

    def __post_init__(self) -> None:
        on_device = lies_on_device(self.points)
        points: Any = self.points if on_device else _numbers(self.points, f"scan {self.name}: points")
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"scan {self.name}: expected points of shape (N, 3), found {tuple(points.shape)}")
        if isinstance(points, np.ndarray) and (points.dtype != np.float32 or not points.flags.c_contiguous):
            with np.errstate(over="ignore"):  # a float64 of 1e300 becomes infinite, which the filters label unknown
                points = np.ascontiguousarray(points, np.float32)
        object.__setattr__(self, "points", points)
        for name, values in self._per_point():
            what = f"scan {self.name}: channel {name}"
            check = _array if name in self.channels else _numbers
            shape = tuple((values if lies_on_device(values) else check(values, what)).shape)
            if shape[:1] != (len(points),):
                found = shape[0] if shape else "single"
                raise InputError(f"{what} has {found} values, expected {len(points)} (one per point)")
        if self.time is not None and not np.isfinite(self.time):
            raise InputError(f"scan {self.name}: time: expected a finite number of seconds, found {self.time}")
        if self.mounts and np.shape(self.channels.get("sensor_index", 0)) != (len(points),):
            raise InputError(
                f"scan {self.name}: mounts: expected a channel sensor_index that says which mount saw each point"
            )

    def _per_point(self) -> Iterator[tuple[str, NDArray]]:
        for name in ("intensity", "ring", "point_time", "classes"):
            values = getattr(self, name)
            if values is not None:
                yield name, values
        yield from self.channels.items()

    def __len__(self) -> int:
        return len(self.points)

    @classmethod
    def of(
        cls, scan: Scan | ArrayLike, T_world_sensor: Pose | ArrayLike | None = None, time: float | None = None
    ) -> Scan:
        """A scan from what the caller has: a Scan, or an array of points (N, 3) or wider; a pose also as a matrix."""
        pose = T_world_sensor
        if pose is not None and not isinstance(pose, Pose):
            pose = Pose.from_matrix(pose)
        if isinstance(scan, Scan):
            return scan if pose is None and time is None else scan.at(pose or scan.T_world_sensor, time)
        points: Any = scan if lies_on_device(scan) else _numbers(scan, "points", "numbers of shape (N, 3) or wider")
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
        """Every per-point array beside the coordinates, by name."""
        return dict(self._per_point())

    @classmethod
    def merged(cls, scans: Sequence[Scan]) -> Scan:
        """One scan in the vehicle frame from simultaneous scans of several sensors with known mountings."""
        if not scans:
            raise InputError("merging scans: expected at least one, found none")
        mounts = []
        for scan in scans:
            if scan.T_vehicle_sensor is None:
                raise InputError(f"merging scans: the mounting of sensor {scan.sensor!r} is unknown")
            mounts.append(SensorMount(scan.sensor, scan.T_vehicle_sensor))
        names = [mount.name for mount in mounts]
        if len(set(names)) < len(names):
            raise InputError(f"merging scans: expected one scan per sensor, found sensors {', '.join(names)}")
        arrays = [scan.all_channels() for scan in scans]
        shared = {
            name: np.concatenate([channels[name] for channels in arrays])
            for name in arrays[0]
            if all(name in channels for channels in arrays)
        }
        named: Any = {name: shared.pop(name, None) for name in ("intensity", "ring", "point_time", "classes")}
        shared["sensor_index"] = np.repeat(np.arange(len(scans), dtype=np.uint8), [len(scan) for scan in scans])
        return cls(
            np.concatenate([mount.T_vehicle_sensor @ scan.points for mount, scan in zip(mounts, scans)]),
            time=scans[0].time,
            T_world_sensor=scans[0].T_world_vehicle,
            T_vehicle_sensor=Pose.identity(),
            sensor="+".join(names),
            name=scans[0].name,
            channels=shared,
            mounts=tuple(mounts),
            **named,
        )

    def split(self) -> list[tuple[SensorMount, NDArray[np.int64]]]:
        """Each mount of a merged scan with the indices of its points; a plain scan is its own single mount."""
        if not self.mounts:
            mount = SensorMount(self.sensor, self.T_vehicle_sensor or Pose.identity())
            return [(mount, np.arange(len(self)))]
        index = self.channels["sensor_index"]
        return [(mount, np.flatnonzero(index == k)) for k, mount in enumerate(self.mounts)]

    def part(self, chosen: NDArray | slice) -> Scan:
        """Only the chosen points, with every channel they have."""
        arrays = {name: values[chosen] for name, values in self._per_point()}
        named: Any = {name: arrays.pop(name, None) for name in ("intensity", "ring", "point_time", "classes")}
        return replace(self, points=self.points[chosen], channels=arrays, **named)

    def with_points(self, points: Float32) -> Scan:
        """The same scan with as many other points of the same kind: nothing has to be checked again."""
        other = object.__new__(Scan)
        other.__dict__.update(self.__dict__, points=points)
        return other

    def at(self, T_world_sensor: Pose | None, time: float | None = None) -> Scan:
        """The same scan with another pose (and time)."""
        return replace(self, T_world_sensor=T_world_sensor, time=self.time if time is None else time)


def _array(values: ArrayLike, what: str) -> NDArray:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{what}: expected rows of one length, found a ragged list") from None


def _numbers(values: ArrayLike, what: str, expected: str = "numbers") -> NDArray:
    """The values as an array, refused where they are text, dates, complex numbers or objects."""
    array = _array(values, what)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what}: expected {expected}, found {array.dtype}")
    return array


@dataclass(frozen=True, eq=False)
class Box:
    """An upright box around an object, in the sensor frame of its scan."""

    id: str
    kind: str  # e.g. Van, Cyclist, Pedestrian
    footprint: Float64  # (4, 2) m, corners in order
    z: float  # m, the bottom
    height: float  # m

    @property
    def centre(self) -> Float64:
        return self.footprint.mean(axis=0)


@dataclass(frozen=True)
class Mounting:
    """The sensor over the road: where it is and how sure that is."""

    T_vehicle_sensor: Pose
    estimated: bool  # False: given by the user
    quality: float = 1.0  # 0 (nothing found) to 1

    @property
    def height(self) -> float:
        return float(self.T_vehicle_sensor.translation[2])


@dataclass(frozen=True, eq=False)
class VarianceCells:
    """Statistics of grid variance's cells, arrays of shape (rows, columns); heights in m, NaN where a cell is empty."""

    grid: Grid
    count: NDArray[np.int32]
    mean: Float32
    variance: Float32
    lowest: Float32
    highest: Float32
    ground: NDArray[np.bool_]


@dataclass(eq=False)
class DeviceGround:
    """What a ground frame has left on its device for the stage after it, until the next frame is computed there."""

    backend: Any
    points: DeviceArray  # (N, 3) float32, NaN on the own vehicle
    heights: DeviceArray  # (N,) float32
    layers: DeviceArray  # elevation, slope (x, y) and variance one after the other, float32
    current: bool = True

    def lies_on(self, backend: Any) -> bool:
        """Whether kernels queued there now can read it."""
        return self.current and self.backend is backend


@dataclass(frozen=True, eq=False)
class GroundFrame(Shown):
    """The ground under one scan: one label per input point in input order, and the surface as lattice layers."""

    label: NDArray[np.uint8]  # (N,) see Label
    ground_probability: Float32  # (N,) c_j of the E-step, 0 where unknown
    height_above_ground: Float32  # (N,) m, NaN where no ground is known
    grid: Grid  # in the grid frame: level axes fixed to the world with odometry, else the vehicle frame
    elevation: Float32  # (rows, columns) m, NaN where unknown
    slope: Float32  # (rows, columns, 2) dz/dx, dz/dy, NaN where unknown
    variance: Float32  # (rows, columns) m^2 of the elevation; grows without data
    T_grid_sensor: Pose  # takes this scan's points to the grid frame
    mounting: Mounting
    scan: Scan | None = None
    time: float | None = None  # s, of the scan
    ego_mask: NDArray[np.bool_] | None = None  # (N,) points on the own body, label unknown; None: none is known
    T_world_grid: Pose | None = None  # the grid frame in the odometry's world; None without odometry
    used_prior: bool = False  # whether the surface of earlier scans was used
    cells: VarianceCells | None = None  # with the method "variance"
    device: DeviceGround | None = None  # the same on the accelerator that computed it
    diagnostics: tuple[str, ...] = ()  # what was noticed: pose jump, late scan, mounting re-estimated, ...
    timings: Mapping[str, float] = field(default_factory=dict)  # s per phase

    def __getstate__(self) -> dict[str, Any]:
        """A copy, here or in another process, has nothing on the device."""
        return {**self.__dict__, "device": None}

    @cached_property
    def T_grid_vehicle(self) -> Pose:
        """Where the vehicle is in the grid frame."""
        return self.T_grid_sensor @ self.mounting.T_vehicle_sensor.inverse()

    @property
    def is_ground(self) -> NDArray[np.bool_]:
        return self.label == Label.GROUND

    def traversability(self, config: TraversabilityConfig | None = None) -> Traversability:
        """Where a vehicle can drive: score and reason per node."""
        return traversability(self.elevation, self.slope, self.variance, self.grid.spacing, config)

    @property
    def points_grid(self) -> Float32:
        """The scan's points in the grid frame."""
        if self.scan is None:
            raise InputError("this ground frame was made without keeping its scan")
        return self.T_grid_sensor @ self.scan.points


@dataclass(frozen=True, eq=False)
class OccupancyFrame(Shown):
    """Per cell: occupied, static, moving, with velocity. static + dynamic + free + unknown = 1."""

    grid: Grid  # of cells
    time: float
    static: Float32  # (rows, columns)
    dynamic: Float32
    free: Float32
    velocity: Float32  # (rows, columns, 2) m/s, NaN where nothing moves
    velocity_covariance: Float32  # (rows, columns, 3) xx, xy, yy in m^2/s^2, NaN where nothing moves
    moving: NDArray[np.bool_]  # cells that surely move
    observation: Float32 | None = None  # p_z of the fused sensors
    observedness: Float32 | None = None  # lambda, 0 = nothing seen
    objects: Sequence[TrackedObject] = ()  # things that move, followed over time
    diagnostics: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    T_ground_grid: Pose | None = None  # from this grid's axes to the ground's grid frame; None: they are the same
    T_world_grid: Pose | None = None  # the axes of `lattice` in the odometry's world; None without odometry
    moving_on_device: DeviceArray | None = None  # `moving` where an accelerator has it, until its next frame

    def __getstate__(self) -> dict[str, Any]:
        """A copy, here or in another process, has nothing on the device."""
        return {**self.__dict__, "moving_on_device": None}

    @cached_property
    def unknown(self) -> Float32:
        """(rows, columns) what the other masses leave of 1."""
        return np.maximum(1 - self.static - self.dynamic - self.free, 0, dtype=np.float32)

    @cached_property
    def occupied(self) -> Float32:
        """(rows, columns) P(occupied) = static + dynamic + unknown / 2."""
        return self.static + self.dynamic + np.float32(0.5) * self.unknown

    def moving_cells(self) -> tuple[Grid, NDArray[np.bool_]]:
        """What moves, along the axes of the grid frame: what `GroundFilter(..., moving=)` leaves out."""
        if self.T_ground_grid is None:
            return self.grid, self.moving
        grid = self.grid
        size = math.hypot(grid.columns, grid.rows) * grid.spacing
        x = grid.x0 + (grid.columns - 1) / 2 * grid.spacing
        y = grid.y0 + (grid.rows - 1) / 2 * grid.spacing
        middle_x, middle_y, _ = self.T_ground_grid.of(x, y, 0.0)
        if abs(self.T_ground_grid.yaw) * size / 2 < grid.spacing:  # turned by less than a cell: moving it is enough
            corner = grid.x0 + (middle_x - x), grid.y0 + (middle_y - y)
            return Grid(*corner, grid.spacing, grid.columns, grid.rows), self.moving
        upright = Grid.centred(size, size, grid.spacing, middle_x, middle_y)
        xs, ys = upright.mesh()
        turned = self.T_ground_grid.inverse() @ np.stack([xs.ravel(), ys.ravel(), np.zeros(xs.size)], axis=1)
        cell = grid.index(turned[:, 0], turned[:, 1])
        return upright, ((cell >= 0) & self.moving.ravel()[cell]).reshape(upright.shape)
