# SPDX-License-Identifier: Apache-2.0
"""Every engine of the occupancy, for tests that hold them all against the same oracle."""

from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.hsbof_state import HsbofState
from roadbed import Config
from roadbed.config import OccupancyConfig
from roadbed.occupancy.cpu import OccupancyCpu
from roadbed.occupancy.device import OccupancyDevice
from roadbed.occupancy.engine import GridMotion, OccupancyEngine, OccupancyInput, OccupancyOutput
from roadbed.occupancy.hsbof.arrays import Masses, Particles
from roadbed.occupancy.hsbof.filter import Hsbof, ParticleSet
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.occupancy.hsbof.program import PARTICLE
from roadbed.occupancy.registration.register import Registration
from roadbed.runtime.backend import Backend
from tests.devices import DRIVERS, accelerator
from tests.occupancy.models import changed

ENGINES = DRIVERS


def engine(name: str, config: Config | OccupancyConfig, **changes: Any) -> OccupancyEngine:
    """One of ENGINES, with some values of the filter's model replaced."""
    whole = config if isinstance(config, Config) else Config(occupancy=config)
    made = FilterModel.of
    with patch.object(FilterModel, "of", lambda config: changed(made(config), **changes)):
        if name == "cpu":
            return OccupancyCpu(whole)
        return OccupancyDevice(whole, accelerator(name, optimise=False))


def frame_of(engine: OccupancyEngine, given: OccupancyInput) -> OccupancyOutput:
    """One frame from begin to end."""
    engine.begin(given)
    return engine.finish()


def hsbof(name: str) -> Any:
    """The filter of an engine by itself: tests give it masses, particles and observations, and ask for a step."""
    return Hsbof if name == "cpu" else partial(HsbofOnDevice, accelerator(name, optimise=False))


class HsbofOnDevice:
    """A filter on a device whose state tests read and write on the host, under the names it has in `Hsbof`."""

    def __init__(
        self, backend: Backend, shape: tuple[int, int], spacing: float, model: Any = None, seed: int = 0
    ) -> None:
        self.device = HsbofState(backend, shape, spacing, model, seed)
        self.model, self.cells = self.device.model, self.device.cells
        self.layers = np.zeros((5, *shape), np.float32)
        self.particles = ParticleSet(self.model.particles)
        self._registration = Registration(self.cells, self.model.registration)
        self.fetch()

    @property
    def masses(self) -> Masses:
        return Masses.of(self.layers)

    def forget(self) -> None:
        self.device.forget()
        self._registration.forget()
        self.fetch()

    def step(self, observation: Any, dt: float, motion: GridMotion | None = None, ego_velocity: Any = (0, 0)) -> None:
        registered = self._registration(observation, dt, motion or GridMotion(), self.masses.maturity)
        self.send()
        self.device.upload(observation, registered)
        self.device.step(dt, motion, ego_velocity)
        self.fetch()

    def send(self) -> None:
        device, p = self.device, self.particles
        device.set_layers(self.layers)
        particles, cells = np.zeros(p.capacity, PARTICLE), np.full(p.capacity, device.size, np.int32)
        for name in set(Particles._fields) & set(PARTICLE.names or ()):
            particles[name] = getattr(p.arrays, name)
        cells[: p.count] = 0
        device.backend.upload(particles.view(np.float32), device._buffers.particles)
        device.backend.upload(cells, device._buffers.cells)

    def fetch(self) -> None:
        device, p = self.device, self.particles
        self.layers[:] = device.layers
        cells = device.backend.download(device._buffers.cells, 0, p.capacity)
        particles = device.particles_in(device._buffers.particles, p.capacity)
        p.count = int(np.count_nonzero(cells < device.size))
        p.arrays.cell[:] = cells
        for name in set(Particles._fields) & set(PARTICLE.names or ()):
            getattr(p.arrays, name)[:] = particles[name]
        self.velocities, self.moving, self.mass_without_particles = (
            device.velocities,
            device.moving,
            device.mass_without_particles,
        )
