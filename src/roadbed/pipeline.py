# SPDX-License-Identifier: Apache-2.0
"""The whole chain: scan -> ground -> occupancy; moving cells are left out of the next ground."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Literal

from numpy.typing import ArrayLike

from roadbed.config import Config
from roadbed.core.closing import Closing
from roadbed.core.errors import ConfigError, InputError
from roadbed.core.frames import GroundFrame, OccupancyFrame, Scan, check_fields
from roadbed.core.geometry import Pose
from roadbed.ground import GroundFilter
from roadbed.ground.engine import Outputs
from roadbed.ground.filter import FIELDS as GROUND_FIELDS
from roadbed.ground.filter import GroundField
from roadbed.ground.filter import device_programs as ground_programs
from roadbed.mapping.layers import MapLayers
from roadbed.occupancy import OccupancyFilter
from roadbed.occupancy.device import device_programs as occupancy_programs
from roadbed.occupancy.filter import FIELDS as OCCUPANCY_FIELDS
from roadbed.occupancy.filter import OccupancyField
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.runtime.device import Device
from roadbed.runtime.device_selection import shared_or_opened
from roadbed.runtime.program import Program

# Results beside labels, surface and moving cells.
FIELDS: tuple[GroundField | OccupancyField, ...] = (*GROUND_FIELDS, *OCCUPANCY_FIELDS)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The results of one scan."""

    scan: Scan  # the input
    ground: GroundFrame  # labels and surface
    occupancy: OccupancyFrame | None  # None without the occupancy stage
    timings: Mapping[str, float] = field(default_factory=dict)  # s per stage

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """Messages on the scan and of both stages, each once."""
        of_stages = self.ground.diagnostics + (self.occupancy.diagnostics if self.occupancy else ())
        return tuple(dict.fromkeys(self.scan.diagnostics + of_stages))

    def __repr__(self) -> str:
        times = ", ".join(f"{stage} {1e3 * seconds:.1f} ms" for stage, seconds in self.timings.items())
        return f"Result({self.scan!r}, {self.ground!r}, {self.occupancy!r}; {times})"


class Pipeline(Closing):
    """Feed scans in time order; each call gives the ground and the occupancy after that scan.

    The configuration names backend and device; `backend` is one that is open already and shared. A scan is uploaded
    once; optional results that are not among the `fields` (None: all of FIELDS) are not downloaded. `outputs` is that
    of GroundFilter. Calls from several threads take turns.
    """

    def __init__(
        self,
        config: Config | None = None,
        backend: Backend | CpuBackend | None = None,
        *,
        occupancy: bool = True,
        map_folder: str | Path | None = None,
        fields: Iterable[GroundField | OccupancyField] | None = None,
        outputs: Literal["host", "device"] = "host",
    ) -> None:
        self.config = Config.of(config)

        def programs(device: Device) -> list[Program]:
            return ground_programs(self.config, device) + (occupancy_programs(device) if occupancy else [])

        self.backend = shared_or_opened(backend, self.config.backend, self.config.device, programs)
        names = check_fields(fields, FIELDS)
        if map_folder is not None and len(names) < len(FIELDS):
            raise ConfigError("fields: a long-term map needs all of them, expected no names together with map_folder")
        if map_folder is not None and outputs != "host":
            raise ConfigError(f"outputs = {outputs!r}: a long-term map needs them on the host, expected 'host'")
        given: Outputs = "both" if occupancy and outputs == "host" else outputs
        of_ground = [name for name in GROUND_FIELDS if name in names]
        self.ground = GroundFilter(self.config, self.backend, map_folder=map_folder, outputs=given, fields=of_ground)
        self.occupancy = None
        if occupancy:
            of_occupancy = [name for name in OCCUPANCY_FIELDS if name in names]
            self.occupancy = OccupancyFilter(self.config, self.backend, fields=of_occupancy)
        self._map_layers: MapLayers | None = None
        if map_folder is not None:
            self._map_layers = MapLayers(
                map_folder, self.config.ground.stcrf.spacing, self.config.occupancy.grid.spacing
            )
        self._turn = threading.RLock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r}; {self.backend.device.name})"

    def __call__(
        self,
        scan: Scan | ArrayLike,
        T_world_sensor: Pose | ArrayLike | None = None,
        time: float | None = None,
        on_ground: Callable[[Result], None] | None = None,
    ) -> Result:
        """Process the next scan, or its points (N, 3) with a pose and a time if known.

        `on_ground` is called with the result without occupancy as soon as the labels are complete.
        """
        return self._take(Scan.of(scan, T_world_sensor, time), on_ground)

    def _take(self, scan: Scan, on_ground: Callable[[Result], None] | None = None) -> Result:
        with self._turn:
            begin, labels_first = perf_counter(), on_ground is not None or self.occupancy is None
            moving = None if self.occupancy is None else self.occupancy.moving()
            frame: OccupancyFrame | None = None
            with self.ground.begin(scan, moving) as task:
                occupancy = self.occupancy if task.has_origin else None  # it needs rays
                if occupancy is not None:
                    occupancy.prefetch(scan, task.mounting)  # while the device begins
                if labels_first or task.frame.device is None:
                    task.complete()  # else the device goes on from the ground to the occupancy by itself
                seconds = {"ground": perf_counter() - begin}
                if on_ground is not None:
                    on_ground(Result(scan=scan, ground=task.frame, occupancy=None, timings=dict(seconds)))
                if occupancy is not None:
                    begin = perf_counter()
                    with occupancy.begin(scan, task.frame) as occupancy_task:
                        task.update()
                    frame = occupancy_task.frame
                    seconds["occupancy"] = perf_counter() - begin
            ground = task.frame
            if self._map_layers is not None:
                begin = perf_counter()
                self._map_layers.add(ground, frame)
                seconds["map"] = perf_counter() - begin
            return Result(scan=scan, ground=ground, occupancy=frame, timings=seconds)

    def run(self, source: Iterable[Scan]) -> Iterator[Result]:
        """Results one by one, as the source gives scans; every scan of a source that is not sequential starts cold."""
        if not getattr(source, "sequential", True):
            yield from self._run_unrelated(source)
            return
        if isinstance(source, str | Path):
            raise InputError(f"{source}: found the name of a source, expected its scans: roadbed.open(...)")
        for scan in source:
            yield self._take(Scan.of(scan))

    def _run_unrelated(self, source: Iterable[Scan]) -> Iterator[Result]:
        """Unrelated scans; on an accelerator without the occupancy stage several at a time."""
        in_batches = self.occupancy is None and self._map_layers is None and not isinstance(self.backend, CpuBackend)
        for posed, scans in groupby(source, lambda scan: scan.T_world_sensor is not None):
            if in_batches and not posed:
                begin = perf_counter()
                for ground in self.ground.batch(scans):
                    assert ground.scan is not None
                    timings = {"ground": perf_counter() - begin}
                    yield Result(scan=ground.scan, ground=ground, occupancy=None, timings=timings)
                    begin = perf_counter()
                continue
            for scan in scans:
                self.reset()
                yield self._take(scan)

    def reset(self) -> None:
        """Forget the past: the next scan starts cold."""
        with self._turn:
            self.ground.reset()
            if self.occupancy is not None:
                self.occupancy.reset()

    def close(self) -> None:
        """Write the long-term map, if there is one, and release the device memory."""
        with self._turn:
            self.ground.close()
            if self.occupancy is not None:
                self.occupancy.close()
            if self._map_layers is not None:
                self._map_layers.flush()
