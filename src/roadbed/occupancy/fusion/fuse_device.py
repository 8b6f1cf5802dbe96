# SPDX-License-Identifier: Apache-2.0
"""Multi-sensor fusion on an accelerator: one launch fuses the reports and the last observedness of silent sensors."""

from typing import Any

import numpy as np

from roadbed.config.occupancy import FusionConfig
from roadbed.occupancy.arrays import Cells, Observation, Reports
from roadbed.occupancy.fusion.fuse import RULES
from roadbed.occupancy.fusion.observed_grids import ObservedGrid, ObservedGrids
from roadbed.occupancy.fusion.program import FUSE, FUSION_STEP, SENSOR_PART
from roadbed.occupancy.programs import GROUP, groups_over
from roadbed.runtime import primitives
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Launch
from roadbed.runtime.packed_outputs import PackedOutputs


class FusionDevice(ObservedGrids[int]):
    """`fuse.Fusion` on a device; its result lies in buffers that are used again in the next step.

    The grid of a sensor is its index in `_layers`.
    """

    def __init__(self, backend: Backend, cells: Cells, config: FusionConfig | None = None, clip: float = 0.05) -> None:
        super().__init__(config or FusionConfig())
        self.backend, self.cells, self.clip = backend, cells, clip
        self._program = backend.build(FUSE)
        size = cells.rows * cells.columns
        kinds = {"observation": np.float32, "observedness": np.float32, "surface": np.uint16}
        self.results = PackedOutputs(backend, {name: (size, kind) for name, kind in kinds.items()})
        self.fused = Observation(*(self.results[name] for name in kinds))
        self._step = backend.staging_buffer(FUSION_STEP.itemsize)
        self._sent: tuple = ()  # the reporting sensors and their grids that the kernel knows of
        self._capacity = 0  # sensors
        self._layers: Any = None  # (capacity, rows, columns) float32
        self._reserve(1)

    def prepare(self, time: float, reports: Reports) -> CommandGraph:
        """The graph that fuses all sensors, those that report now and the silent ones; its result lies in `fused`."""
        silent, sensors = self.silent(time, reports.sensors), reports.sensors
        grids = self._grid_indices(sensors)
        if silent or self._sent != (sensors, grids):
            self._send(sensors, grids, silent)
        for sensor, grid in zip(sensors, grids):
            self.store(time, sensor, grid)
        return self._graph(reports)

    def _send(self, sensors: tuple[str, ...], grids: list[int], silent: list[tuple[float, ObservedGrid[int]]]) -> None:
        """Send who reports and who is silent; not needed while the same sensors report every time."""
        self._sent = () if silent else (sensors, grids)
        parts = np.zeros(self._capacity, SENSOR_PART)
        parts["reliability"][: len(sensors)] = [self.reliability(sensor) for sensor in sensors]
        parts["grid"][: len(sensors)] = grids
        for k, (fading, item) in enumerate(silent, start=len(sensors)):
            parts[k] = (1.0, item.grid, fading, *self._motion(item))
        rule, cells = RULES[self.config.rule], self.cells
        step = np.array((self.clip, rule, len(sensors), len(silent), cells.rows, cells.columns), FUSION_STEP)
        self.backend.enqueue(step.reshape(1), self._step)
        self.backend.enqueue(parts, self._parts)

    def _motion(self, item: ObservedGrid[int]) -> tuple:
        """From present cells to the sensor's, as a SENSOR_PART holds it."""
        if item.motion.cells is not None:
            return 0, *item.motion.cells, np.zeros(4), np.zeros(2)
        rotation, shift = item.motion.between_centres(self.cells.spacing)
        return 1, 0, 0, rotation.ravel(), shift

    def _grid_indices(self, sensors: tuple[str, ...]) -> list[int]:
        """Where each sensor's observedness is kept: where its last one is, else in a free grid."""
        known, taken = [self.grid_of(sensor) for sensor in sensors], self.grids()
        self._reserve(len(taken) + known.count(None))
        free = (index for index in range(self._capacity) if index not in taken)
        return [next(free) if index is None else index for index in known]

    def _reserve(self, sensors: int) -> None:
        """Memory for the grids of so many sensors; those in use are copied."""
        if sensors <= self._capacity:
            return
        backend, size = self.backend, self.cells.rows * self.cells.columns
        capacity = max(sensors, 2 * self._capacity)
        grids = backend.zeros(capacity * size, np.float32)
        if self._capacity:
            step = primitives.copy(self._layers, grids, self._capacity * size)
            backend.graph(primitives.build(backend), [step]).run()
            backend.finish()  # before the old grids are dropped
        self._layers, self._capacity = grids, capacity
        self._parts = backend.staging_buffer(capacity * SENSOR_PART.itemsize)
        self._recorded: tuple | None = None
        self._sent = ()

    def _graph(self, reports: Reports) -> CommandGraph:
        given = reports[1:]
        if self._recorded is None or any(a is not b for a, b in zip(self._recorded[0], given)):
            self._recorded = given, self.backend.graph(self._program, [self.launch(reports)])
        return self._recorded[1]

    def launch(self, reports: Reports) -> Launch:
        """The kernel that fuses them, after `prepare`."""
        groups = groups_over(self.backend, self.cells.rows * self.cells.columns)
        arguments = (self._step, self._parts, *reports[1:], self._layers, *self.fused)
        return Launch("fuse_cells", groups, GROUP, arguments, phase="fuse", program=self._program)
