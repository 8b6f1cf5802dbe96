# SPDX-License-Identifier: Apache-2.0
"""The occupancy stage: observe, fuse, filter, group. One call per scan, one frame out."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np

from roadbed.config import Config
from roadbed.config.occupancy import GridConfig, OccupancyConfig
from roadbed.errors import ConfigError, DeviceError, InputError
from roadbed.frames import GroundFrame, Lattice, OccupancyFrame, Pose, Scan
from roadbed.occupancy.fuse import FusedGrid, Fusion
from roadbed.occupancy.hsbof import GridMotion, Hsbof
from roadbed.occupancy.memory import check_memory
from roadbed.occupancy.objects import ObjectTracker, find_clusters
from roadbed.occupancy.observe import observe

_NEW_START = 1.0  # s; time that runs back further than this is a new recording, not a late scan
_FRAME_JUMP = 0.5  # m; a lattice frame that moved more than this against the world is another one
_STARVED = 0.2  # share of the dynamic mass without particles that is worth a note


class OccupancyFilter:
    """Dynamic occupancy from segmented scans: `frame = filter(scan, ground_frame)`.

    Scans of several sensors come merged (`Scan.merged`) or one by one, told apart by `scan.sensor`.
    """

    def __init__(
        self, config: Config | OccupancyConfig | None = None, backend: str = "cpu", seed: int | None = None
    ) -> None:
        if backend not in ("cpu", "auto"):
            raise DeviceError(f"occupancy backend {backend!r}: expected cpu")
        if isinstance(config, Config):
            seed = config.seed if seed is None else seed
            config = config.occupancy
        self.config = config or OccupancyConfig()
        self.seed = seed or 0
        self._lattice = _lattice_around(self.config.grid, 0.0, 0.0)
        check_memory(self._lattice, self.config)
        self._hsbof = self._new_hsbof()
        self._fusion = Fusion(self.config.fusion, self.config.observation.clip)
        self._tracker = ObjectTracker(self.config.objects)
        self.reset()

    def reset(self) -> None:
        """Forget everything seen so far."""
        self._hsbof = self._new_hsbof()
        self._fusion.reset()
        self._tracker.reset()
        self._time: float | None = None
        self._mounts: dict[str, Pose] = {}
        self._T_lattice_grid = Pose.identity()
        self._T_lattice_world: Pose | None = None

    def __call__(self, scan: Scan, ground: GroundFrame) -> OccupancyFrame:
        """Take one scan with its ground; what was wrong with its time or pose is said in `frame.notes`."""
        begin = perf_counter()
        if len(ground.height_above_ground) != len(scan):
            raise InputError(
                f"scan {scan.name}: has {len(scan)} points, its ground frame {len(ground.height_above_ground)}"
            )
        notes = self._check_place(scan, ground)
        time = self._time_of(scan)
        if self._time is not None and time < self._time - _NEW_START:
            notes.append(f"time ran back by {self._time - time:.3g} s: started anew")
            self.reset()
        if self._is_late(scan, time):
            notes.append(f"sensor {scan.sensor}: scan at {time:.3f} s is not newer than the last: not used")
            return self._frame(self._time or time, notes, {}, None)
        dt = 0.0 if self._time is None else max(time - self._time, 0.0)
        if dt > self.config.filter.max_gap:
            notes.append(f"gap of {dt:.3g} s: what moved is forgotten")
            self._hsbof.forget_motion(dt)
            self._tracker.reset()
            dt = 0.0
        motion = self._move_grid(ground)
        moved = perf_counter()
        grids = observe(scan, ground, self._lattice, self.config.observation, self._T_lattice_grid)
        observed = perf_counter()
        self._fusion.add(grids, self._lattice)
        observation = self._fusion.fused(time, self._lattice)
        fused = perf_counter()
        self._hsbof.step(observation, dt, motion)
        if self._hsbof.uncarried > _STARVED:
            share = round(100 * self._hsbof.uncarried)
            notes.append(f"{share} % of the dynamic mass found no particle: raise occupancy.filter.particles")
        self._time = time
        timings = {"move_grid": moved - begin, "observe": observed - moved, "fuse": fused - observed}
        return self._frame(time, notes, timings, observation)

    def _new_hsbof(self) -> Hsbof:
        return Hsbof(self._lattice.shape, self._lattice.spacing, self.config.filter, self.seed)

    def _time_of(self, scan: Scan) -> float:
        if scan.time is None:
            # Without clocks scans follow each other at the usual 10 Hz.
            return 0.0 if self._time is None else self._time + 0.1
        if not math.isfinite(scan.time):
            raise InputError(f"scan {scan.name}: expected a finite time, found {scan.time}")
        return scan.time

    def _check_place(self, scan: Scan, ground: GroundFrame) -> list[str]:
        """Start anew when there is no odometry, or when the ground's lattice frame became another one."""
        notes: list[str] = []
        for mount, _ in scan.split():
            known = self._mounts.setdefault(mount.name, mount.T_vehicle_sensor)
            if known.distance_to(mount.T_vehicle_sensor) > _FRAME_JUMP:
                raise InputError(
                    f"sensor {mount.name!r}: found at two places {known.distance_to(mount.T_vehicle_sensor):.2f} m "
                    "apart on the vehicle, expected one name per sensor"
                )
        if scan.T_world_sensor is None:
            if self._time is not None:
                notes.append("no odometry: every scan stands alone")
                self.reset()
            return notes
        T_lattice_world = ground.T_lattice_sensor @ scan.T_world_sensor.inverse()
        if self._T_lattice_world is not None:
            here = scan.T_world_sensor.translation
            jump = float(np.linalg.norm((T_lattice_world @ here) - (self._T_lattice_world @ here)))
            if jump > _FRAME_JUMP:
                notes.append(f"the lattice frame jumped by {jump:.2f} m: started anew")
                self.reset()
        self._T_lattice_world = T_lattice_world
        return notes

    def _is_late(self, scan: Scan, time: float) -> bool:
        """Older than what the filter has seen, or a second scan of one sensor at the same time."""
        if self._time is None:
            return False
        repeated = any(self._fusion.time_of(mount.name) == time for mount, _ in scan.split())
        return time < self._time or (time == self._time and repeated)

    def _move_grid(self, ground: GroundFrame) -> GridMotion:
        """Keep the grid around the vehicle: by whole cells along world axes, or fixed to the vehicle's axes."""
        grid, old, first = self.config.grid, self._lattice, self._time is None
        T_lattice_vehicle = ground.T_lattice_sensor @ ground.mounting.T_vehicle_sensor.inverse()
        if grid.motion == "rolling":
            heading = T_lattice_vehicle.yaw
            x = float(T_lattice_vehicle.translation[0]) + grid.ahead * math.cos(heading)
            y = float(T_lattice_vehicle.translation[1]) + grid.ahead * math.sin(heading)
            self._lattice = _lattice_around(grid, x, y)
            if first:
                return GridMotion()
            columns = round((self._lattice.x0 - old.x0) / old.spacing)
            rows = round((self._lattice.y0 - old.y0) / old.spacing)
            return GridMotion(shift=np.array([columns, rows]) * old.spacing, cells=(columns, rows))
        self._lattice = Lattice.centred(grid.length, grid.width, grid.resolution, x=grid.ahead)
        before, yaw = self._T_lattice_grid, T_lattice_vehicle.yaw
        x, y = T_lattice_vehicle.translation[:2]
        self._T_lattice_grid = Pose.from_euler(x, y, 0.0, yaw=yaw)
        if first:
            return GridMotion(cells=None)
        M = before.inverse() @ self._T_lattice_grid
        corner = np.array([self._lattice.extent[0], self._lattice.extent[2]])
        rotation = M.rotation[:2, :2]
        return GridMotion(rotation, rotation @ corner + M.translation[:2] - corner, None)

    def _frame(
        self,
        time: float,
        notes: list[str],
        timings: dict[str, float],
        observation: FusedGrid | None,
    ) -> OccupancyFrame:
        begin = perf_counter()
        h = self._hsbof
        unknown = h.unknown
        velocity, covariance, moving = h.velocity.copy(), h.velocity_covariance.copy(), h.moving.copy()
        clusters = find_clusters(self._lattice, moving, velocity, covariance, self.config.objects)
        objects = self._tracker.update(clusters, time)
        if timings:
            timings = {**timings, **h.timings, "objects": perf_counter() - begin}
        return OccupancyFrame(
            lattice=self._lattice,
            time=time,
            occupancy=h.static + h.dynamic + np.float32(0.5) * unknown,
            static=h.static.copy(),
            dynamic=h.dynamic.copy(),
            free=h.free.copy(),
            unknown=unknown,
            velocity=velocity,
            velocity_covariance=covariance,
            moving=moving,
            observation=None if observation is None else observation.probability,
            observedness=None if observation is None else observation.observedness,
            objects=objects,
            notes=tuple(notes),
            timings=timings,
        )


def _lattice_around(grid: GridConfig, x: float, y: float) -> Lattice:
    """A lattice whose cells lie on multiples of the resolution, with (x, y) in its middle."""
    columns, rows = round(grid.length / grid.resolution), round(grid.width / grid.resolution)
    if columns < 1 or rows < 1:
        raise ConfigError(f"occupancy.grid: {grid.length:g} x {grid.width:g} m holds no cell of {grid.resolution:g} m")
    first_column = math.floor(x / grid.resolution) - columns // 2
    first_row = math.floor(y / grid.resolution) - rows // 2
    return Lattice(
        (first_column + 0.5) * grid.resolution, (first_row + 0.5) * grid.resolution, grid.resolution, columns, rows
    )
