# SPDX-License-Identifier: Apache-2.0
"""The occupancy stage: observe, fuse, filter, group. One call per scan, one frame out."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np

from roadbed.config import Config
from roadbed.config.occupancy import OccupancyConfig
from roadbed.errors import DeviceError, InputError
from roadbed.frames import GroundFrame, OccupancyFrame, Scan
from roadbed.geometry import Pose
from roadbed.occupancy.fuse import FusedGrid, Fusion
from roadbed.occupancy.hsbof import Hsbof
from roadbed.occupancy.memory import check_memory
from roadbed.occupancy.objects import ObjectTracker, find_clusters
from roadbed.occupancy.observe import observe
from roadbed.occupancy.placement import GridPlacement

_NEW_START = 1.0  # s; time that runs back further than this is a new recording, not a late scan
_SAME_MOUNT = 0.5  # m; one name at two places further apart than this means two sensors
_STARVED = 0.2  # share of the dynamic mass without particles that is worth a note
_USUAL_STEP = 0.1  # s between scans that come without time


class OccupancyFilter:
    """Dynamic occupancy from segmented scans: `frame = filter(scan, ground_frame)`.

    Scans of several sensors come merged (`Scan.merged`) or one by one, told apart by `scan.sensor`.
    """

    def __init__(
        self, config: Config | OccupancyConfig | None = None, backend: str = "cpu", seed: int | None = None
    ) -> None:
        if backend not in ("cpu", "auto"):
            raise DeviceError(f"occupancy backend {backend!r}: expected cpu or auto")
        if isinstance(config, Config):
            seed = config.seed if seed is None else seed
            config = config.occupancy
        self.config = config or OccupancyConfig()
        self.seed = seed or 0
        self._placement = GridPlacement(self.config.grid)
        check_memory(self._placement.lattice, self.config)
        self._fusion = Fusion(self.config.fusion, self.config.observation.clip)
        self._tracker = ObjectTracker(self.config.objects)
        self.reset()

    def reset(self) -> None:
        """Forget everything seen so far."""
        lattice = self._placement.lattice
        self._hsbof = Hsbof(lattice.shape, lattice.spacing, self.config.filter, self.seed)
        self._placement.reset()
        self._fusion.reset()
        self._tracker.reset()
        self._time: float | None = None
        self._mounts: dict[str, Pose] = {}

    def __call__(self, scan: Scan, ground: GroundFrame) -> OccupancyFrame:
        """Take one scan with its ground; what was wrong with its time or place is said in `frame.notes`."""
        begin = perf_counter()
        self._check_scan(scan, ground)
        notes: list[str] = []
        time = self._time_of(scan)
        if scan.T_world_sensor is None and self._time is not None:
            notes.append("no odometry: every scan stands alone")
            self.reset()
        if self._time is not None and time < self._time - _NEW_START:
            notes.append(f"time ran back by {self._time - time:.3g} s: started anew")
            self.reset()
        if self._is_late(scan, time):
            notes.append(f"sensor {scan.sensor}: scan at {time:.3f} s is not newer than the last: not used")
            return self._frame(self._time or time, notes, {}, None)
        dt = self._elapsed(scan, ground, time, notes)
        motion = self._placement.follow(scan, ground, dt)
        lattice = self._placement.lattice
        placed = perf_counter()
        grids = observe(scan, ground, lattice, self.config.observation, self._placement.T_lattice_grid)
        observed = perf_counter()
        self._fusion.add(grids, lattice)
        observation = self._fusion.fused(time, lattice)
        fused = perf_counter()
        self._hsbof.step(observation, dt, motion, self._placement.own_velocity)
        if self._hsbof.uncarried > _STARVED:
            share = round(100 * self._hsbof.uncarried)
            notes.append(f"{share} % of the dynamic mass found no particle: raise occupancy.filter.particles")
        self._time = time
        timings = {"place": placed - begin, "observe": observed - placed, "fuse": fused - observed}
        return self._frame(time, notes, timings | self._hsbof.timings, observation)

    def _check_scan(self, scan: Scan, ground: GroundFrame) -> None:
        if len(ground.height_above_ground) != len(scan):
            raise InputError(
                f"scan {scan.name}: has {len(scan)} points, its ground frame {len(ground.height_above_ground)}"
            )
        if scan.time is not None and not math.isfinite(scan.time):
            raise InputError(f"scan {scan.name}: expected a finite time, found {scan.time}")
        for mount, _ in scan.split():
            known = self._mounts.setdefault(mount.name, mount.T_vehicle_sensor)
            apart = known.distance_to(mount.T_vehicle_sensor)
            if apart > _SAME_MOUNT:
                raise InputError(
                    f"sensor {mount.name!r}: found at two places of the vehicle {apart:.2f} m apart, "
                    "expected one name per sensor"
                )

    def _time_of(self, scan: Scan) -> float:
        if scan.time is not None:
            return scan.time
        return 0.0 if self._time is None else self._time + _USUAL_STEP

    def _is_late(self, scan: Scan, time: float) -> bool:
        """Older than what the filter has seen, or a second scan of one sensor at the same time."""
        if self._time is None:
            return False
        repeated = any(self._fusion.time_of(mount.name) == time for mount, _ in scan.split())
        return time < self._time or (time == self._time and repeated)

    def _elapsed(self, scan: Scan, ground: GroundFrame, time: float, notes: list[str]) -> float:
        """Seconds to predict; after a gap or a jump of the odometry the filter forgets instead."""
        dt = 0.0 if self._time is None else time - self._time
        jump = self._placement.jump(scan, ground, dt)
        if jump is not None:
            notes.append(f"odometry jumped by {jump:.1f} m: started anew")
            self.reset()
            return 0.0
        if dt > self.config.filter.max_gap:
            notes.append(f"gap of {dt:.3g} s: what moved is forgotten")
            self._hsbof.forget_motion(dt)
            self._tracker.reset()
            return 0.0
        return dt

    def _frame(
        self, time: float, notes: list[str], timings: dict[str, float], observation: FusedGrid | None
    ) -> OccupancyFrame:
        begin = perf_counter()
        h, lattice = self._hsbof, self._placement.lattice
        unknown = h.unknown
        velocity, covariance, moving = h.velocity.copy(), h.velocity_covariance.copy(), h.moving.copy()
        clusters = find_clusters(lattice, moving, velocity, covariance, self.config.objects)
        objects = self._tracker.update(clusters, time)
        if timings:
            timings = {**timings, "objects": perf_counter() - begin}
        return OccupancyFrame(
            lattice=lattice,
            time=time,
            occupied=h.static + h.dynamic + np.float32(0.5) * unknown,
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
            T_lattice_grid=self._placement.T_lattice_grid,
        )
