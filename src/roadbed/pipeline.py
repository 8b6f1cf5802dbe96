# SPDX-License-Identifier: Apache-2.0
"""The whole chain: scan -> ground -> occupancy, with what moves kept out of the ground."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Literal

from numpy.typing import ArrayLike

from roadbed.config import Config, GroundConfig, OccupancyConfig
from roadbed.core.errors import ConfigError
from roadbed.core.frames import GroundFrame, Moving, OccupancyFrame, Scan, check_fields
from roadbed.core.geometry import Pose
from roadbed.ground import GroundFilter
from roadbed.ground.engine import Outputs, nothing
from roadbed.ground.filter import FIELDS as _OF_GROUND
from roadbed.mapping.layers import MapLayers
from roadbed.occupancy import OccupancyFilter
from roadbed.occupancy.filter import FIELDS as _OF_OCCUPANCY
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.runtime.device_selection import select_backend

FIELDS = (*_OF_GROUND, *_OF_OCCUPANCY)  # what results hold beside labels, surface and moving cells


@dataclass(frozen=True, eq=False)
class Result:
    """Everything known after one scan."""

    scan: Scan
    ground: GroundFrame
    occupancy: OccupancyFrame | None
    timings: Mapping[str, float] = field(default_factory=dict)  # s per stage

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """Of both stages; what both have noticed is said once."""
        return tuple(dict.fromkeys(self.ground.diagnostics + (self.occupancy.diagnostics if self.occupancy else ())))


class Pipeline:
    """Feed scans in time order; each call gives the ground and the occupancy after that scan.

    `backend` and `device` are given as to GroundFilter. On an accelerator a scan is uploaded once, and what is not
    `fields` (names of FIELDS; None: all) stays there; `outputs` is GroundFilter's. Calls of several threads take turns.
    """

    def __init__(
        self,
        config: Config | GroundConfig | OccupancyConfig | None = None,
        backend: str | Backend | CpuBackend | None = None,
        device: int | str | None = None,
        *,
        occupancy: bool = True,
        map_folder: str | Path | None = None,
        fields: Iterable[str] | None = None,
        outputs: Literal["host", "device"] = "host",
    ) -> None:
        self.config = Config.of(config)
        self.backend = select_backend(backend, device, (self.config.backend, self.config.device))
        names = check_fields(fields, FIELDS)
        if map_folder is not None and len(names) < len(FIELDS):
            raise ConfigError("fields: a long-term map takes everything, expected no names beside map_folder")
        if map_folder is not None and outputs != "host":
            raise ConfigError(f"outputs = {outputs!r}: a long-term map takes what is on the host, expected 'host'")
        of_ground = names & set(_OF_GROUND)
        given: Outputs = "both" if occupancy and outputs == "host" else outputs
        self.ground = GroundFilter(self.config, self.backend, None, map_folder, given, of_ground)
        self.occupancy = None
        if occupancy:
            self.occupancy = OccupancyFilter(self.config, self.backend, fields=names & set(_OF_OCCUPANCY))
        self._survey: MapLayers | None = None
        if map_folder is not None:
            self._survey = MapLayers(map_folder, self.config.ground.stcrf.spacing, self.config.occupancy.grid.spacing)
        self._turn = threading.RLock()
        self._last: OccupancyFrame | None = None

    def __call__(
        self,
        scan: Scan | ArrayLike,
        T_world_sensor: Pose | ArrayLike | None = None,
        time: float | None = None,
        on_ground: Callable[[Result], None] | None = None,
    ) -> Result:
        """The next scan, or its points (N, 3) with a pose and a time where they are known.

        `on_ground` gets the result without its occupancy as soon as the labels are there.
        """
        return self._take(Scan.of(scan, T_world_sensor, time), on_ground)

    def _take(self, scan: Scan, on_ground: Callable[[Result], None] | None = None, survey: bool = True) -> Result:
        with self._turn:
            begin, alone = perf_counter(), on_ground is not None or self.occupancy is None
            prefetch = nothing if self.occupancy is None else partial(self.occupancy.prefetch, scan)
            with self.ground.under_way(scan, self._moving(), prefetch) as begun:
                if alone or begun.frame.device is None:
                    begun.complete()  # else the device goes on from the ground to the occupancy by itself
                seconds = {"ground": perf_counter() - begin}
                if on_ground is not None:
                    on_ground(Result(scan, begun.frame, None, dict(seconds)))
                if self.occupancy is not None:
                    begin = perf_counter()
                    with self.occupancy.begin(scan, begun.frame) as task:
                        begun.learn()
                    self._last = task.frame
                    seconds["occupancy"] = perf_counter() - begin
            ground = begun.frame
            if self._survey is not None and survey:
                begin = perf_counter()
                self._survey.add(ground, self._last)
                seconds["map"] = perf_counter() - begin
            return Result(scan, ground, self._last, seconds)

    def run(self, source: Iterable[Scan], warm_up: int = 0) -> Iterator[Result]:
        """Results one by one, as the source gives scans; scans of unrelated places are kept apart.

        The first `warm_up` scans prepare the filters: they belong to another part of the drive, which surveys them.
        """
        if not getattr(source, "sequential", True):
            yield from self._apart(source)
            return
        for number, scan in enumerate(source):
            yield self._take(scan, survey=number >= warm_up)

    def _apart(self, source: Iterable[Scan]) -> Iterator[Result]:
        """Scans of unrelated places; on an accelerator, where only the ground is asked for, several at a time."""
        together = self.occupancy is None and self._survey is None and not isinstance(self.backend, CpuBackend)
        for posed, scans in groupby(source, lambda scan: scan.T_world_sensor is not None):
            if together and not posed:
                begin = perf_counter()
                for ground in self.ground.batch(scans):
                    assert ground.scan is not None
                    yield Result(ground.scan, ground, None, {"ground": perf_counter() - begin})
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
            self._last = None

    def close(self) -> None:
        """Write what the long-term map holds; without one there is nothing to do."""
        self.ground.save_map()
        if self._survey is not None:
            self._survey.flush()

    def _moving(self) -> Moving | None:
        """Cells that moved a frame ago, for the ground to leave out."""
        if self._last is None or not self._last.moving.any():
            return None
        grid, mask = self._last.moving_cells()
        on_device = self._last.moving_on_device
        return grid, mask if on_device is None or mask is not self._last.moving else on_device
