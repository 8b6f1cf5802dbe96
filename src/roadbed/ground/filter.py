# SPDX-License-Identifier: Apache-2.0
"""The ground filter: scans in, ground frames out, whatever the sensor, its mounting and its odometry."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.config import Config
from roadbed.config.ground import GroundConfig
from roadbed.errors import ConfigError, InputError
from roadbed.frames import GroundFrame, Mounting, Scan
from roadbed.geometry import Float32, Lattice, Pose
from roadbed.ground.mounting import MountingEstimator
from roadbed.timeline import Drive, Link
from roadbed.timing import timed

if TYPE_CHECKING:
    from roadbed.compute.backend import Backend
    from roadbed.ground.stcrf.method import Stcrf
    from roadbed.ground.variance.method import GridVariance, VarianceCells
    from roadbed.mapping.tiles import TileMap

Moving = tuple[Lattice, NDArray[np.bool_]]


class GroundFilter:
    """`filter(scan)` or `filter(points_xyz)` gives a GroundFrame; odometry in the scans carries the surface along."""

    def __init__(
        self,
        config: Config | GroundConfig | None = None,
        backend: str = "cpu",
        device: Any = None,
        map_folder: str | Path | None = None,
    ) -> None:
        if config is None:
            config = GroundConfig()
        self.config = config.ground if isinstance(config, Config) else config
        self.backend = None if backend == "cpu" else _opened(backend, device)
        self.cells: VarianceCells | None = None  # statistics of the last scan's cells, with grid variance
        if self.config.method == "stcrf":
            long_term_map = self._open_map(map_folder)
            self._stcrf = _stcrf(self.config, self.backend)
            self._stcrf.map = long_term_map
            self._drive = Drive(self.config.time, long_term_map)
        else:
            self._variance = _grid_variance(self.config, self.backend)
        self._mountings: dict[str, MountingEstimator] = {}

    def __call__(
        self,
        scan: Scan | ArrayLike,
        T_world_sensor: Pose | None = None,
        time: float | None = None,
        moving: Moving | None = None,
    ) -> GroundFrame:
        """Label every point of a scan and estimate the surface under it."""
        begin = clock.perf_counter()
        on_device = self.backend is not None and _lies_on_device(scan)
        points: Any = scan
        if on_device:  # the scan object stays empty: its points never leave the device
            scan = Scan(np.empty((0, 3), np.float32), time=time, T_world_sensor=T_world_sensor)
        else:
            scan = as_scan(scan, T_world_sensor, time)
            points = scan.points
        if self.config.method == "variance":
            return self._grid_variance(scan, points, begin)
        timings: dict[str, float] = {}
        notes: list[str] = []
        with timed(timings, "mounting"):
            mounting = self._mounting(scan, points, notes)
        with timed(timings, "motion"):
            step = self._drive.step(scan, mounting)
            notes.extend(step.notes)
            warm = self._stcrf.place(step)
            if warm and self.config.time.alignment:
                step, misfit = self._stcrf.aligned(points, step)
                if misfit:
                    notes.append(misfit)
                    warm = False
        result = self._stcrf.frame(points, step, warm, moving)
        with timed(timings, "keep"):
            if step.link in (Link.FIRST, Link.NEXT):
                self._stcrf.engine.keep()
        timings |= result.timings
        timings["total"] = clock.perf_counter() - begin
        return GroundFrame(
            label=result.label,
            ground_probability=result.ground_probability,
            height_above_ground=result.height_above_ground,
            lattice=self._stcrf.lattice,
            elevation=result.elevation,
            slope=result.slope,
            variance=result.variance,
            T_lattice_sensor=step.T_lattice_sensor,
            mounting=mounting,
            scan=scan,
            cold=not warm,
            notes=tuple(notes),
            timings=timings,
        )

    def _grid_variance(self, scan: Scan, points: Any, begin: float) -> GroundFrame:
        method = self._variance
        result = method(points)
        self.cells = cells = result.cells
        return GroundFrame(
            label=result.label,
            ground_probability=result.ground_probability,
            height_above_ground=result.height_above_ground,
            lattice=cells.lattice,
            elevation=np.where(cells.ground, cells.mean, np.float32(np.nan)),
            slope=np.full((*cells.lattice.shape, 2), np.nan, np.float32),
            variance=cells.variance,
            T_lattice_sensor=method.T_lattice_sensor,
            mounting=Mounting(method.T_lattice_sensor, estimated=False),
            scan=scan,
            timings={**result.timings, "total": clock.perf_counter() - begin},
        )

    def batch(self, scans: Iterable[Scan]) -> Iterator[GroundFrame]:
        """One frame per scan, in order. On an accelerator scans without odometry are computed several at a time."""
        if self.backend is None or self.config.method != "stcrf":
            yield from map(self, scans)
            return
        from roadbed.ground.stcrf.on_device import batch

        yield from batch(self, scans)

    def profile(self, scan: Scan) -> dict[str, float]:
        """Seconds per kernel on the accelerator for one scan alone; empty on the CPU."""
        if self.backend is None:
            return {}
        if self.config.method == "variance":
            return self._variance(scan.points, timed=True).timings  # type: ignore[call-arg]
        step = Drive(self.config.time).step(Scan(scan.points), self._mounting(scan, scan.points, []))
        return self._stcrf.frame(scan.points, step, False, None, profile=True).timings  # type: ignore[call-arg]

    def save_map(self) -> None:
        """Write what is known to the long-term map's folder; nodes that left the lattice may be there already."""
        if self.config.method == "stcrf":
            self._stcrf.save_map()

    def _open_map(self, folder: str | Path | None) -> TileMap | None:
        if folder is None:
            return None
        if self.config.time.motion != "rolling":
            raise ConfigError("map_folder: a long-term map needs time.motion = rolling, found vehicle")
        if self.backend is not None:
            raise ConfigError("map_folder: a long-term map needs backend cpu")
        from roadbed.mapping.tiles import TileMap

        return TileMap(folder, self.config.stcrf.spacing, self.config.time.map_tiles_in_memory)

    def reset(self) -> None:
        """Forget the surface, the poses and the estimated mountings."""
        if self.config.method == "stcrf":
            self._drive.reset()
        for estimator in self._mountings.values():
            estimator.forget()

    def _mounting(self, scan: Scan, points: Any, notes: list[str]) -> Mounting:
        if scan.T_vehicle_sensor is not None:
            return Mounting(scan.T_vehicle_sensor, estimated=False)
        if scan.sensor not in self._mountings:
            self._mountings[scan.sensor] = MountingEstimator(self.config.mounting)
        estimator = self._mountings[scan.sensor]
        on_host = points if isinstance(points, np.ndarray) else self.backend.to_host(points)  # type: ignore[union-attr]
        if scan.T_world_sensor is None:
            return estimator.estimate(on_host)
        mounting, changed = estimator.track(on_host)
        if changed:
            notes.append(f"mounting of {scan.sensor} re-estimated: height {mounting.height:.2f} m")
        return mounting


def _lies_on_device(points: Any) -> bool:
    """An array of CuPy, PyTorch or the like in GPU memory."""
    if isinstance(points, (Scan, np.ndarray)):
        return False
    if hasattr(points, "__dlpack_device__"):
        return points.__dlpack_device__()[0] not in (1, 3)  # neither ordinary nor pinned host memory
    return hasattr(points, "__cuda_array_interface__")


def _opened(name: str, device: Any) -> Backend | None:
    """The accelerator; "auto" is the best one present, or the CPU engine (None) where there is no GPU."""
    from roadbed.compute.opening import devices, open_backend

    if name == "auto" and not any(found.kind != "cpu" for found in devices()) and device is None:
        return None
    return open_backend(name, device)


def _stcrf(config: GroundConfig, backend: Backend | None) -> Stcrf:
    from roadbed.ground.stcrf.method import Stcrf

    if backend is None:
        return Stcrf(config)
    from roadbed.ground.stcrf.on_device import StcrfOnDevice

    return StcrfOnDevice(config, backend)


def _grid_variance(config: GroundConfig, backend: Backend | None) -> GridVariance:
    from roadbed.ground.variance.method import GridVariance

    if backend is None:
        return GridVariance(config.variance)
    from roadbed.ground.variance.device import GridVarianceDevice

    return GridVarianceDevice(backend, config.variance)


def as_scan(scan: Scan | ArrayLike, T_world_sensor: Pose | None, time: float | None) -> Scan:
    """A scan from what the caller has: a Scan, or an (N, 3) or wider array of points."""
    if isinstance(scan, Scan):
        if T_world_sensor is None and time is None:
            return scan
        return scan.at(T_world_sensor or scan.T_world_sensor, time)
    points = np.asarray(scan)
    if points.ndim != 2 or points.shape[1] < 3 or points.dtype.kind not in "fiu":
        raise InputError(
            f"points: expected numbers of shape (N, 3) or wider, found {points.dtype} of shape {points.shape}"
        )
    with np.errstate(over="ignore"):
        columns: Float32 = np.ascontiguousarray(points[:, :3], np.float32)
    return Scan(columns, time=time, T_world_sensor=T_world_sensor)
