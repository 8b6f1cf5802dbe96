# SPDX-License-Identifier: Apache-2.0
"""The occupancy filter: scans with their ground in, occupancy frames out; observe, fuse, filter, group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast, get_args

import numpy as np

from roadbed.config import Config
from roadbed.core.closing import Closed, Closing
from roadbed.core.device_arrays import to_host
from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, Mounting, Moving, OccupancyFrame, Scan, SensorMount, check_fields
from roadbed.core.geometry import Pose
from roadbed.core.point_arrays import DESKEWED_TIME
from roadbed.core.timeline import Link, Moment, Timeline
from roadbed.core.timing import timed
from roadbed.core.tracked_objects import NO_TRACKS, TrackedObjects, Tracks
from roadbed.kernels import progress as compilation
from roadbed.occupancy.cpu import OccupancyCpu
from roadbed.occupancy.device import OccupancyDevice, device_programs
from roadbed.occupancy.engine import OccupancyEngine, OccupancyInput, OccupancyOutput
from roadbed.occupancy.objects.arrays import NO_CLUSTERS, CellGrid, MovingLayers
from roadbed.occupancy.objects.hidden_cpu import withdraw_free
from roadbed.occupancy.objects.model import ClusterRule, TrackRule
from roadbed.occupancy.objects.tracker import ClusterFinder, ObjectTracker
from roadbed.occupancy.observation.movers import movers_at
from roadbed.occupancy.placement import GridPlace, GridPlacement
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend, refuse_after_fork
from roadbed.runtime.device_errors import translate_error
from roadbed.runtime.device_selection import shared_or_opened

OccupancyField = Literal["masses", "velocity", "observation", "objects"]  # results beside the moving cells
FIELDS: tuple[OccupancyField, ...] = get_args(OccupancyField)
_LAYERS = {
    "masses": ("static", "dynamic", "free"),
    "velocity": ("velocity", "velocity_covariance"),
    "observation": ("observation", "observedness"),
}
_EMPTY_LAYERS: dict[str, Any] = dict.fromkeys((*_LAYERS["masses"], *_LAYERS["velocity"]), np.empty((0, 0), np.float32))
_SAME_MOUNT = 0.5  # m; one name at two places further apart than this means two sensors
_STARVED = 0.2  # share of the dynamic mass without particles that is worth a note
_USUAL_STEP = 0.1  # s between scans that come without time


@dataclass(frozen=True, eq=False)
class _Prepared:
    """What follows from a scan and its time before the ground is known."""

    scan: Scan
    mounts: tuple[SensorMount, ...]
    T_world_vehicle: Pose | None
    moment: Moment
    time: float  # s, the frame's
    seconds: float  # since the frame before it, of this drive
    dt: float  # s to predict; none after a gap

    @property
    def sensors(self) -> list[str]:
        return [mount.name for mount in self.mounts]


class OccupancyTask:
    """A scan that a filter works on; see `OccupancyFilter.begin`."""

    frame: OccupancyFrame | None = None


class OccupancyFilter(Closing):
    """Dynamic occupancy from segmented scans: `frame = filter(scan, ground_frame)`.

    Scans of several sensors come merged (`Scan.merged`) or one by one, identified by `scan.sensor`. The
    configuration names backend and device; `backend` is one that is open already and shared with another filter.
    `fields` are the optional results of a frame; None: all of FIELDS. Calls from several threads take turns.
    """

    def __init__(
        self,
        config: Config | None = None,
        backend: Backend | CpuBackend | None = None,
        *,
        fields: Iterable[OccupancyField] | None = None,
    ) -> None:
        self.config = Config.of(config)
        self.backend = shared_or_opened(backend, self.config.backend, self.config.device, device_programs)
        self._fields = check_fields(fields, FIELDS)
        self._names = tuple(name for group, names in _LAYERS.items() if group in self._fields for name in names)
        self._turn = threading.RLock()
        self._engine = _engine(self.config, self.backend, self._fields)
        self._placement = GridPlacement(self.config.occupancy.grid)
        self._timeline = Timeline(self.config.timeline.limits, in_order=True)
        occupancy = self.config.occupancy
        self._finder = ClusterFinder(self._placement.shape, ClusterRule.of(occupancy, occupancy.grid.spacing))
        self._tracker = ObjectTracker(TrackRule.of(occupancy))
        self._mounts: dict[str, Pose] = {}
        self._last: OccupancyFrame | None = None
        self._prepared: _Prepared | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r}; {self.backend.device.name})"

    def close(self) -> None:
        """Release the device memory of this filter."""
        with self._turn:
            if not isinstance(self._engine, Closed):
                self._engine = cast(OccupancyEngine, Closed(self))

    def reset(self) -> None:
        """Forget everything seen so far."""
        with self._turn:
            self._timeline.reset()
            self._forget()
            self._prepared = None

    def prefetch(self, scan: Scan, mounting: Mounting) -> None:
        """Prepare the next scan while its ground is being computed. Optional; an invalid scan is refused when it is
        given with its ground."""
        with self._turn:
            try:
                self._prepared = self._prepare(scan, mounting)
            except InputError:
                return
            self._engine.prefetch(self._prepared.dt)

    def __call__(self, scan: Scan, ground: GroundFrame) -> OccupancyFrame:
        """Take one scan with its ground; problems with its time or pose are in `frame.diagnostics`."""
        with self.begin(scan, ground) as task:
            pass
        assert task.frame is not None
        return task.frame

    @contextmanager
    def begin(self, scan: Scan, ground: GroundFrame) -> Iterator[OccupancyTask]:
        """The same in two parts: a device works on the scan while the body of the `with` statement runs.

        `task.frame` is set after it.
        """
        refuse_after_fork()
        task = OccupancyTask()
        with self._turn, translate_error(self.backend):
            try:
                finish = self._start(scan, ground)
                yield task
                task.frame = finish()
            except BaseException:
                if self._last is None:  # the first scan failed: given again, it is not a repeated one
                    self._timeline.reset()
                raise
        compilation.ready("occupancy")

    def _start(self, scan: Scan, ground: GroundFrame) -> Callable[[], OccupancyFrame]:
        """Let the engine begin; the frame comes from calling the result."""
        timings: dict[str, float] = {}
        with timed(timings, "place"):
            if len(ground.label) != len(scan):
                raise InputError(f"scan {scan.name}: has {len(scan)} points, its ground frame {len(ground.label)}")
            prepared = self._prepared
            if prepared is None or prepared.scan is not scan:
                prepared = self._prepare(scan, ground.mounting)
            self._prepared, diagnostics = None, list(prepared.moment.diagnostics)
            if prepared.moment.link is Link.ASIDE:
                return partial(self._unchanged, diagnostics)
            self._accept(prepared, diagnostics)
            place = self._placement.follow(scan, ground, prepared.dt)
            self._engine.move(place.motion)
            if place.T_before_now is not None:
                self._tracker.move(place.T_before_now)
            when = (prepared.time, prepared.dt, place.ego_velocity)
            given = OccupancyInput.of(scan, ground, place.grid, place.T_ground_grid, *when, self.backend)
            given = self._with_movers(given, scan.channels.get(DESKEWED_TIME))
        self._engine.begin(given)
        return partial(self._finish, ground, given, place, diagnostics, timings)

    def _finish(
        self,
        ground: GroundFrame,
        given: OccupancyInput,
        place: GridPlace,
        diagnostics: list[str],
        timings: dict[str, float],
    ) -> OccupancyFrame:
        output = self._engine.finish()
        if output.mass_without_particles > _STARVED:
            share = round(100 * output.mass_without_particles)
            diagnostics.append(f"{share} % of the dynamic mass found no particle: raise occupancy.filter.particles")
        with timed(timings, "objects"):
            tracked = "objects" in self._fields or given.point_time is not None
            tracks = self._track(given, output) if tracked else NO_TRACKS
        with timed(timings, "download"):  # what is not asked for stays on the device, and is empty here
            layers = _EMPTY_LAYERS | {name: getattr(output, name) for name in self._names}
        if len(tracks) and "masses" in self._fields:
            withdraw_free(layers["free"], tracks, output.observation, CellGrid.of(place.grid))
        frame = OccupancyFrame(
            grid=place.grid,
            time=given.time,
            moving=output.moving,
            **layers,
            objects=TrackedObjects(tracks) if "objects" in self._fields else (),
            diagnostics=tuple(diagnostics),
            timings=timings | output.timings,
            T_ground_grid=place.T_ground_grid,
            T_world_grid=ground.T_world_grid and ground.T_world_grid @ given.T_ground_grid,
            device=output.moving_on_device,
        )
        self._last = replace(frame, moving=frame.moving.copy())  # the caller may write into a frame
        return frame

    def moving(self) -> Moving | None:
        """Moving cells of the last frame, which the ground of the next scan leaves out."""
        with self._turn:
            if (last := self._last) is None or not last.moving.any():
                return None
            grid, mask = last.moving_cells()
            return grid, mask if last.device is None or mask is not last.moving else last.device

    def _with_movers(self, given: OccupancyInput, point_time: Any) -> OccupancyInput:
        """With the times that deskewing has undone, and the objects of the last frame, whose points move on to now."""
        if point_time is None:
            return given
        T_grid_points = given.T_ground_grid.inverse() @ given.T_ground_sensor
        tracks = self._tracker.known
        if self._last is not None:  # what it did not see is not where it is expected, or is another object by now
            tracks = tracks[tracks["seen"] == self._last.time]
        movers = movers_at(given.time, tracks, T_grid_points)
        return replace(given, point_time=np.asarray(to_host(point_time), np.float32), movers=movers)

    def _track(self, given: OccupancyInput, output: OccupancyOutput) -> Tracks:
        """The moving objects; without moving cells nothing is downloaded."""
        clusters = NO_CLUSTERS
        if output.moving.any():
            velocity = output.velocity, output.velocity_covariance
            layers = MovingLayers.of(*velocity, output.surface, output.observation, output.dynamic, output.static)
            clusters = self._finder(given.grid, output.moving, layers, self._tracker.known, given.time)
        x, y, _ = given.T_ground_grid.inverse().of(*given.T_ground_sensor.xyz)
        return self._tracker.update(clusters, given.time, (x, y))

    def _forget(self) -> None:
        """Forget everything but the timeline."""
        self._engine.forget()
        self._placement.reset()
        self._tracker.reset()
        self._mounts.clear()
        self._last = None

    def _unchanged(self, diagnostics: list[str]) -> OccupancyFrame:
        """The last frame again: a scan that is not used changes nothing."""
        assert self._last is not None
        not_seen: dict[str, Any] = {"observation": None, "observedness": None, "timings": {}}
        return replace(self._last, moving=self._last.moving.copy(), diagnostics=tuple(diagnostics), **not_seen)

    def _prepare(self, scan: Scan, mounting: Mounting) -> _Prepared:
        """Changes nothing in the filter."""
        mounts, T_world_vehicle = self._checked_mounts(scan), _T_world_vehicle(scan, mounting)
        moment = self._timeline.classify(scan.time, [mount.name for mount in mounts], T_world_vehicle)
        last = None if moment.link in (Link.FIRST, Link.ALONE) or self._last is None else self._last.time
        time, seconds = scan.time or 0.0, 0.0
        if last is not None:
            time = last + _USUAL_STEP if scan.time is None else scan.time
            seconds = max(time - last, 0.0)
        dt = seconds if seconds <= self.config.occupancy.filter.max_gap else 0.0
        return _Prepared(scan, mounts, T_world_vehicle, moment, time, seconds, dt)

    def _accept(self, prepared: _Prepared, diagnostics: list[str]) -> None:
        """The scan is used: advance the timeline; after a gap the filter forgets what moved."""
        scan, moment = prepared.scan, prepared.moment
        self._timeline.record(moment, scan.time, prepared.sensors, prepared.T_world_vehicle)
        if moment.link is Link.ALONE:
            self.reset()
        if moment.link is Link.FIRST:
            self._forget()
        if _is_placed(scan):
            self._mounts.update((mount.name, mount.T_vehicle_sensor) for mount in prepared.mounts)
        if prepared.seconds > prepared.dt:
            diagnostics.append(f"gap of {prepared.seconds:.3g} s: what moved is forgotten")
            self._engine.forget_motion(prepared.seconds)
            self._tracker.reset()

    def _checked_mounts(self, scan: Scan) -> tuple[SensorMount, ...]:
        """The scan's sensors; an error where they and the sensors known so far do not belong together."""
        mounts = scan.mounts or (SensorMount(scan.sensor, scan.T_vehicle_sensor or Pose.identity()),)
        names = [mount.name for mount in mounts]
        if len(set(names)) < len(names):
            raise InputError(f"scan {scan.name}: expected one name per sensor, found sensors {', '.join(names)}")
        known = dict(self._mounts)
        for mount in mounts if _is_placed(scan) else ():
            apart = known.setdefault(mount.name, mount.T_vehicle_sensor).distance_to(mount.T_vehicle_sensor)
            if apart > _SAME_MOUNT:
                raise InputError(
                    f"sensor {mount.name!r}: found at two places of the vehicle {apart:.2f} m apart, "
                    "expected one name per sensor"
                )
        return mounts


def _engine(config: Config, backend: Backend | CpuBackend, fields: Collection[str]) -> OccupancyEngine:
    return OccupancyCpu(config) if isinstance(backend, CpuBackend) else OccupancyDevice(config, backend, fields)


def _is_placed(scan: Scan) -> bool:
    """Whether it says where its sensors are: a transform may come later than the first scan."""
    return bool(scan.mounts) or scan.T_vehicle_sensor is not None


def _T_world_vehicle(scan: Scan, mounting: Mounting) -> Pose | None:
    if scan.T_vehicle_sensor is not None or scan.T_world_sensor is None:
        return scan.T_world_vehicle
    return scan.T_world_sensor @ mounting.T_vehicle_sensor.inverse()
