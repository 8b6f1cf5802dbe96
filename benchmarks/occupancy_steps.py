# SPDX-License-Identifier: Apache-2.0
"""One step of the occupancy, fusion and filter, on the CPU or on an accelerator, as the benchmark times it."""

from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np

from benchmarks.hsbof_state import HsbofState
from roadbed.config.occupancy import FusionConfig
from roadbed.core.timing import timed
from roadbed.occupancy.arrays import Cells, Observation, Reports
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.fusion.fuse import Fusion
from roadbed.occupancy.fusion.fuse_device import FusionDevice
from roadbed.occupancy.hsbof.buffers import ObservationBuffers
from roadbed.occupancy.hsbof.filter import Hsbof
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.occupancy.registration.register_device import RegistrationDevice
from roadbed.runtime import primitives
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.runtime.graphs import CommandGraph

Given = tuple[float, GridMotion, tuple[float, float]]  # seconds since the last step, the grid's motion, own velocity

# The paper's figure 6: what each task waits for. Fusion, particles and priors do not wait for each other.
FIGURE_6 = {
    "fuse": (),
    "propagate_particles": (),
    "reorder_particles": ("propagate_particles",),
    "propagate_priors": (),
    "update_measurement": ("fuse", "reorder_particles", "propagate_priors"),
    "estimate_velocities": ("update_measurement",),
    "give_birth": ("estimate_velocities",),
    "resample": ("give_birth",),
    "normalise": ("resample",),
}
_LAYERS = Observation._fields


class Steps(Protocol):
    """`pack` makes ready what the sensors report, `load` brings it to where `step` works on it; `phases` is a step with
    the seconds of its parts."""

    def pack(self, reports: Mapping[str, Observation]) -> Any: ...

    def load(self, time: float, packed: Any, given: Given) -> None: ...

    def step(self) -> None: ...

    def phases(self) -> dict[str, float]: ...


def steps_on(
    backend: Backend | CpuBackend,
    cells: Cells,
    fusion: FusionConfig,
    filter_: FilterModel,
    group: int,
    concurrent: bool,
) -> Steps:
    if isinstance(backend, CpuBackend):
        return _CpuSteps(cells, fusion, filter_)
    return _DeviceSteps(backend, cells, fusion, filter_, group, concurrent)


def stacked(observations: Mapping[str, Observation]) -> Reports:
    """The observation grids of sensors by name, as the fusion takes them."""
    return Reports(tuple(observations), *(np.stack(layer) for layer in zip(*observations.values())))


class _CpuSteps:
    def __init__(self, cells: Cells, fusion: FusionConfig, filter_: FilterModel) -> None:
        self._fusion = Fusion(cells.spacing, fusion)
        self._filter = Hsbof((cells.rows, cells.columns), cells.spacing, filter_)

    def pack(self, reports: Mapping[str, Observation]) -> Any:
        return stacked(reports)

    def load(self, time: float, packed: Any, given: Given) -> None:
        self._now = time, packed, given
        self._fusion.move(given[1])

    def step(self) -> None:
        self.phases()

    def phases(self) -> dict[str, float]:
        seconds: dict[str, float] = {}
        time, reports, (dt, motion, ego_velocity) = self._now
        with timed(seconds, "fuse"):
            observation = self._fusion(time, reports)
        self._filter.step(observation, dt, motion, ego_velocity)
        return self._filter.timings | seconds


class _DeviceSteps:
    """Reports lie on the device already, where the observation leaves them. `concurrent`: as in FIGURE_6."""

    def __init__(
        self,
        backend: Backend,
        cells: Cells,
        fusion: FusionConfig,
        filter_: FilterModel,
        group: int,
        concurrent: bool,
    ) -> None:
        self.backend = backend
        self._fusion = FusionDevice(backend, cells, fusion)
        self._registration = RegistrationDevice(backend, cells, filter_.registration)
        given = ObservationBuffers(*self._fusion.fused, *self._registration.registered)
        shape = cells.rows, cells.columns
        self._filter = HsbofState(backend, shape, cells.spacing, filter_, given=given, group=group)
        self._concurrent, self._graph = concurrent, cast("CommandGraph | None", None)
        self._buffers: list = []

    def pack(self, reports: Mapping[str, Observation]) -> Any:
        """Onto the device, with what copies it to where the sensors' reports lie."""
        grids = [np.concatenate([getattr(grid, name).reshape(-1) for grid in reports.values()]) for name in _LAYERS]
        layers = [np.append(grid, np.zeros(grid.size % 2, grid.dtype)) for grid in grids]  # whole words
        self._buffers = self._buffers or [self.backend.zeros(layer.size, layer.dtype) for layer in layers]
        held = [self.backend.upload(layer) for layer in layers]
        words = [layer.nbytes // 4 for layer in layers]
        copies = [primitives.copy(*each) for each in zip(held, self._buffers, words)]
        return tuple(reports), self.backend.graph(primitives.build(self.backend), copies), held

    def load(self, time: float, packed: Any, given: Given) -> None:
        sensors, copying, _ = packed
        copying.run()
        self._now = time, Reports(sensors, *self._buffers), given
        self._fusion.move(given[1])
        self.backend.finish()

    def step(self) -> None:
        time, reports, (dt, motion, ego_velocity) = self._now
        if self._concurrent:
            self._fusion.prepare(time, reports)
            self._filter.describe(dt, motion, ego_velocity)
            self._graph = self._graph or self._figure_6(reports)
            self._graph.run()
        else:
            self._fusion.prepare(time, reports).run()
            self._registration(self._fusion.fused, dt, motion, self._filter._buffers.layers)
            self._filter.step(dt, motion, ego_velocity)
        self.backend.finish()

    def _figure_6(self, reports: Reports) -> CommandGraph:
        """Fusion and filter in one graph; this schedule has no place for a registration."""
        assert not self._filter.model.registration.enabled
        launches = [self._fusion.launch(reports), *self._filter.launches()]
        return self.backend.graph(self._filter.program, launches, FIGURE_6)

    def phases(self) -> dict[str, float]:
        """Of the filter as the device's own clock has them; fusion and registration with the host waiting for each."""
        seconds: dict[str, float] = {}
        time, reports, (dt, motion, ego_velocity) = self._now
        with timed(seconds, "fuse"):
            self._fusion.prepare(time, reports).run()
            self.backend.finish()
        with timed(seconds, "register_hits"):
            self._registration(self._fusion.fused, dt, motion, self._filter._buffers.layers)
            self.backend.finish()
        return seconds | self._filter.profile(dt, motion, ego_velocity)
