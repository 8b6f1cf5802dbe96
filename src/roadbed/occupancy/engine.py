# SPDX-License-Identifier: Apache-2.0
"""The occupancy engine: one protocol for CPU and devices that encloses observation, fusion and filter.

Nothing returns to the host between these steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from roadbed.core.device_arrays import DeviceArray, to_host
from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, Scan
from roadbed.core.geometry import Float32, Float64, Grid, Pose
from roadbed.occupancy.observation.model import NO_SENSOR
from roadbed.occupancy.observation.movers import NO_MOVERS

_NO_TURN, _NO_SHIFT = np.eye(2), (0.0, 0.0)
_NO_TURN.flags.writeable = False  # shared by all motions


class GridMotion(NamedTuple):
    """How the grid moved: `p_old = rotation p_new + shift`, metres from the grid's lower left corner."""

    rotation: Float64 = _NO_TURN
    shift: Sequence[float] | Float64 = _NO_SHIFT  # x, y
    cells: tuple[int, int] | None = (0, 0)  # the shift in whole columns and rows; None: interpolate

    @classmethod
    def rolled(cls, columns: int, rows: int, spacing: float) -> GridMotion:
        """By whole cells."""
        return cls(shift=(columns * spacing, rows * spacing), cells=(columns, rows))

    def then(self, later: GridMotion) -> GridMotion:
        """This motion and the one after it."""
        cells = None
        if self.cells is not None and later.cells is not None:
            cells = self.cells[0] + later.cells[0], self.cells[1] + later.cells[1]
        if self.rotation is _NO_TURN and later.rotation is _NO_TURN:
            (x, y), (u, v) = self.shift, later.shift
            return GridMotion(_NO_TURN, (u + x, v + y), cells)
        return GridMotion(self.rotation @ later.rotation, self.rotation @ later.shift + self.shift, cells)

    def between_centres(self, spacing: float) -> tuple[Float64, Float64]:
        """Rotation and shift between indices of cells, which count from the middle of the first."""
        half = np.full(2, 0.5)
        return self.rotation, self.rotation @ half + np.divide(self.shift, spacing) - half


@dataclass(frozen=True, eq=False)
class SensorView:
    """One sensor's part of a scan."""

    name: str
    points: NDArray[np.int64] | None  # which of the scan's points it saw; None: all that are numbers
    count: int  # of them
    origin: tuple[float, ...]  # m, where it stands in the ground's grid frame: x, y, z


@dataclass(frozen=True, eq=False)
class GroundSurface:
    """The ground under a scan: its grid's layers with NaN where unknown, and the plane to assume there."""

    grid: Grid
    elevation: Any  # (rows, columns) m, float32; `DeviceArray` where slope and variance follow it on the device
    slope: Float32  # (rows, columns, 2)
    variance: Float32  # (rows, columns) m^2
    plane: Float64  # (3,) that the vehicle stands on: height at x = y = 0, slopes along x and y

    @classmethod
    def of(cls, ground: GroundFrame, elevation: Any = None) -> GroundSurface:
        """With the `elevation` where it lies on a device, else the frame's."""
        x, y, z = ground.T_grid_vehicle.xyz
        up_x, up_y, up_z = ground.T_grid_vehicle.turned(0.0, 0.0, 1.0)
        slope_x, slope_y = -up_x / up_z, -up_y / up_z
        plane = np.array([z - slope_x * x - slope_y * y, slope_x, slope_y])
        variance = ground.variance if ground.surface_variance is None else ground.surface_variance
        return cls(ground.grid, ground.elevation if elevation is None else elevation, ground.slope, variance, plane)


@dataclass(frozen=True, eq=False)
class OccupancyInput:
    """All that one frame is computed from, beside what the engine knows from the frames before."""

    points: Any  # (N, 3) float32 in the sensor frame, or `DeviceArray`, and then NaN on the own vehicle
    heights: Any  # (N,) float32 m over the ground, NaN where no ground is known, or `DeviceArray`
    T_ground_sensor: Pose  # takes the points to the ground's grid frame
    sensors: tuple[SensorView, ...]
    surface: GroundSurface
    grid: Grid  # of the grid's cells, along the grid's axes
    T_ground_grid: Pose  # from the grid's axes to the ground's grid frame
    time: float  # s
    dt: float = 0.0  # s to predict since the frame before
    ego_velocity: tuple[float, float] = (0.0, 0.0)  # m/s of the vehicle along the grid's axes
    sensor_index: NDArray[np.uint8] | None = (
        None  # (N,) the sensor of each point that lies on a device; None: there is one
    )
    point_time: Any = None  # (N,) float32 s relative to `time`; used for movers alone
    movers: NDArray[np.void] = field(default_factory=lambda: NO_MOVERS)  # MOVER records, not at rest while it was seen

    @classmethod
    def of(
        cls,
        scan: Scan,
        ground: GroundFrame,
        grid: Grid,
        T_ground_grid: Pose | None = None,
        time: float = 0.0,
        dt: float = 0.0,
        ego_velocity: tuple[float, float] = (0.0, 0.0),
        backend: Any = None,
    ) -> OccupancyInput:
        """A scan over its ground; a merged scan is seen by each of its sensors from that sensor's place.

        What the ground has left on `backend`, where it was computed there, is read there.
        """
        held, sensor_index = ground.device, None
        points: Any
        heights: Any
        if held is not None and held.lies_on(backend):
            points, heights, surface = held.points, held.heights, GroundSurface.of(ground, held.layers)
            sensor_index, views = _views_on_device(scan, ground)
        else:
            points, heights = to_host(scan.points), np.asarray(to_host(ground.height_above_ground), np.float32)
            if len(heights) < len(points) or not ground.elevation.size:
                raise InputError("ground: expected a frame with the fields height_above_ground and surface")
            surface, views = GroundSurface.of(ground), tuple(_views(scan, ground))
        return cls(
            points,
            heights,
            ground.T_grid_sensor,
            views,
            surface,
            grid,
            T_ground_grid or Pose.identity(),
            time,
            dt,
            ego_velocity,
            sensor_index,
        )


def _views_on_device(scan: Scan, ground: GroundFrame) -> tuple[NDArray[np.uint8] | None, tuple[SensorView, ...]]:
    """Who saw each point, and the sensors; the own vehicle's points are no numbers there, so that none are chosen."""
    T_ground_sensor, own = ground.T_grid_sensor, ground.ego_mask
    if not scan.mounts:
        count = len(scan) - (0 if own is None else int(np.count_nonzero(own)))
        return None, (SensorView(scan.sensor, None, count, T_ground_sensor.xyz),)
    sensor_index, sensors, counts = to_host(scan.channels["sensor_index"]), len(scan.mounts), []
    if own is None and sensor_index.dtype == np.uint8:
        counts = np.bincount(sensor_index, minlength=sensors).tolist()
    if len(counts) != sensors:  # some points are the own vehicle's, or no sensor's
        known = sensor_index < sensors if own is None else (sensor_index < sensors) & ~own
        sensor_index = np.where(known, sensor_index, NO_SENSOR).astype(np.uint8)
        counts = np.bincount(sensor_index, minlength=sensors).tolist()
    return sensor_index, tuple(
        SensorView(mount.name, None, count, T_ground_sensor.of(*mount.T_vehicle_sensor.xyz))
        for mount, count in zip(scan.mounts, counts)
    )


def _views(scan: Scan, ground: GroundFrame) -> Iterator[SensorView]:
    """Each sensor with its points."""
    T_ground_sensor, own = ground.T_grid_sensor, ground.ego_mask
    for mount, points in scan.split():
        chosen = points if own is None else points[~own[points]]
        origin = T_ground_sensor.of(*mount.T_vehicle_sensor.xyz) if scan.mounts else T_ground_sensor.xyz
        yield SensorView(mount.name, chosen, len(chosen), origin)


@dataclass(frozen=True, eq=False)
class OccupancyOutput:
    """The result of one frame, in arrays of the caller's own; layers of shape (rows, columns)."""

    static: Float32
    dynamic: Float32
    free: Float32
    velocity: Float32  # (rows, columns, 2) m/s, NaN where nothing moves
    velocity_covariance: Float32  # (rows, columns, 3) xx, xy, yy
    moving: NDArray[np.bool_]
    observation: Float32  # p_z of the fused sensors
    observedness: Float32
    surface: NDArray[np.uint16]  # which of a cell's 4 x 4 subcells returned a beam, bit by bit
    mass_without_particles: float  # share of the dynamic mass that got no particle and became unknown
    timings: dict[str, float] = field(default_factory=dict)  # s per phase
    moving_on_device: DeviceArray | None = None  # `moving` where the engine has it, until its next frame


class LazyOutput(OccupancyOutput):
    """An output whose arrays are downloaded when they are first read, until the next frame."""

    def __init__(self, fetch: Callable[[str], Any], **known: Any) -> None:
        self.__dict__.update(known, _fetch=fetch)

    def __getattr__(self, name: str) -> Any:
        if name not in OccupancyOutput.__dataclass_fields__:
            raise AttributeError(name)
        self.__dict__[name] = self._fetch(name)
        return self.__dict__[name]


class OccupancyEngine(Protocol):
    """One grid, its particles, and the last observedness of its sensors."""

    @property
    def prior(self) -> Float32:
        """The masses of the last frame: static, dynamic and free, (3, rows, columns)."""

    def move(self, motion: GridMotion) -> None:
        """The grid has moved since the last frame; what is known stays where it is in the world."""

    def prefetch(self, dt: float) -> None:
        """Compute ahead what the next frame needs if it predicts `dt` seconds."""

    def begin(self, given: OccupancyInput) -> None:
        """Start a frame: observe a scan, fuse it with the other sensors, predict, update and resample.

        A device works on it until `finish`; the CPU does all of it there.
        """

    def finish(self) -> OccupancyOutput:
        """The result of the frame that was begun."""

    def forget(self) -> None:
        """Forget everything."""

    def forget_motion(self, gap: float) -> None:
        """After a gap of `gap` seconds dynamic mass becomes unknown, the rest fades."""
