# SPDX-License-Identifier: Apache-2.0
"""Grid variance: cells whose heights vary little are ground, and so are their points near the mean height.

Every scan stands alone, in the axes of its points: neither mounting nor odometry is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.frames import Mounting, Moving, Scan, VarianceCells
from roadbed.core.geometry import Pose
from roadbed.ground.engine import BodyQuestion, FrameOutput, nothing
from roadbed.ground.method import Segmented
from roadbed.ground.variance.model import lattice_of
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend


class VarianceEngine(Protocol):
    """The method on one machine."""

    def frame(self, points: Any) -> FrameOutput: ...

    def profile(self, points: Any) -> dict[str, float]: ...


class GridVariance:
    """The method of the report."""

    def __init__(self, config: Config, backend: Backend | CpuBackend) -> None:
        self.grid = lattice_of(config.ground.variance)
        self.engine = _engine(config, backend)

    def leaves_out(self, scan: Scan) -> bool:
        """It takes a scan as it is."""
        return False

    def finds_own(self, scan: Scan) -> bool:
        return False

    def segment(
        self,
        scan: Scan,
        moving: Moving | None = None,
        own: NDArray[np.bool_] | None = None,
        body: BodyQuestion | None = None,
        meanwhile: Callable[[Mounting], object] = nothing,
    ) -> Segmented:
        in_place = Pose.identity()
        mounting = Mounting(T_vehicle_sensor=in_place, estimated=False)
        meanwhile(mounting)
        output = self.engine.frame(scan.points)
        return Segmented(output, self.grid, in_place, mounting, scan.T_world_sensor, timings=output.timings)

    def batch(self, scans: Iterable[Scan]) -> Iterator[tuple[Scan, Segmented]]:
        yield from ((scan, self.segment(scan)) for scan in scans)

    def profile(self, scan: Scan) -> dict[str, float]:
        return self.engine.profile(scan.points)

    def save_map(self) -> None:
        """There is none."""

    def reset(self) -> None:
        """Nothing is kept from scan to scan."""


def output_of(cells: VarianceCells, per_point: tuple[Any, Any, Any], timings: dict[str, float]) -> FrameOutput:
    """The cells as layers: the mean of ground cells is the elevation, and slopes are not known."""
    return FrameOutput(
        *per_point,
        elevation=np.where(cells.ground, cells.mean, np.float32(np.nan)),
        slope=np.broadcast_to(np.float32(np.nan), (*cells.grid.shape, 2)),
        variance=cells.variance,
        timings=timings,
        cells=cells,
    )


def _engine(config: Config, backend: Backend | CpuBackend) -> VarianceEngine:
    if isinstance(backend, CpuBackend):
        from roadbed.ground.variance.cpu import VarianceCpu

        return VarianceCpu(config.ground.variance)
    from roadbed.ground.variance.device import VarianceDevice

    return VarianceDevice(backend, config.ground.variance)
