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
from roadbed.frames import Float32, GroundFrame, Lattice, Mounting, Pose, Scan
from roadbed.ground.mounting import MountingEstimator

if TYPE_CHECKING:
    from roadbed.ground.variance import VarianceCells

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
        if backend not in ("cpu", "auto"):
            raise ConfigError(f"backend {backend!r}: expected cpu or auto")
        self.cells: VarianceCells | None = None  # statistics of the last scan's cells, with grid variance
        if self.config.method == "stcrf":
            from roadbed.ground.stcrf import Stcrf

            self._stcrf = Stcrf(self.config)
        else:
            from roadbed.ground.variance import GridVariance

            self._variance = GridVariance(self.config.variance)
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
        scan = as_scan(scan, T_world_sensor, time)
        if self.config.method == "variance":
            return self._grid_variance(scan, begin)
        mounting = self._mounting(scan)
        found = clock.perf_counter()
        T_lattice_sensor = mounting.T_vehicle_sensor
        result = self._stcrf.frame(scan.points, T_lattice_sensor, Pose.identity(), False, moving)
        end = clock.perf_counter()
        timings = {"mounting": found - begin, **result.timings, "total": end - begin}
        return GroundFrame(
            label=result.label,
            ground_probability=result.ground_probability,
            height_above_ground=result.height_above_ground,
            lattice=self._stcrf.lattice,
            elevation=result.elevation,
            slope=result.slope,
            variance=result.variance,
            T_lattice_sensor=T_lattice_sensor,
            mounting=mounting,
            scan=scan,
            cold=True,
            timings=timings,
        )

    def _grid_variance(self, scan: Scan, begin: float) -> GroundFrame:
        method = self._variance
        result = method(scan.points)
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
        """One frame per scan, in order."""
        for scan in scans:
            yield self(scan)

    def reset(self) -> None:
        """Forget the surface, the poses and the estimated mountings."""
        for estimator in self._mountings.values():
            estimator.forget()

    def _mounting(self, scan: Scan) -> Mounting:
        if scan.T_vehicle_sensor is not None:
            return Mounting(scan.T_vehicle_sensor, estimated=False)
        if scan.sensor not in self._mountings:
            self._mountings[scan.sensor] = MountingEstimator(self.config.mounting)
        return self._mountings[scan.sensor].estimate(scan.points)


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
