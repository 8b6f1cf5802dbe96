# SPDX-License-Identifier: Apache-2.0
"""The occupancy filter: scans with their ground in, occupancy frames out; observe, fuse, filter, group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np

from roadbed.config import Config
from roadbed.core.closing import Closed, Closing
from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, Mounting, OccupancyFrame, Scan, SensorMount, check_fields
from roadbed.core.geometry import Pose
from roadbed.core.timeline import Link, Moment, Timeline
from roadbed.core.timing import timed
from roadbed.core.tracked_objects import TrackedObjects, Tracks
from roadbed.kernels import progress as compilation
from roadbed.occupancy.cpu import OccupancyCpu
from roadbed.occupancy.device import OccupancyDevice, device_programs
from roadbed.occupancy.engine import OccupancyEngine, OccupancyInput, OccupancyOutput
from roadbed.occupancy.objects.arrays import NO_CLUSTERS, MovingLayers
from roadbed.occupancy.objects.clusters import ClusterFinder
from roadbed.occupancy.objects.tracker import ObjectTracker
from roadbed.occupancy.placement import GridPlacement
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend, refuse_after_fork
from roadbed.runtime.device_errors import translate_error
from roadbed.runtime.device_selection import open_backend

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
class _Expected:
    """What scan and time say before the ground is known."""

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


class OccupancyFilter(Closing):
    """Dynamic occupancy from segmented scans: `frame = filter(scan, ground_frame)`.

    Scans of several sensors come merged (`Scan.merged`) or one by one, told apart by `scan.sensor`. The
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
        self.backend = backend or open_backend(self.config.backend, self.config.device, device_programs)
        self._fields = check_fields(fields, FIELDS)
        self._names = tuple(name for group, names in _LAYERS.items() if group in self._fields for name in names)
        self._turn = threading.RLock()
        self._engine = _engine(self.config, self.backend, self._fields)
        self._placement = GridPlacement(self.config.occupancy.grid)
        self._timeline = Timeline(self.config.timeline.limits, in_order=True)
        objects, spacing = self.config.occupancy.objects, self.config.occupancy.grid.spacing
        self._finder = ClusterFinder(self._placement.shape, spacing, objects)
        self._tracker = ObjectTracker(objects)
        self._mounts: dict[str, Pose] = {}
        self._last: OccupancyFrame | None = None
        self._expected: _Expected | None = None

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
            self._expected = None

    def expect(self, scan: Scan, mounting: Mounting) -> None:
        """Say, once its mounting is known, that a scan will be given next: what its ground is not needed for is done
        now. Nothing comes of it if the scan is never given; what is wrong with it is said when it is."""
        with self._turn:
            try:
                self._expected = self._expectation(scan, mounting)
            except InputError:
                return
            self._engine.expect(self._expected.dt)

    def __call__(
        self, scan: Scan, ground: GroundFrame, meanwhile: Callable[[], object] | None = None
    ) -> OccupancyFrame:
        """Take one scan with its ground; what was wrong with its time or place is said in `frame.diagnostics`.

        `meanwhile` is called, if the scan is used, once a device has been told of all its work.
        """
        refuse_after_fork()
        with self._turn, translate_error(self.backend):
            try:
                frame = self._take(scan, ground, meanwhile)
            except BaseException:
                if self._last is None:  # nothing came of the first scan: given again, it is not a repeated one
                    self._timeline.reset()
                raise
        compilation.ready("occupancy")
        return frame

    def _take(self, scan: Scan, ground: GroundFrame, meanwhile: Callable[[], object] | None) -> OccupancyFrame:
        timings: dict[str, float] = {}
        with timed(timings, "place"):
            if len(ground.label) != len(scan):
                raise InputError(f"scan {scan.name}: has {len(scan)} points, its ground frame {len(ground.label)}")
            expected = self._expected
            if expected is None or expected.scan is not scan:
                expected = self._expectation(scan, ground.mounting)
            self._expected, moment, diagnostics = None, expected.moment, list(expected.moment.diagnostics)
            if moment.link is Link.ASIDE:
                return self._unchanged(diagnostics)
            self._begin(expected, diagnostics)
            place = self._placement.follow(scan, ground, expected.dt)
            self._engine.move(place.motion)
            if place.T_before_now is not None:
                self._tracker.move(place.T_before_now)
            when = (expected.time, expected.dt, place.own_velocity)
            given = OccupancyInput.of(scan, ground, place.grid, place.T_ground_grid, *when, self.backend)
        output = self._engine.frame(given, meanwhile)
        if output.uncarried > _STARVED:
            share = round(100 * output.uncarried)
            diagnostics.append(f"{share} % of the dynamic mass found no particle: raise occupancy.filter.particles")
        with timed(timings, "objects"):
            objects = TrackedObjects(self._follow(given, output)) if "objects" in self._fields else ()
        with timed(timings, "download"):
            layers = self._layers(output)
        self._last = OccupancyFrame(
            grid=place.grid,
            time=expected.time,
            moving=output.moving,
            **layers,
            objects=objects,
            diagnostics=tuple(diagnostics),
            timings=timings | output.timings,
            T_ground_grid=place.T_ground_grid,
            T_world_grid=ground.T_world_grid and ground.T_world_grid @ given.T_ground_grid,
            device=output.moving_on_device,
        )
        return self._last

    def _layers(self, output: OccupancyOutput) -> dict[str, Any]:
        """The frame's layers, empty where nobody wants them: what lies on a device then stays there."""
        return _EMPTY_LAYERS | {name: getattr(output, name) for name in self._names}

    def _follow(self, given: OccupancyInput, output: OccupancyOutput) -> Tracks:
        """The things that move; where nothing does, no more is asked of a device."""
        things = NO_CLUSTERS
        if output.moving.any():
            velocity = output.velocity, output.velocity_covariance
            layers = MovingLayers.of(*velocity, output.surface, output.observation, output.dynamic, output.static)
            things = self._finder(given.grid, output.moving, layers, self._tracker.known, given.time)
        x, y, _ = given.T_ground_grid.inverse().of(*given.T_ground_sensor.xyz)
        return self._tracker.update(things, given.time, (x, y))

    def _forget(self) -> None:
        """Everything but the timeline, which has judged that nothing before counts."""
        self._engine.forget()
        self._placement.reset()
        self._tracker.reset()
        self._mounts.clear()
        self._last = None

    def _unchanged(self, diagnostics: list[str]) -> OccupancyFrame:
        """The last frame again: a scan that is not used changes nothing."""
        assert self._last is not None
        return replace(self._last, observation=None, observedness=None, diagnostics=tuple(diagnostics), timings={})

    def _expectation(self, scan: Scan, mounting: Mounting) -> _Expected:
        """Everything stays as it is."""
        mounts, T_world_vehicle = self._checked_mounts(scan), _T_world_vehicle(scan, mounting)
        moment = self._timeline.foresee(scan.time, [mount.name for mount in mounts], T_world_vehicle)
        last = None if moment.link in (Link.FIRST, Link.ALONE) or self._last is None else self._last.time
        time, seconds = scan.time or 0.0, 0.0
        if last is not None:
            time = last + _USUAL_STEP if scan.time is None else scan.time
            seconds = max(time - last, 0.0)
        dt = seconds if seconds <= self.config.occupancy.filter.max_gap else 0.0
        return _Expected(scan, mounts, T_world_vehicle, moment, time, seconds, dt)

    def _begin(self, expected: _Expected, diagnostics: list[str]) -> None:
        """The scan is used: keep what was expected of it; after a gap the filter forgets what moved."""
        scan, moment = expected.scan, expected.moment
        self._timeline.take(moment, scan.time, expected.sensors, expected.T_world_vehicle)
        if moment.link is Link.ALONE:
            self.reset()
        if moment.link is Link.FIRST:
            self._forget()
        if _is_placed(scan):
            self._mounts.update((mount.name, mount.T_vehicle_sensor) for mount in expected.mounts)
        if expected.seconds > expected.dt:
            diagnostics.append(f"gap of {expected.seconds:.3g} s: what moved is forgotten")
            self._engine.forget_motion(expected.seconds)
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
