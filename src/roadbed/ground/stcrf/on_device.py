# SPDX-License-Identifier: Apache-2.0
"""The STCRF with its engine on an accelerator, in the shape the ground filter uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import tee
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from roadbed.compute.backend import Backend
from roadbed.config.ground import GroundConfig
from roadbed.frames import GroundFrame, Scan
from roadbed.geometry import Lattice, Pose
from roadbed.ground.stcrf.batch import BatchStcrf
from roadbed.ground.stcrf.device import StcrfDevice
from roadbed.ground.stcrf.method import Stcrf, StcrfResult
from roadbed.timeline import Step
from roadbed.timing import timed

if TYPE_CHECKING:
    from roadbed.ground.filter import GroundFilter


class StcrfOnDevice(Stcrf):
    """`Stcrf` whose frames are computed by one device."""

    def __init__(self, config: GroundConfig, backend: Backend) -> None:
        self.backend = backend
        super().__init__(config)

    def _make_engine(self) -> Any:
        return StcrfDevice(self.backend, self.config, self.lattice.rows, self.lattice.columns)

    def frame(
        self,
        points: Any,
        step: Step,
        warm: bool,
        moving: tuple[Lattice, NDArray[np.bool_]] | None,
        profile: bool = False,
    ) -> StcrfResult:
        """Estimate the surface under one scan; with `profile`, timings are those of the device's kernels."""
        engine: StcrfDevice = self.engine
        timings: dict[str, float] = {}
        with timed(timings, "upload"):
            engine.sort(points, self._placement(step.T_lattice_sensor))
            engine.select(self._vehicle(step.T_lattice_vehicle), self._moving(moving))
        with timed(timings, "device"):
            kernels = engine.estimate(warm, float(step.T_lattice_vehicle.translation[2]) - self.base, profile)
            engine.fetch()
        with timed(timings, "download"):
            label, probability, height = engine.per_point()
            elevation, slope, variance = engine.surface(self.lattice)
        return StcrfResult(label, probability, height, elevation, slope, variance, kernels or timings)

    def _vehicle(self, T_lattice_vehicle: Pose) -> NDArray[np.float32]:
        """Where the vehicle stands: x, y from the corner, cosine and sine of its yaw, slopes of its wheels' plane."""
        x, y, _ = T_lattice_vehicle.translation - self._corner
        up = T_lattice_vehicle.rotation[:, 2]
        yaw = T_lattice_vehicle.yaw
        return np.array([x, y, np.cos(yaw), np.sin(yaw), -up[0] / up[2], -up[1] / up[2]], np.float32)


def batch(ground: GroundFilter, scans: Iterable[Scan]) -> Iterator[GroundFrame]:
    """Frames of scans that stand alone, in order; a scan with odometry is taken by the filter itself."""
    assert ground.backend is not None
    engines = BatchStcrf(ground.backend, ground.config)
    scans = iter(scans)
    for scan in scans:
        if scan.T_world_sensor is not None:
            yield ground(scan)
            continue
        alone = _UntilOdometry(scan, scans)
        mounted, kept = tee((scan, ground._mounting(scan, scan.points, [])) for scan in alone.scans)
        results = engines.run((scan.points, mounting.T_vehicle_sensor) for scan, mounting in mounted)
        for result, (scan, mounting) in zip(results, kept):
            yield GroundFrame(
                label=result.label,
                ground_probability=result.ground_probability,
                height_above_ground=result.height_above_ground,
                lattice=engines.lattice,
                elevation=result.elevation,
                slope=result.slope,
                variance=result.variance,
                T_lattice_sensor=mounting.T_vehicle_sensor,
                mounting=mounting,
                scan=scan,
                timings={},
            )
        if alone.next is not None:
            yield ground(alone.next)


class _UntilOdometry:
    """The scans up to the first with odometry, which is left in `next`."""

    def __init__(self, first: Scan, rest: Iterator[Scan]) -> None:
        self.next: Scan | None = None
        self.scans = self._take(first, rest)

    def _take(self, first: Scan, rest: Iterator[Scan]) -> Iterator[Scan]:
        yield first
        for scan in rest:
            if scan.T_world_sensor is not None:
                self.next = scan
                return
            yield scan
