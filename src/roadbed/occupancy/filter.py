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
from roadbed.occupancy.cpu import OccupancyCpu
from roadbed.occupancy.engine import OccupancyEngine, OccupancyInput, OccupancyOutput
from roadbed.occupancy.objects import ObjectTracker, find_clusters
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
        self.config = Config.of(config)
        if seed is not None:
            self.config = self.config.with_changes(seed=seed)
        self._placement = GridPlacement(self.config.occupancy.grid)
        self._engine: OccupancyEngine = OccupancyCpu(self.config)
        self._tracker = ObjectTracker(self.config.occupancy.objects)
        self.reset()

    def reset(self) -> None:
        """Forget everything seen so far."""
        self._engine.forget()
        self._placement.reset()
        self._tracker.reset()
        self._time: float | None = None
        self._last: OccupancyOutput | None = None
        self._times: dict[str, float] = {}
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
            assert self._last is not None
            return self._frame(self._time or time, notes, {}, self._last)
        dt = self._elapsed(scan, ground, time, notes)
        placement = self._placement
        self._engine.move(placement.follow(scan, ground, dt))
        given = OccupancyInput.of(
            scan, ground, placement.lattice, placement.T_lattice_grid, time, dt, placement.own_velocity
        )
        placed = perf_counter()
        output = self._engine.frame(given)
        if output.uncarried > _STARVED:
            share = round(100 * output.uncarried)
            notes.append(f"{share} % of the dynamic mass found no particle: raise occupancy.filter.particles")
        self._time, self._last = time, output
        self._times.update(dict.fromkeys((view.name for view in given.sensors), time))
        return self._frame(time, notes, {"place": placed - begin, **output.timings}, output)

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
        repeated = any(self._times.get(mount.name) == time for mount, _ in scan.split())
        return time < self._time or (time == self._time and repeated)

    def _elapsed(self, scan: Scan, ground: GroundFrame, time: float, notes: list[str]) -> float:
        """Seconds to predict; after a gap or a jump of the odometry the filter forgets instead."""
        dt = 0.0 if self._time is None else time - self._time
        jump = self._placement.jump(scan, ground, dt)
        if jump is not None:
            notes.append(f"odometry jumped by {jump:.1f} m: started anew")
            self.reset()
            return 0.0
        if dt > self.config.occupancy.filter.max_gap:
            notes.append(f"gap of {dt:.3g} s: what moved is forgotten")
            self._engine.forget_motion(dt)
            self._tracker.reset()
            return 0.0
        return dt

    def _frame(
        self, time: float, notes: list[str], timings: dict[str, float], output: OccupancyOutput
    ) -> OccupancyFrame:
        begin = perf_counter()
        lattice = self._placement.lattice
        unknown = np.maximum(1 - output.static - output.dynamic - output.free, 0, dtype=np.float32)
        clusters = find_clusters(
            lattice, output.moving, output.velocity, output.velocity_covariance, self.config.occupancy.objects
        )
        objects = self._tracker.update(clusters, time)
        return OccupancyFrame(
            lattice=lattice,
            time=time,
            occupied=output.static + output.dynamic + np.float32(0.5) * unknown,
            static=output.static,
            dynamic=output.dynamic,
            free=output.free,
            unknown=unknown,
            velocity=output.velocity,
            velocity_covariance=output.velocity_covariance,
            moving=output.moving,
            observation=output.observation if timings else None,
            observedness=output.observedness if timings else None,
            objects=objects,
            notes=tuple(notes),
            timings={**timings, "objects": perf_counter() - begin},
            T_lattice_grid=self._placement.T_lattice_grid,
        )
