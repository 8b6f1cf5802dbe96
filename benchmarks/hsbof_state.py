# SPDX-License-Identifier: Apache-2.0
"""The filter on a device with observations given, and its state read and written, on the host."""

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config.occupancy import OccupancyConfig
from roadbed.core.geometry import Float32
from roadbed.occupancy.arrays import Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.hsbof.arrays import Masses, Velocities
from roadbed.occupancy.hsbof.buffers import PARTICLE_WORDS, ObservationBuffers, check_memory
from roadbed.occupancy.hsbof.filter_device import HsbofDevice
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.occupancy.hsbof.program import PARTICLE
from roadbed.occupancy.programs import GROUP
from roadbed.occupancy.registration.arrays import Registered
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph


class HsbofState(HsbofDevice):
    """`upload` an observation, `step`, and read the result; `given` are buffers that other kernels fill instead."""

    def __init__(
        self,
        backend: Backend,
        shape: tuple[int, int],
        spacing: float,
        model: FilterModel | None = None,
        seed: int = 0,
        given: ObservationBuffers | None = None,
        group: int = GROUP,
    ) -> None:
        model, cells, zeros = model or FilterModel.of(OccupancyConfig()), math.prod(shape), backend.zeros
        check_memory(backend, cells, model)
        if given is None:
            # Connected hits do not touch: of four cells at most one begins a component.
            components = cells // 4 + cells // 2 + 2
            layers = (zeros(cells, kind) for kind in (np.float32, np.float32, np.uint16, np.int32))
            given = ObservationBuffers(*layers, zeros((components, 2), np.float32), zeros(components, np.int32))
        super().__init__(backend, shape, spacing, model, seed, given, group)

    @cached_property
    def _whole(self) -> CommandGraph:
        """All of an iteration."""
        return self.backend.graph(self.program, list(self.launches()))

    def step(self, dt: float, motion: GridMotion | None = None, ego_velocity: tuple[float, float] = (0.0, 0.0)) -> None:
        """Queue one iteration: predict by `dt` seconds, update with the observation grid, resample."""
        self.describe(dt, motion, ego_velocity)
        self._whole.run()

    def profile(
        self, dt: float, motion: GridMotion | None = None, ego_velocity: tuple[float, float] = (0.0, 0.0)
    ) -> dict[str, float]:
        """The same, and the seconds of each step on the device."""
        self.describe(dt, motion, ego_velocity)
        return self._whole.timed()

    def upload(self, observation: Observation, registered: Registered) -> None:
        """What the sensors say and how it moved, from the host, for the next step."""
        given, upload = self._given, self.backend.upload
        upload(observation.probability, given.probability)
        upload(observation.observedness, given.observedness)
        upload(observation.surface, given.surface)
        upload(registered.label, given.label)
        upload(registered.velocity, given.velocity)
        upload(registered.cells, given.component_cells)

    def _download(self, buffer: Any, *shape: int) -> Any:
        return self.backend.download(buffer, 0, math.prod(shape)).reshape(shape)

    def set_layers(self, layers: Float32) -> None:
        """Replace the masses (5, rows, columns)."""
        self.backend.upload(np.ascontiguousarray(layers, np.float32), self._buffers.layers)

    @property
    def masses(self) -> Masses:
        return Masses.of(self.layers)

    @property
    def velocities(self) -> Velocities:
        b, shape = self._buffers, self.cells[:2]
        return Velocities(
            self._download(b.particle_mass, *shape),
            self._download(b.mean, *shape, 2),
            self._download(b.covariance, *shape, 3),
            self._download(b.moving_alone, *shape).view(np.bool_),
        )

    @property
    def moving(self) -> Any:
        return self._download(self._buffers.moving, *self.cells[:2]).view(np.bool_)

    def particles_in(self, buffer: Any, count: int) -> NDArray[np.void]:
        """The first particles of a buffer, as records of their own."""
        return self.backend.download(buffer, 0, count * PARTICLE_WORDS).view(PARTICLE)

    def particle_masses(self) -> tuple[Any, Float32]:
        """The cell and the mass of every particle in use."""
        cells = self._download(self._buffers.cells, self.capacity)
        particles = self.particles_in(self._buffers.particles, self.capacity)
        used = cells < self.size
        return cells[used], particles["mass"][used]

    @property
    def mass_without_particles(self) -> float:
        """Share of the dynamic mass that found no particle in the last iteration."""
        return self.share_of(self._download(self._buffers.lost, self._buffers.sum_groups, 2))
