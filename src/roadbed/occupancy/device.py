# SPDX-License-Identifier: Apache-2.0
"""The occupancy's engine on an accelerator: the filter's state stays there from frame to frame."""

from __future__ import annotations

from roadbed.compute.backend import Backend
from roadbed.compute.compilation import announce
from roadbed.config import Config
from roadbed.geometry import Float32
from roadbed.occupancy import observe, register
from roadbed.occupancy.engine import GridMotion, OccupancyInput, OccupancyOutput
from roadbed.occupancy.fuse import Fusion
from roadbed.occupancy.hsbof_device import HsbofDevice
from roadbed.occupancy.placement import lattice_of
from roadbed.occupancy.register import Registration
from roadbed.timing import timed


class OccupancyDevice:
    """`roadbed.occupancy.engine.OccupancyEngine`. A frame is observe, fuse, register, and the steps of the filter."""

    def __init__(self, config: Config, backend: Backend) -> None:
        self.config, self.backend, occupancy = config, backend, config.occupancy
        lattice = lattice_of(occupancy.grid)
        self._hsbof = HsbofDevice(backend, lattice.shape, lattice.spacing, occupancy.filter, config.seed)
        announce((*observe.KERNELS, *register.KERNELS))
        self._fusion = Fusion(lattice.spacing, occupancy.fusion, occupancy.observation.clip)
        self._registration = Registration(self._hsbof.cells, occupancy.filter.registration)
        self._motion = GridMotion()  # since the last frame

    @property
    def prior(self) -> Float32:
        return self._hsbof.layers[:3]

    def move(self, motion: GridMotion) -> None:
        self._motion = self._motion.then(motion)
        self._fusion.move(motion)

    def frame(self, given: OccupancyInput) -> OccupancyOutput:
        timings: dict[str, float] = {}
        with timed(timings, "observe"):
            reports = {view.name: observe.observe(given, view, self.config) for view in given.sensors}
        with timed(timings, "fuse"):
            observation = self._fusion(given.time, reports)
        h, motion = self._hsbof, self._motion
        self._motion = GridMotion()
        with timed(timings, "register_hits"):
            registered = self._registration(observation, given.dt, motion)
        with timed(timings, "device"):
            h.step(observation, registered, given.dt, motion, given.own_velocity)
            self.backend.finish()
        with timed(timings, "download"):
            layers, velocities = h.layers, h.velocities
            return OccupancyOutput(
                static=layers[0],
                dynamic=layers[1],
                free=layers[2],
                velocity=velocities.mean,
                velocity_covariance=velocities.covariance,
                moving=h.moving,
                observation=observation.probability,
                observedness=observation.observedness,
                surface=observation.surface,
                uncarried=h.uncarried,
                timings=timings,
            )

    def forget(self) -> None:
        self._motion = GridMotion()
        self._fusion.forget()
        self._registration.forget()
        self._hsbof.forget()

    def forget_motion(self, gap: float) -> None:
        self._registration.forget()
        self._hsbof.forget_motion(gap)
