# SPDX-License-Identifier: Apache-2.0
"""The occupancy's engine on an accelerator: the filter's state stays there from frame to frame."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.core.device_arrays import DeviceArray
from roadbed.core.geometry import Float32
from roadbed.core.timing import timed
from roadbed.occupancy.arrays import Cells
from roadbed.occupancy.engine import GridMotion, LazyOutput, OccupancyInput, OccupancyOutput
from roadbed.occupancy.fusion.fuse_device import FusionDevice
from roadbed.occupancy.hsbof.buffers import ObservationBuffers, check_memory
from roadbed.occupancy.hsbof.filter_device import HsbofDevice
from roadbed.occupancy.observation.observe_device import ObserveDevice
from roadbed.occupancy.placement import lattice_of
from roadbed.occupancy.programs import FUSE, OBSERVE, check_device, register_group, register_program
from roadbed.occupancy.records import filter_program
from roadbed.occupancy.registration.register_device import RegistrationDevice
from roadbed.runtime import primitives
from roadbed.runtime.backend import Backend
from roadbed.runtime.device import Device
from roadbed.runtime.graph_cache import GraphCache
from roadbed.runtime.graphs import CommandGraph, Concurrent
from roadbed.runtime.program import Program

_SENSED_PER_CELL = 18 + 10 + 4  # bytes of one sensor's grids, of the fused ones, and of what it last watched

_MASSES = ("static", "dynamic", "free")


def device_programs(device: Device) -> list[Program]:
    """The programs that a device builds for the occupancy."""
    check_device(device)
    return [OBSERVE, FUSE, register_program(register_group(device)), filter_program(), primitives.PROGRAM]


class OccupancyDevice:
    """`roadbed.occupancy.engine.OccupancyEngine`. A frame is observe, fuse, register, and the steps of the filter.

    All of them are one sequence of launches; what one leaves in its buffers the next one reads there.
    """

    def __init__(self, config: Config, backend: Backend, wanted: Collection[str] = ()) -> None:
        """What is `wanted` (names of the filter's WANTED) is brought to the host with the frame, the rest when asked
        for."""
        self.config, self.backend, occupancy = config, backend, config.occupancy
        self.grid = lattice_of(occupancy.grid)
        cells, filter_ = Cells(*self.grid.shape, self.grid.spacing), occupancy.filter
        check_device(backend.device)
        remembered = RegistrationDevice.bytes_needed(backend, *self.grid.shape, filter_.registration)
        check_memory(backend, self.grid.size, filter_, self.grid.size * _SENSED_PER_CELL + remembered)
        self._observe = ObserveDevice(backend, config, self.grid)
        self._fusion = FusionDevice(backend, cells, occupancy.fusion, occupancy.observation.clip)
        self._registration = RegistrationDevice(backend, cells, filter_.registration)
        given = ObservationBuffers(*self._fusion.fused, *self._registration.registered)
        self._hsbof = HsbofDevice(backend, self.grid.shape, cells.spacing, filter_, config.seed, given)
        self._motion = GridMotion()  # since the last frame
        self._graph_cache = GraphCache(backend)
        self._layers = self._on_device()
        brought = {name: self._layers[name] for name in _brought(frozenset(wanted))}
        at_last = ("lost", "masses") if "velocity" in brought else ("lost", "moving", "masses")
        last = {name: brought.pop(name) for name in at_last if name in brought}
        fused, filtered = self._fusion.results, self._hsbof._buffers.results
        # What is known after the fusion, of velocities, and in the end.
        plans = ((fused, brought), (filtered, brought), (filtered, last))
        self._brought = [(side_by_side, side_by_side.plan(names)) for side_by_side, names in plans]

    @property
    def prior(self) -> Float32:
        return self._hsbof.layers[:3]

    def move(self, motion: GridMotion) -> None:
        self._motion = self._motion.then(motion)
        self._fusion.move(motion)

    def expect(self, dt: float) -> None:
        self._hsbof.expect(dt)

    def frame(self, given: OccupancyInput, meanwhile: Callable[[], object] | None = None) -> OccupancyOutput:
        timings: dict[str, float] = {}
        h, motion = self._hsbof, self._motion
        with timed(timings, "queue"):
            reports, observe = self._observe.prepare(given)
            fuse, fused = self._fusion.prepare(given.time, reports), self._fusion.fused
            register = self._registration.prepare(fused, given.dt, motion, h._buffers.layers)
            h.describe(given.dt, motion, given.own_velocity)
            particles, velocities, rest = h.parts
            known = self._run(
                (Concurrent((observe, fuse), (particles,)),),
                (*register, velocities),
                (rest,),
            )
        if meanwhile is not None:
            meanwhile()
        with timed(timings, "device"):
            self.backend.finish()
        self._motion = GridMotion()
        if "masses" in known:
            known |= zip(_MASSES, known.pop("masses"))
        moving = DeviceArray(h._buffers.moving, count=self.grid.size)
        uncarried = h.share_of(known.pop("lost"))
        return LazyOutput(self._fetch, **known, uncarried=uncarried, timings=timings, moving_on_device=moving)

    def _run(self, *parts: tuple[CommandGraph | Concurrent, ...]) -> dict[str, Any]:
        """Run what belongs together, and bring what is then known while the next part runs."""
        known: dict[str, Any] = {}
        waiting: list[CommandGraph | Concurrent] = []
        for graphs, (side_by_side, plan) in zip(parts, self._brought):
            waiting += graphs
            if plan:
                self._graph_cache.run(*waiting)
                known |= side_by_side.queue(plan)
                waiting.clear()
        return known

    def _on_device(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """What lies there, by its name among the results: shape and type on the host."""
        shape = self.grid.shape
        return {
            "lost": ((self._hsbof._buffers.sum_groups, 2), np.float32),
            "masses": ((3, *shape), np.float32),
            "velocity": ((*shape, 2), np.float32),
            "velocity_covariance": ((*shape, 3), np.float32),
            "moving": (shape, np.bool_),
            "observation": (shape, np.float32),
            "observedness": (shape, np.float32),
            "surface": (shape, np.uint16),
        }

    def _fetch(self, name: str) -> Any:
        """A layer that was not brought with its frame."""
        start, results = 0, self._hsbof._buffers.results
        if name in _MASSES:
            start, name = _MASSES.index(name) * self.grid.size, "masses"
        elif name in ("observation", "observedness", "surface"):
            results = self._fusion.results
        shape, kind = self._layers[name]
        shape = shape[1:] if name == "masses" else shape
        return self.backend.download(results[name], start, math.prod(shape)).view(kind).reshape(shape)

    def forget(self) -> None:
        self._motion = GridMotion()
        self._fusion.forget()
        self._registration.forget()
        self._hsbof.forget()

    def forget_motion(self, gap: float) -> None:
        self._registration.forget()
        self._hsbof.forget_motion(gap)


def _brought(wanted: frozenset[str]) -> tuple[str, ...]:
    """The layers that every frame brings to the host, for who wants these parts of it."""
    parts = {
        "masses": ("masses",),
        "velocity": ("velocity", "velocity_covariance"),
        "observation": ("observation", "observedness"),
    }
    layers = [name for part, names in parts.items() if part in wanted for name in names]
    # Objects are made of all of them and the surface, but only where something moves.
    return ("lost", "moving", *layers, *(("surface",) if wanted >= {*parts, "objects"} else ()))
