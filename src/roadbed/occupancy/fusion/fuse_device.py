# SPDX-License-Identifier: Apache-2.0
"""Multi-sensor fusion on an accelerator: one launch pools the reports and what silent sensors still watch."""

from __future__ import annotations

from typing import Any

import numpy as np

from roadbed.config.occupancy import FusionConfig
from roadbed.occupancy.arrays import Cells, Observation, Reports
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.fusion.fuse import RULES
from roadbed.occupancy.programs import FUSE, GROUP, OPINION, POOL, check_device, groups_over
from roadbed.occupancy.registration.scan_history import Watched, WatchedGrids
from roadbed.runtime import primitives
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Launch
from roadbed.runtime.packed_outputs import PackedOutputs


class FusionDevice:
    """`fuse.Fusion` on a device; its result lies in buffers that are used again in the next step."""

    def __init__(self, backend: Backend, cells: Cells, config: FusionConfig | None = None, clip: float = 0.05) -> None:
        check_device(backend.device)
        self.backend, self.cells, self.config = backend, cells, config or FusionConfig()
        self.clip = clip
        self._watched: WatchedGrids[int] = WatchedGrids(self.config)  # by their place in `_grids`
        self._program = backend.build(FUSE)
        size = cells.rows * cells.columns
        kinds = {"observation": np.float32, "observedness": np.float32, "surface": np.uint16}
        self.results = PackedOutputs(backend, {name: (size, kind) for name, kind in kinds.items()})
        self.fused = Observation(*(self.results[name] for name in kinds))
        self._pool = backend.staging_buffer(POOL.itemsize)
        self._told: tuple = ()  # the sensors that the kernels know to report, and their grids
        self._room = 0  # sensors
        self._grids: Any = None  # (room, rows, columns) float32
        self._reserve(1)

    def forget(self) -> None:
        self._watched.forget()

    def move(self, motion: GridMotion) -> None:
        """The grid has moved; what was watched stays where it is."""
        self._watched.move(motion)

    def __call__(self, time: float, reports: Reports) -> Observation:
        """All sensors together: those that report now, and the silent ones."""
        self.prepare(time, reports).run()
        return self.fused

    def prepare(self, time: float, reports: Reports) -> CommandGraph:
        """The graph that pools them; its result lies in `fused`."""
        silent, sensors = self._watched.silent(time, reports.sensors), reports.sensors
        grids = self._places(sensors)
        if silent or self._told != (sensors, grids):
            self._tell(sensors, grids, silent)
        for sensor, grid in zip(sensors, grids):
            self._watched.remember(time, sensor, grid)
        return self._graph(reports)

    def _tell(self, sensors: tuple[str, ...], grids: list[int], silent: list[tuple[float, Watched[int]]]) -> None:
        """Post who reports and who is silent; while the same sensors report every time, the kernels know already."""
        self._told = () if silent else (sensors, grids)
        opinions = np.zeros(self._room, OPINION)
        opinions["trust"][: len(sensors)] = [self._watched.trust(sensor) for sensor in sensors]
        opinions["grid"][: len(sensors)] = grids
        for k, (fading, item) in enumerate(silent, start=len(sensors)):
            opinions[k] = (1.0, item.grid, fading, *self._motion(item))
        rule, cells = RULES[self.config.rule], self.cells
        pool = np.array((self.clip, rule, len(sensors), len(silent), cells.rows, cells.columns), POOL)
        self.backend.enqueue(pool.reshape(1), self._pool)
        self.backend.enqueue(opinions, self._opinions)

    def _motion(self, item: Watched[int]) -> tuple:
        """From cells of now to cells of then, as an opinion holds it."""
        if item.motion.cells is not None:
            return 0, *item.motion.cells, np.zeros(4), np.zeros(2)
        rotation, shift = item.motion.between_centres(self.cells.spacing)
        return 1, 0, 0, rotation.ravel(), shift

    def _places(self, sensors: tuple[str, ...]) -> list[int]:
        """Where each sensor's grid is remembered: where its last one is, else where nothing is."""
        places, taken = [self._watched.grid_of(sensor) for sensor in sensors], self._watched.grids()
        self._reserve(len(taken) + places.count(None))
        free = (place for place in range(self._room) if place not in taken)
        return [next(free) if place is None else place for place in places]

    def _reserve(self, sensors: int) -> None:
        """Room for the grids of so many sensors; what is remembered moves along."""
        if sensors <= self._room:
            return
        backend, size = self.backend, self.cells.rows * self.cells.columns
        room = max(sensors, 2 * self._room)
        grids = backend.zeros(room * size, np.float32)
        if self._room:
            step = primitives.copy(self._grids, grids, self._room * size)
            backend.graph(primitives.build(backend), [step]).run()
            backend.finish()  # before the old grids are dropped
        self._grids, self._room = grids, room
        self._opinions = backend.staging_buffer(room * OPINION.itemsize)
        self._recorded: tuple | None = None
        self._told = ()

    def _graph(self, reports: Reports) -> CommandGraph:
        given = reports[1:]
        if self._recorded is None or any(a is not b for a, b in zip(self._recorded[0], given)):
            groups = groups_over(self.backend, self.cells.rows * self.cells.columns)
            arguments = (self._pool, self._opinions, *given, self._grids, *self.fused)
            graph = self.backend.graph(self._program, [Launch("pool", groups, GROUP, arguments)])
            self._recorded = given, graph
        return self._recorded[1]
