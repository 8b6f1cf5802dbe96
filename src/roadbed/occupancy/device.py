# SPDX-License-Identifier: Apache-2.0
"""The occupancy's engine on an accelerator: the filter's state stays there from frame to frame."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from roadbed.compute.backend import Backend, OnDevice
from roadbed.config import Config
from roadbed.geometry import Float32
from roadbed.occupancy.arrays import Cells
from roadbed.occupancy.engine import GridMotion, LazyOutput, OccupancyInput, OccupancyOutput
from roadbed.occupancy.filter_buffers import ObservationBuffers, check_memory
from roadbed.occupancy.fuse_device import FusionDevice
from roadbed.occupancy.hsbof_device import HsbofDevice
from roadbed.occupancy.observe_device import ObserveDevice
from roadbed.occupancy.placement import lattice_of
from roadbed.occupancy.programs import check_device
from roadbed.occupancy.register_device import RegistrationDevice
from roadbed.timing import timed

_SENSED_PER_CELL = 18 + 10 + 4  # bytes of one sensor's grids, of the fused ones, and of what it last watched


class OccupancyDevice:
    """`roadbed.occupancy.engine.OccupancyEngine`. A frame is observe, fuse, register, and the steps of the filter.

    All of them are queued one after the other; what one leaves in its buffers the next one reads there.
    """

    def __init__(self, config: Config, backend: Backend) -> None:
        self.config, self.backend, occupancy = config, backend, config.occupancy
        self.lattice = lattice_of(occupancy.grid)
        cells, filter_ = Cells(*self.lattice.shape, self.lattice.spacing), occupancy.filter
        check_device(backend)
        sensed = self.lattice.size * _SENSED_PER_CELL + RegistrationDevice.bytes_needed(self.lattice.size)
        check_memory(backend, self.lattice.size, filter_, sensed)
        self._observe = ObserveDevice(backend, config, self.lattice)
        self._fusion = FusionDevice(backend, cells, occupancy.fusion, occupancy.observation.clip)
        self._registration = RegistrationDevice(backend, cells, filter_.registration)
        given = ObservationBuffers(*self._fusion.fused, *self._registration.registered)
        self._hsbof = HsbofDevice(backend, self.lattice.shape, cells.spacing, filter_, config.seed, given)
        self._motion = GridMotion()  # since the last frame

    @property
    def prior(self) -> Float32:
        return self._hsbof.layers[:3]

    def move(self, motion: GridMotion) -> None:
        self._motion = self._motion.then(motion)
        self._fusion.move(motion)

    def frame(self, given: OccupancyInput) -> OccupancyOutput:
        timings: dict[str, float] = {}
        h, motion = self._hsbof, self._motion
        with timed(timings, "queue"):
            fused = self._fusion(given.time, self._observe(given))
            registered = self._registration(fused, given.dt, motion)
            h.step(fused, registered, given.dt, motion, given.own_velocity)
        with timed(timings, "device"):
            self.backend.finish()
        self._motion = GridMotion()
        b, size, (probability, observedness, surface) = h._buffers, self.lattice.size, fused
        fetch = {
            "static": self._bringing(b.layers),
            "dynamic": self._bringing(b.layers, start=size),
            "free": self._bringing(b.layers, start=2 * size),
            "velocity": self._bringing(b.mean, 2),
            "velocity_covariance": self._bringing(b.covariance, 3),
            "moving": lambda: h.moving,
            "observation": self._bringing(probability),
            "observedness": self._bringing(observedness),
            "surface": self._bringing(surface),
        }
        moving = OnDevice(b.moving, count=size)
        return LazyOutput(fetch, uncarried=h.uncarried, timings=timings, moving_on_device=moving)

    def _bringing(self, buffer: Any, *numbers: int, start: int = 0) -> Callable[[], Any]:
        """What downloads a layer of cells with so many numbers each."""
        shape = (*self.lattice.shape, *numbers)
        return lambda: self.backend.download(buffer, start, math.prod(shape)).reshape(shape)

    def forget(self) -> None:
        self._motion = GridMotion()
        self._fusion.forget()
        self._registration.forget()
        self._hsbof.forget()

    def forget_motion(self, gap: float) -> None:
        self._registration.forget()
        self._hsbof.forget_motion(gap)
