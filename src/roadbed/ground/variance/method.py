# SPDX-License-Identifier: Apache-2.0
"""Grid variance: a cell whose heights vary little is ground, and so are its points near the mean height.

Each scan is segmented by itself, in the axes of its points: neither the mounting nor odometry is used.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.frames import Mounting, Moving, Scan
from roadbed.core.geometry import Pose
from roadbed.ground.ego.ego_mask import EgoMask
from roadbed.ground.engine import FrameOutput
from roadbed.ground.method import Segmented, Started
from roadbed.ground.variance.model import lattice_of
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend

_MOUNTING = Mounting(T_vehicle_sensor=Pose.identity(), estimated=False)  # points stay in their own axes

_NO_ORIGIN = "no sensor at the origin: grid variance is for scans around a sensor, the method stcrf labels maps"


class VarianceEngine(Protocol):
    """The method on one machine."""

    def frame(self, points: Any) -> FrameOutput: ...

    def profile(self, points: Any) -> dict[str, float]: ...


class GridVariance:
    """The method of the report."""

    def __init__(self, config: Config, backend: Backend | CpuBackend) -> None:
        self.grid = lattice_of(config.ground.variance)
        self.engine = _engine(config, backend)

    def start(self, scan: Scan, moving: Moving | None, ego: EgoMask) -> Started:
        """The scan is segmented when the result is asked for; moving cells are not used."""
        mask = ego.mask(scan)
        return Started(_MOUNTING, partial(self._segment, ego.removed(scan, mask), mask))

    def _segment(self, scan: Scan, ego_mask: NDArray[np.bool_] | None = None) -> Segmented:
        output = self.engine.frame(scan.points)
        poses = self.grid, _MOUNTING.T_vehicle_sensor, _MOUNTING, scan.T_world_sensor
        notes = (_NO_ORIGIN,) if scan.has_origin is False else ()
        return Segmented(output, *poses, diagnostics=notes, timings=output.timings, ego_mask=ego_mask)

    def batch(self, scans: Iterable[Scan]) -> Iterator[tuple[Scan, Segmented]]:
        yield from ((scan, self._segment(scan)) for scan in scans)

    def profile(self, scan: Scan) -> dict[str, float]:
        return self.engine.profile(scan.points)

    def save_map(self) -> None:
        """This method has no map."""

    def reset(self) -> None:
        """Nothing is kept from scan to scan."""


def _engine(config: Config, backend: Backend | CpuBackend) -> VarianceEngine:
    if isinstance(backend, CpuBackend):
        from roadbed.ground.variance.cpu import VarianceCpu

        return VarianceCpu(config.ground.variance)
    from roadbed.ground.variance.device import VarianceDevice

    return VarianceDevice(backend, config.ground.variance)
