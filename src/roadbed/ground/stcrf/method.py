# SPDX-License-Identifier: Apache-2.0
"""Ground as a spatio-temporal conditional random field (Rummelhard et al., IV 2017): one scan, step by step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.device_arrays import to_host
from roadbed.core.errors import ConfigError
from roadbed.core.frames import Mounting, Moving, Scan
from roadbed.core.timeline import Link, Timeline
from roadbed.core.timing import timed
from roadbed.ground.engine import BodyQuestion, FrameInput, FrameOutput, GroundEngine, Outputs, nothing
from roadbed.ground.method import Segmented
from roadbed.ground.mounting.estimator import Mountings
from roadbed.ground.stcrf.model import DISAGREEMENT_WEIGHT, SLOPE_WEIGHT, SMALL_COMPONENT
from roadbed.ground.stcrf.motion.align import ScanAlignment
from roadbed.ground.stcrf.motion.grid_pose import Place, Places
from roadbed.ground.stcrf.sizes import height_weight
from roadbed.ground.visibility.cpu import standing_points
from roadbed.ground.visibility.device import can_find
from roadbed.ground.visibility.model import VisibilityModel
from roadbed.ground.visibility.views import looks_at, views_of
from roadbed.mapping.information import SurfaceParameters
from roadbed.mapping.tile_store import TileStore
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend


class Stcrf:
    """Mounting, place, alignment, EM and labels, in this order; the surface is carried from scan to scan."""

    def __init__(
        self,
        config: Config,
        backend: Backend | CpuBackend,
        map_folder: str | Path | None = None,
        outputs: Outputs = "host",
        wanted: Collection[str] | None = None,
    ) -> None:
        self.config, self.backend = config, backend
        self.engine = _engine(config, backend, outputs, wanted)
        self._visibility = VisibilityModel() if config.ground.uses("visibility") else None
        self._finds_standing = not isinstance(backend, CpuBackend) and can_find(backend, VisibilityModel())
        long_term_map = _long_term_map(config, map_folder)
        self._places = Places(config, self.engine, long_term_map)
        # A map believes its poses: scans fitted to the surface before them drift away from the world together.
        self._aligns = config.ground.uses("alignment") and long_term_map is None
        self._timeline = Timeline(config.timeline.limits)
        self._mountings = Mountings(config.ground.mounting)

    def leaves_out(self, scan: Scan) -> bool:
        opaque = looks_at(scan, self._visibility)
        return isinstance(self.backend, CpuBackend) and not opaque and not self._mountings.looks_at(scan)

    def finds_own(self, scan: Scan) -> bool:
        """On an accelerator, unless the host has to read the scan without those points anyway."""
        if isinstance(self.backend, CpuBackend) or self._mountings.looks_at(scan):
            return False
        return self._finds_standing or not looks_at(scan, self._visibility)

    def segment(
        self,
        scan: Scan,
        moving: Moving | None = None,
        own: NDArray[np.bool_] | None = None,
        body: BodyQuestion | None = None,
        meanwhile: Callable[[Mounting], object] = nothing,
    ) -> Segmented:
        timings: dict[str, float] = {}
        diagnostics: list[str] = []
        with timed(timings, "mounting"):
            mounting = self._mountings.of(scan, diagnostics)
        with timed(timings, "motion"):
            T_world_vehicle = scan.T_world_sensor and scan.T_world_sensor @ mounting.T_vehicle_sensor.inverse()
            moment = self._timeline.judge(scan.time, (scan.sensor,), T_world_vehicle)
            diagnostics.extend(moment.diagnostics)
            place, warm = self._places.follow(T_world_vehicle, mounting, moment)
            given = self._input(scan, mounting, place, moving, warm, own, body)
        alignment = None
        if warm and self._aligns:
            alignment = ScanAlignment(place, given, diagnostics)
        output = self.engine.begin(given, alignment, partial(meanwhile, mounting))
        if alignment is not None:
            place, warm = alignment.place, alignment.warm
        timings |= output.timings
        return Segmented(
            output,
            place.lattice,
            place.T_lattice_sensor,
            mounting,
            place.T_world_grid,
            used_prior=warm,
            diagnostics=tuple(diagnostics),
            timings=timings,
            complete=partial(self._complete, output, moment.link in (Link.FIRST, Link.NEXT), timings),
        )

    def _complete(self, output: FrameOutput, kept: bool, timings: dict[str, float]) -> None:
        """Wait for a scan; if it is `kept`, its surface becomes the prior."""
        self.engine.complete(timings)
        with timed(timings, "keep"):
            if kept:
                self._places.keep(output)

    def batch(self, scans: Iterable[Scan]) -> Iterator[tuple[Scan, Segmented]]:
        """In order; on an accelerator scans without odometry are computed several at a time."""
        if isinstance(self.backend, CpuBackend):
            yield from map(self._completed, scans)
            return
        from roadbed.ground.stcrf.batch import BatchStcrf

        engines = BatchStcrf(self.backend, self.config)
        for alone, run in groupby(scans, lambda scan: scan.T_world_sensor is None):
            if not alone:
                yield from map(self._completed, run)
                continue
            for (scan, mounting, place, diagnostics), output in engines.run(self._alone(run)):
                yield scan, Segmented(output, place.lattice, place.T_lattice_sensor, mounting, diagnostics=diagnostics)

    def _completed(self, scan: Scan) -> tuple[Scan, Segmented]:
        found = self.segment(scan)
        found.complete()
        return scan, found

    def _alone(
        self, scans: Iterable[Scan]
    ) -> Iterator[tuple[tuple[Scan, Mounting, Place, tuple[str, ...]], FrameInput]]:
        for scan in scans:
            diagnostics: list[str] = []
            mounting = self._mountings.of(scan, diagnostics)
            place = self._places.of_one_alone(mounting)
            yield (scan, mounting, place, tuple(diagnostics)), self._input(scan, mounting, place)

    def profile(self, scan: Scan) -> dict[str, float]:
        """Seconds per phase or kernel for one scan alone."""
        alone = replace(scan, T_world_sensor=None)
        if isinstance(self.backend, CpuBackend):
            return dict(self._completed(alone)[1].timings)
        mounting = self._mountings.of(alone, [])
        return self.engine.profile(self._input(scan, mounting, self._places.of_one_alone(mounting)))

    def save_map(self) -> None:
        self._places.save_map()

    def reset(self) -> None:
        self._timeline.reset()
        self._places.reset()
        self._mountings.reset()

    def _input(
        self,
        scan: Scan,
        mounting: Mounting,
        place: Place,
        moving: Moving | None = None,
        warm: bool = False,
        own: NDArray[np.bool_] | None = None,
        body: BodyQuestion | None = None,
    ) -> FrameInput:
        """What a frame is computed from; which points stand is found here for an engine that cannot itself."""
        standing = None
        mask = None if moving is None else place.mask(*moving)
        views = views_of(scan, mounting.T_vehicle_sensor, self._visibility)
        if views is not None and not self._finds_standing:
            standing, views = standing_points(to_host(scan.points), views, VisibilityModel()), None
        found = standing, views, own, body
        return FrameInput(scan.points, place.placement, place.vehicle, place.road, mask, warm, *found)


def _engine(
    config: Config, backend: Backend | CpuBackend, outputs: Outputs, wanted: Collection[str] | None
) -> GroundEngine:
    if isinstance(backend, CpuBackend):
        from roadbed.ground.stcrf.cpu import StcrfCpu

        return StcrfCpu(config)
    from roadbed.ground.stcrf.device import StcrfDevice

    return StcrfDevice(backend, config, outputs=outputs, wanted=wanted)


def _long_term_map(config: Config, folder: str | Path | None) -> TileStore | None:
    if folder is None:
        return None
    time = config.ground.time
    if time.motion != "rolling":
        raise ConfigError(f"map_folder: a long-term map needs ground.time.motion = rolling, found {time.motion}")
    ground, stcrf = config.ground, config.ground.stcrf
    surface = SurfaceParameters(
        height_information=height_weight(ground),
        slope_information=SLOPE_WEIGHT,
        point_variance=stcrf.sigma_up**2,
        known_variance=stcrf.known_sigma**2,
        disagreement=DISAGREEMENT_WEIGHT if ground.uses("neighbour_disagreement") else 0,
        islands=SMALL_COMPONENT if ground.uses("small_components") else 0,
    )
    return TileStore(folder, stcrf.spacing, time.map_tiles_in_memory, surface)
