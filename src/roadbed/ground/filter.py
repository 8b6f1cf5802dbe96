# SPDX-License-Identifier: Apache-2.0
"""The ground filter: scans in, ground frames out, whatever the sensor, its mounting and its odometry."""

from __future__ import annotations

import threading
import time as clock
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.config import Config
from roadbed.core.closing import Closed, Closing
from roadbed.core.errors import ConfigError, DeviceError
from roadbed.core.frames import GroundFrame, Mounting, Moving, Scan, check_fields
from roadbed.core.geometry import Pose
from roadbed.ground.ego.ego_mask import EgoMask, Room, without
from roadbed.ground.engine import Outputs, nothing
from roadbed.ground.method import GroundMethod, Segmented, looked_at
from roadbed.kernels import progress as compilation
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend, refuse_after_fork
from roadbed.runtime.device import Device
from roadbed.runtime.device_errors import translate_error
from roadbed.runtime.device_selection import open_backend
from roadbed.runtime.program import Program

GroundField = Literal["ground_probability", "height_above_ground"]  # results beside labels and layers
FIELDS: tuple[GroundField, ...] = get_args(GroundField)


class GroundFilter(Closing):
    """`filter(scan)` or `filter(points_xyz)` gives a GroundFrame; odometry in the scans carries the surface along.

    The configuration names backend and device; `backend` is one that is open already and shared with another filter.
    With `outputs="device"` labels and layers are CuPy arrays that stay on the GPU; with "both" they come to the host
    and the stage after it reads them on the GPU. `fields` are the optional results that an accelerator downloads; None:
    all of FIELDS. Calls from several threads take turns.
    """

    def __init__(
        self,
        config: Config | None = None,
        backend: Backend | CpuBackend | None = None,
        *,
        map_folder: str | Path | None = None,
        outputs: Outputs = "host",
        fields: Iterable[GroundField] | None = None,
    ) -> None:
        self.config = Config.of(config)
        programs = partial(device_programs, self.config)
        self.backend = backend or open_backend(self.config.backend, self.config.device, programs)
        self._turn = threading.RLock()
        self._own_body, self._room = EgoMask(self.config.vehicle), Room(self.backend)
        self._mounted: dict[str, Pose] = {}  # where each sensor sat in its last scan
        _check_outputs(outputs, self.config, self.backend)
        self._method = _method(self.config, self.backend, map_folder, outputs, check_fields(fields, FIELDS))

    def __call__(
        self,
        scan: Scan | ArrayLike,
        T_world_sensor: Pose | ArrayLike | None = None,
        time: float | None = None,
        moving: Moving | None = None,
    ) -> GroundFrame:
        """Label every point of a scan and estimate the surface under it."""
        with self.under_way(Scan.of(scan, T_world_sensor, time), moving) as ground:
            pass
        return ground.frame

    def under_way(
        self, scan: Scan, moving: Moving | None = None, meanwhile: Callable[[Mounting], object] = nothing
    ) -> GroundUnderWay:
        """The same for who has work for the device that follows: `with ground.under_way(scan) as begun:`.

        `meanwhile` is called with the scan's mounting while a device begins.
        """
        return GroundUnderWay(self, scan, moving, meanwhile)

    def batch(self, scans: Iterable[Scan]) -> Iterator[GroundFrame]:
        """One frame per scan, in order. On an accelerator scans without odometry are computed several at a time."""
        under_way: deque[tuple[Scan, NDArray[np.bool_] | None]] = deque()

        def entering() -> Iterator[Scan]:
            for scan in scans:
                under_way.append((scan, self._own_body.points_of(scan, self._where_it_sat(scan))))
                yield without(*under_way[-1])

        results = self._method.batch(entering())
        while True:
            refuse_after_fork()
            with self._turn, translate_error(self.backend):
                found = next(results, None)
            if found is None:
                return
            scan, own = under_way.popleft()
            yield looked_at(found[1].frame(scan, own))

    def profile(self, scan: Scan) -> dict[str, float]:
        """Seconds per phase of the CPU or per kernel of an accelerator, for one scan alone."""
        refuse_after_fork()
        with self._turn, translate_error(self.backend):
            return self._method.profile(scan)

    def save_map(self) -> None:
        """Write what is known to the long-term map's folder; nodes that left the lattice may be there already."""
        with self._turn:
            self._method.save_map()

    def close(self) -> None:
        """Write the long-term map, if there is one, and release the device memory of this filter."""
        with self._turn:
            if not isinstance(self._method, Closed):
                self._method.save_map()
                self._method = cast(GroundMethod, Closed(self))

    def reset(self) -> None:
        """Forget the surface, the poses, and the mountings and the own body where they were estimated."""
        with self._turn:
            self._method.reset()
            self._own_body.reset()
            self._mounted.clear()

    def _learn(self, scan: Scan, found: Segmented) -> None:
        """What a scan says of the vehicle, for those that follow."""
        T_vehicle_sensor = found.mounting.T_vehicle_sensor
        self._mounted[scan.sensor] = T_vehicle_sensor
        self._own_body.look(scan, T_vehicle_sensor, found.output.own.cells)

    def _segment(
        self, scan: Scan, moving: Moving | None, meanwhile: Callable[[Mounting], object]
    ) -> tuple[Segmented, NDArray[np.bool_] | None]:
        """What is found in a scan, and which of its points are the own vehicle's."""
        mounted = self._where_it_sat(scan)
        if mounted is not None and self._method.finds_own(scan):
            question = self._own_body.question(scan, mounted)
            found = self._method.segment(scan, moving, None, question, meanwhile)
            return found, found.output.own.points
        own = self._own_body.points_of(scan, mounted)
        if own is not None and self._method.leaves_out(scan):
            return self._method.segment(scan, moving, own, None, meanwhile), own
        return self._method.segment(without(scan, own, self._room), moving, None, None, meanwhile), own

    def _where_it_sat(self, scan: Scan) -> Pose | None:
        """Where the sensor sits, as the scan says or as was found in an earlier one; None: it is not known yet."""
        return scan.T_vehicle_sensor or self._mounted.get(scan.sensor)


class GroundUnderWay:
    """A scan's ground within a `with`: its `frame` says where everything lies and how much there is of it, while a
    device may still be filling its arrays. After the `with`, or after `complete`, everything is there.

    Nobody else gets a turn at the filter before its end.
    """

    def __init__(
        self, owner: GroundFilter, scan: Scan, moving: Moving | None, meanwhile: Callable[[Mounting], object]
    ) -> None:
        self._owner, self._scan, self._moving, self._meanwhile = owner, scan, moving, meanwhile
        self._seconds, self._learnt, self._completed = 0.0, False, False

    def __enter__(self) -> GroundUnderWay:
        begin, owner = clock.perf_counter(), self._owner
        refuse_after_fork()
        owner._turn.acquire()
        try:
            with translate_error(owner.backend):
                self._found, own = owner._segment(self._scan, self._moving, self._meanwhile)
            self.frame = self._found.frame(self._scan, own)
        except BaseException:
            owner._turn.release()
            raise
        self._seconds = clock.perf_counter() - begin
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.complete()
        finally:
            self._owner._turn.release()

    def learn(self) -> None:
        """What the scans after it will need of this one: the host's work while the device works."""
        if not self._learnt:
            self._learnt = True
            self._owner._learn(self._scan, self._found)

    def complete(self) -> None:
        """Wait for the device."""
        if not self._completed:
            begin, self._completed = clock.perf_counter(), True
            self.learn()
            with translate_error(self._owner.backend):
                self._found.complete()
            self.frame = looked_at(self.frame)
            self._found.timings["total"] = self._seconds + clock.perf_counter() - begin
            compilation.ready("ground")


def _check_outputs(outputs: str, config: Config, backend: Any) -> None:
    if outputs not in get_args(Outputs):
        raise ConfigError(f"outputs = {outputs!r}: expected 'host', 'device' or 'both'")
    found = f"{config.ground.method} on {backend.device.backend}"
    if outputs == "device" and found != "stcrf on cuda":
        raise DeviceError(f"outputs='device' needs the method stcrf and the backend cuda, found {found}")


def device_programs(config: Config, device: Device) -> list[Program]:
    """The programs that a device builds for the ground of one sensor."""
    if config.ground.method == "variance":
        from roadbed.ground.variance.model import program as variance_program

        return [variance_program(config.ground.variance)]
    from roadbed.ground.ego.ego_mask_device import program as ego_program
    from roadbed.ground.stcrf.programs import coarse_program, fine_program
    from roadbed.ground.visibility.model import VisibilityModel
    from roadbed.ground.visibility.model import program as visibility_program

    programs = [fine_program(config), coarse_program(config), ego_program(config.vehicle)]
    return [*programs, visibility_program(VisibilityModel())] if device.has_double else programs


def _method(
    config: Config, backend: Any, map_folder: str | Path | None, outputs: Outputs, fields: Collection[str]
) -> GroundMethod:
    if config.ground.method == "variance":
        from roadbed.ground.variance.method import GridVariance

        return GridVariance(config, backend)
    from roadbed.ground.stcrf.method import Stcrf

    return Stcrf(config, backend, map_folder, outputs, fields)
