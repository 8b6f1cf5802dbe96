# SPDX-License-Identifier: Apache-2.0
"""Ground as a spatio-temporal conditional random field (Rummelhard et al., IV 2017): one scan, step by step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config, VehicleConfig
from roadbed.core.device_arrays import to_host
from roadbed.core.errors import ConfigError
from roadbed.core.frames import Mounting, Moving, Scan
from roadbed.core.timeline import Link, Timeline
from roadbed.core.timing import timed
from roadbed.ground.cloud.origin import why_no_origin
from roadbed.ground.ego.ego_mask import EgoMask
from roadbed.ground.engine import AT_ORIGIN, EgoQuery, Exclusion, FrameInput, FrameOutput, GroundEngine, Outputs
from roadbed.ground.method import Segmented, Started
from roadbed.ground.mounting.estimator import MountingEstimate, Mountings
from roadbed.ground.stcrf.model import DISAGREEMENT_WEIGHT, SLOPE_WEIGHT, SMALL_COMPONENT
from roadbed.ground.stcrf.motion.grid_pose import GridPose, GridTracker, uncorrected
from roadbed.ground.stcrf.motion.pose_noise import PoseNoise
from roadbed.ground.stcrf.sizes import height_weight
from roadbed.ground.visibility.applies import applies_to, even_floor, tops_beside, views_of
from roadbed.ground.visibility.cpu import non_ground_points, steep_faces
from roadbed.ground.visibility.model import VisibilityModel
from roadbed.kernels.parallel import parallel_begin, thread_count
from roadbed.mapping.information import SurfaceParameters
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend

if TYPE_CHECKING:  # imported where they are used, so that a first result need not wait for them
    from roadbed.ground.cloud.tiles import CloudGround
    from roadbed.mapping.tile_store import TileStore


@dataclass(eq=False)
class _Frame:
    """A scan between its start and its result."""

    mounting: Mounting
    pose: GridPose
    given: FrameInput
    output: FrameOutput | None  # where it is computed already
    aligns: bool  # with the prior surface
    kept: bool  # its surface becomes the prior
    ego_mask: NDArray[np.bool_] | None
    diagnostics: list[str]
    timings: dict[str, float]


class Stcrf:
    """Mounting, grid pose, alignment, EM and labels, in this order; the surface is carried from scan to scan."""

    def __init__(
        self,
        config: Config,
        backend: Backend | CpuBackend,
        map_folder: str | Path | None = None,
        outputs: Outputs = "host",
        fields: Collection[str] | None = None,
    ) -> None:
        self.config, self.backend = config, backend
        self.engine, self._fields = _engine(config, backend, outputs, fields), fields
        self._visibility = VisibilityModel() if config.ground.uses("visibility") else None
        self._on_cpu = isinstance(backend, CpuBackend)
        long_term_map = _long_term_map(config, map_folder)
        self._grid = GridTracker(config, self.engine, long_term_map)
        # A map keeps the given poses: scans aligned to the surface before them would drift from the world together.
        self._aligns = config.ground.uses("alignment") and long_term_map is None
        self._pose_noise = PoseNoise()
        self._timeline = Timeline(config.timeline.limits)
        self._mountings = Mountings(config.ground.mounting)
        self._no_ego = EgoMask(VehicleConfig(find_body=False), backend)  # for scans without ego points

    def start(self, scan: Scan, moving: Moving | None, ego: EgoMask) -> Started:
        if scan.has_origin is False:
            return self._cloud(scan)
        timings: dict[str, float] = {}
        given_scan = scan
        scan, ego_mask, excluded = self._without_ego(scan, ego)
        with timed(timings, "mounting"):
            estimate = self._mountings.of(scan, doubt_later=self._on_cpu and thread_count() > 1)
            later, ahead = estimate.doubted is not None, None
            estimate, why = (estimate, "") if later else self._doubted(scan, estimate)
        if later:
            estimate, why, ahead = self._compute_ahead(scan, estimate, moving, timings)
        if why:
            return self._cloud(given_scan, why)
        mounting, diagnostics = estimate.mounting, [estimate.note] if estimate.note else []
        with timed(timings, "motion"):
            T_world_vehicle = scan.T_world_sensor and scan.T_world_sensor @ mounting.T_vehicle_sensor.inverse()
            moment = self._timeline.update(scan.time, (scan.sensor,), T_world_vehicle)
            diagnostics.extend(moment.diagnostics)
            pose, warm = self._grid.follow(T_world_vehicle, mounting, moment)
            if moment.link is Link.FIRST:
                self._pose_noise.reset()
            given = ahead[0] if ahead else self._input(scan, mounting, pose, moving, warm, excluded)
        aligns = warm and self._aligns
        if not ahead:
            self.engine.start(given, pose.unaligned() if aligns else None)
        kept = moment.link in (Link.FIRST, Link.NEXT)
        output = ahead[1] if ahead else None
        frame = _Frame(mounting, pose, given, output, aligns, kept, ego_mask, diagnostics, timings)
        return Started(mounting, partial(self._result, frame))

    def _doubted(self, scan: Scan, found: MountingEstimate) -> tuple[MountingEstimate, str]:
        """The mounting after doubts about it, and why no sensor was at the origin."""
        estimate = found.doubted() if found.doubted else found
        return estimate, why_no_origin(scan, estimate, self.config.ground)

    def _compute_ahead(
        self, scan: Scan, first: MountingEstimate, moving: Moving | None, timings: dict[str, float]
    ) -> tuple[MountingEstimate, str, tuple[FrameInput, FrameOutput] | None]:
        """The mounting of a scan alone and why it has none, for which another thread looks, and the frame computed
        meanwhile; None where the mounting became another one."""
        found = parallel_begin(self._doubted, scan, first)
        given = self._input(scan, first.mounting, self._grid.single(first.mounting), moving)
        self.engine.start(given)
        output = self.engine.output(given)
        with timed(timings, "mounting"):
            estimate, why = found()
        before, after = first.mounting, estimate.mounting
        same = before.T_vehicle_sensor.numbers == after.T_vehicle_sensor.numbers and before.table == after.table
        return estimate, why, (given, output) if same else None

    def _cloud(self, scan: Scan, why: str = "") -> Started:
        """A cloud without a sensor, complete at once."""
        found = self._clouds.segment(scan, why)
        return Started(found.mounting, lambda: found, has_origin=False)

    @cached_property
    def _clouds(self) -> CloudGround:
        from roadbed.ground.cloud.tiles import CloudGround, engine_config

        config = engine_config(self.config)
        return CloudGround(config, _engine(config, self.backend, "host", None))

    def _result(self, frame: _Frame) -> Segmented:
        """The result of a started scan, at its aligned pose."""
        self._align(frame)
        output, pose = self.engine.output(frame.given) if frame.output is None else frame.output, frame.pose
        frame.timings |= output.timings
        return Segmented(
            output,
            pose.lattice,
            pose.T_lattice_sensor,
            frame.mounting,
            pose.T_world_grid,
            used_prior=frame.given.warm,
            diagnostics=tuple(frame.diagnostics),
            timings=frame.timings,
            ego_mask=output.ego.points if isinstance(frame.given.exclude.ego, EgoQuery) else frame.ego_mask,
            complete=partial(self._complete, output, frame.kept, frame.timings),
        )

    def _align(self, frame: _Frame) -> None:
        """Correct the pose by the misalignment; a scan that does not fit the prior surface starts cold."""
        if not frame.aligns:
            return
        found, warm = self.engine.misalignment(), True
        if found is not None and found.fits:
            frame.pose = frame.pose.corrected(found)
            self._pose_noise.add(uncorrected(found))  # counts from the next scan on: a device computes this one already
        elif found is not None:
            near = f"{100 * found.share:.0f} % of its points near it"
            frame.diagnostics.append(f"scan does not fit the prior surface ({near}): started cold")
            warm = False
        pose = frame.pose
        frame.given = replace(frame.given, placement=pose.placement, vehicle=pose.vehicle, road=pose.road, warm=warm)

    def _without_ego(
        self, scan: Scan, ego: EgoMask
    ) -> tuple[Scan, NDArray[np.bool_] | None, NDArray[np.bool_] | EgoQuery | None]:
        """A scan without its points on the ego vehicle, their mask, and what the engine has to leave out.

        Where the host reads the points, to estimate the mounting or for the occlusion filter, they are removed first.
        """
        host_reads = self._mountings.reads(scan) or (self._on_cpu and applies_to(scan, self._visibility))
        if not (host_reads or self._on_cpu):
            return scan, None, ego.query(scan)
        mask = ego.mask(scan)
        return (ego.removed(scan, mask), mask, None) if host_reads else (scan, mask, mask)

    def _complete(self, output: FrameOutput, kept: bool, timings: dict[str, float]) -> None:
        """Wait for a scan; the surface of a `kept` one becomes the prior."""
        self.engine.complete(timings)
        with timed(timings, "keep"):
            if kept:
                self._grid.keep(output)

    def batch(self, scans: Iterable[Scan]) -> Iterator[tuple[Scan, Segmented]]:
        """In order; on an accelerator scans without odometry are computed several at a time."""
        if isinstance(self.backend, CpuBackend):
            yield from map(self._completed, scans)
            return
        from roadbed.ground.stcrf.batch import BatchStcrf

        engines = BatchStcrf(self.backend, self.config, self._fields)
        for alone, run in groupby(scans, self._is_single_scan):
            if not alone:
                yield from map(self._completed, run)
                continue
            for (scan, mounting, pose, diagnostics), output in engines.run(self._alone(run)):
                yield scan, Segmented(output, pose.lattice, pose.T_lattice_sensor, mounting, diagnostics=diagnostics)

    def _is_single_scan(self, scan: Scan) -> bool:
        """Whether a scan has no odometry and a sensor at its origin."""
        if scan.has_origin is False or scan.T_world_sensor is not None:
            return False
        has_mounting = scan.T_vehicle_sensor is not None
        return has_mounting or not why_no_origin(scan, self._mountings.of(scan), self.config.ground)

    def _completed(self, scan: Scan) -> tuple[Scan, Segmented]:
        found = self.start(scan, None, self._no_ego).result()
        found.complete()
        return scan, found

    def _alone(
        self, scans: Iterable[Scan]
    ) -> Iterator[tuple[tuple[Scan, Mounting, GridPose, tuple[str, ...]], FrameInput]]:
        for scan in scans:
            mounting, note, *_ = self._mountings.of(scan)
            pose = self._grid.single(mounting)
            yield (scan, mounting, pose, (note,) if note else ()), self._input(scan, mounting, pose)

    def profile(self, scan: Scan) -> dict[str, float]:
        """Seconds per phase or kernel for one scan alone."""
        alone = replace(scan, T_world_sensor=None)
        if self._on_cpu:
            return dict(self._completed(alone)[1].timings)
        mounting = self._mountings.of(alone).mounting
        return self.engine.profile(self._input(scan, mounting, self._grid.single(mounting)))

    def save_map(self) -> None:
        self._grid.save_map()

    def reset(self) -> None:
        self._timeline.reset()
        self._grid.reset()
        self._mountings.reset()

    def _input(
        self,
        scan: Scan,
        mounting: Mounting,
        pose: GridPose,
        moving: Moving | None = None,
        warm: bool = False,
        ego: NDArray[np.bool_] | EgoQuery | None = None,
    ) -> FrameInput:
        """Input of a frame; the occlusion filter runs here for low sensors and on the CPU."""
        moving_mask = None if moving is None else pose.mask(*moving)
        views = views_of(scan, mounting.T_vehicle_sensor, self._visibility)
        raised = self._raised(scan, mounting)
        if raised is None and (views is None or not self._on_cpu):
            exclude = Exclusion(ego, views)
        else:
            found = None if views is None else non_ground_points(to_host(scan.points), views, VisibilityModel())
            exclude = Exclusion(ego, raised if found is None else found if raised is None else found | raised)
        sensors = (AT_ORIGIN, 0.0)
        if scan.mounts:
            origins = np.array([mount.T_vehicle_sensor.xyz for mount in scan.mounts])
            sensors = origins, float(origins[:, 2].max())
        where = pose.placement, pose.vehicle, pose.road
        return FrameInput(scan.points, *where, moving_mask, warm, exclude, *sensors, self._pose_noise.variance)

    def _raised(self, scan: Scan, mounting: Mounting) -> NDArray[np.bool_] | None:
        """(N,) points on faces and tops of objects around a low sensor on an even floor, or nearer to the level of the
        table that the sensor stands on than to the floor; None for other scans."""
        ground, T_vehicle_sensor = self.config.ground, mounting.T_vehicle_sensor
        if mounting.table:
            return (T_vehicle_sensor @ to_host(scan.points))[:, 2] > mounting.table / 2
        floor = even_floor(scan, T_vehicle_sensor, ground.labels.highest) if ground.uses("visibility") else None
        if floor is None:
            return None
        points = to_host(scan.points)
        return steep_faces(points, T_vehicle_sensor.rotation) | tops_beside(T_vehicle_sensor @ points, floor)


def _engine(
    config: Config, backend: Backend | CpuBackend, outputs: Outputs, fields: Collection[str] | None
) -> GroundEngine:
    if isinstance(backend, CpuBackend):
        from roadbed.ground.stcrf.cpu import StcrfCpu

        return StcrfCpu(config)
    from roadbed.ground.stcrf.device import StcrfDevice

    return StcrfDevice(backend, config, outputs=outputs, fields=fields)


def _long_term_map(config: Config, folder: str | Path | None) -> TileStore | None:
    if folder is None:
        return None
    from roadbed.mapping.tile_store import TileStore

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
