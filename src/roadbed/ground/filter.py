# SPDX-License-Identifier: Apache-2.0
"""The ground filter: scans in, ground frames out, whatever the sensor, its mounting and its odometry."""

from __future__ import annotations

import threading
import time as clock
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.config import Config
from roadbed.core.closing import Closed, Closing
from roadbed.core.errors import ConfigError, DeviceError, InputError
from roadbed.core.frames import GroundFrame, Moving, Scan, check_fields
from roadbed.core.geometry import Pose
from roadbed.ground.ego.ego_mask import EgoMask, without
from roadbed.ground.engine import Outputs
from roadbed.ground.method import GroundMethod, Segmented, checked
from roadbed.kernels import progress as compilation
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend, refuse_after_fork
from roadbed.runtime.device import Device
from roadbed.runtime.device_errors import translate_error
from roadbed.runtime.device_selection import shared_or_opened
from roadbed.runtime.program import Program

GroundField = Literal["ground_probability", "height_above_ground", "surface"]  # results beside the labels
FIELDS: tuple[GroundField, ...] = get_args(GroundField)


class GroundFilter(Closing):
    """`filter(scan)` or `filter(points_xyz)` gives a GroundFrame; odometry in the scans carries the surface along.

    The configuration names backend and device; `backend` is one that is open already and shared with another filter.
    With `outputs="device"` labels and layers are CuPy arrays that stay on the GPU; with "both" they come to the host
    and the stage after it reads them on the GPU. `fields` are the results beside the labels that an accelerator gives
    (the surface is elevation, slope and variance); others are empty. None: all of FIELDS, which the CPU always gives.
    Calls from several threads take turns.
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
        self.backend = shared_or_opened(backend, self.config.backend, self.config.device, programs)
        self._turn = threading.RLock()
        self._ego = EgoMask(self.config.vehicle, self.backend)
        _check_outputs(outputs, self.config, self.backend)
        names = check_fields(fields, FIELDS)
        if map_folder is not None and "surface" not in names:
            raise ConfigError("fields: a long-term map needs the surface, expected it among them")
        self._method = _method(self.config, self.backend, map_folder, outputs, names)
        self._limits = self.config.traversability.limits

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r}; {self.backend.device.name})"

    def __call__(
        self,
        scan: Scan | ArrayLike,
        T_world_sensor: Pose | ArrayLike | None = None,
        time: float | None = None,
        moving: Moving | None = None,
    ) -> GroundFrame:
        """Label every point of a scan and estimate the surface under it."""
        with self.begin(Scan.of(scan, T_world_sensor, time), moving) as task:
            pass
        return task.frame

    def begin(self, scan: Scan, moving: Moving | None = None) -> GroundTask:
        """The same in steps, for a next stage on the same device: `with ground.begin(scan) as task:`."""
        if moving is not None and not (isinstance(moving, tuple) and len(moving) == 2):
            raise InputError("moving: expected a grid and its mask, as OccupancyFrame.moving_cells() gives them")
        return GroundTask(self, scan, moving)

    def batch(self, scans: Iterable[Scan]) -> Iterator[GroundFrame]:
        """One frame per scan, in order. On an accelerator scans without odometry are computed several at a time."""
        entered: deque[tuple[Scan, NDArray[np.bool_] | None]] = deque()

        def entering() -> Iterator[Scan]:
            for scan in scans:
                entered.append((scan, self._ego.mask(scan)))
                yield without(*entered[-1])

        results = self._method.batch(entering())
        while True:
            refuse_after_fork()
            with self._turn, translate_error(self.backend):
                found = next(results, None)
            if found is None:
                return
            scan, ego_mask = entered.popleft()
            yield checked(replace(found[1], ego_mask=ego_mask).frame(scan, self._limits))

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
        """Forget the surface, the poses, and the mountings and the ego vehicle where they were estimated."""
        with self._turn:
            self._method.reset()
            self._ego.reset()


class GroundTask:
    """The ground of one scan within a `with` statement, computed step by step; other calls wait until its end.

    `mounting` is known at once, `frame` once the scan is aligned, and its arrays are filled after `complete` or after
    the `with` statement. Between the steps a device computes while the caller does something else.
    """

    def __init__(self, owner: GroundFilter, scan: Scan, moving: Moving | None) -> None:
        self._owner, self._scan, self._moving = owner, scan, moving
        self._seconds, self._updated, self._completed = 0.0, False, False
        self._found: Segmented | None = None
        self._frame: GroundFrame | None = None

    def __enter__(self) -> Self:
        begin, owner = clock.perf_counter(), self._owner
        refuse_after_fork()
        owner._turn.acquire()
        try:
            with translate_error(owner.backend):
                self._started = owner._method.start(self._scan, self._moving, owner._ego)
        except BaseException:
            owner._turn.release()
            raise
        self.mounting, self.has_origin = self._started.mounting, self._started.has_origin
        self._seconds = clock.perf_counter() - begin
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None or self._found is not None:
                self.complete()
        finally:
            self._owner._turn.release()

    @property
    def frame(self) -> GroundFrame:
        """The frame; a device may still be filling its arrays."""
        if self._frame is None:
            self._frame = self._segmented().frame(self._scan, self._owner._limits)
        return self._frame

    def _segmented(self) -> Segmented:
        if self._found is None:
            begin = clock.perf_counter()
            with translate_error(self._owner.backend):
                self._found = self._started.result()
            self._seconds += clock.perf_counter() - begin
        return self._found

    def update(self) -> None:
        """Update the ego vehicle's estimate for the next scans: work of the host while a device computes."""
        if not self._updated:
            self._updated, found = True, self._segmented()
            if not self.has_origin:
                return
            self._owner._ego.update(self._scan, self.mounting.T_vehicle_sensor, found.output.ego.cells)

    def complete(self) -> None:
        """Wait until the arrays of the frame are filled."""
        found, frame = self._segmented(), self.frame
        if not self._completed:
            begin, self._completed = clock.perf_counter(), True
            self.update()
            with translate_error(self._owner.backend):
                found.complete()
            self._frame = checked(frame)
            found.timings["total"] = self._seconds + clock.perf_counter() - begin
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

    programs = [fine_program(config), ego_program(config.vehicle)]
    if config.ground.uses("coarse_start"):
        programs.append(coarse_program(config))
    if config.ground.uses("visibility"):
        programs.append(visibility_program(VisibilityModel()))
    return programs


def _method(
    config: Config, backend: Any, map_folder: str | Path | None, outputs: Outputs, fields: Collection[str]
) -> GroundMethod:
    if config.ground.method == "variance":
        from roadbed.ground.variance.method import GridVariance

        return GridVariance(config, backend)
    from roadbed.ground.stcrf.method import Stcrf

    return Stcrf(config, backend, map_folder, outputs, fields)
