# SPDX-License-Identifier: Apache-2.0
"""The observation grids of a scan's sensors on an accelerator: all sensors in the same launches, equal to the CPU's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.compute.backend import Backend, Launch, OnDevice, Tape, check_points
from roadbed.config import Config
from roadbed.errors import InputError
from roadbed.geometry import Lattice
from roadbed.occupancy.arrays import GridShape
from roadbed.occupancy.engine import GroundSurface, OccupancyInput, SensorView
from roadbed.occupancy.observe import grid_shape, reach_of
from roadbed.occupancy.programs import (
    GROUP,
    NO_HIGHEST,
    NO_LOWEST,
    NO_PASSING,
    OBSERVE,
    RAY_GROUP,
    VIEW,
    check_device,
    groups_over,
)  # fmt: skip
from roadbed.occupancy.rules import SensorModel

_NOBODYS = 255  # sensor of a point that is not used
_BYTES_PER_POINT = 12 + 4 + 1


class Reports(NamedTuple):
    """What each sensor of a scan says, in device buffers that are used again for the next scan."""

    sensors: tuple[str, ...]
    probability: Any  # (sensors, rows, columns) float32
    observedness: Any  # (sensors, rows, columns) float32
    surface: Any  # (sensors, rows, columns) uint16


class ObserveDevice:
    """`observer(given)` queues the observation of a scan by each of its sensors; nothing returns to the host."""

    def __init__(self, backend: Backend, config: Config, lattice: Lattice) -> None:
        check_device(backend)
        self.backend, self.config, self._cells = backend, config, lattice.size
        self._program = backend.build(OBSERVE)
        self._frame = 0
        self._sensors = self._points = self._bins = self._nodes = 0  # room there is, the last two per sensor
        self._tapes: dict[tuple, tuple[Tape, tuple]] = {}  # with the buffers of the caller that they read

    def __call__(self, given: OccupancyInput) -> Reports:
        views = given.sensors
        models = self._models(given)
        self._reserve(given, models)
        points, heights = (self._readable(a, i) for a, i in zip((given.points, given.heights), self._intakes))
        layers = self._layers(given.surface)
        self._frame += 1
        self._post(given, models, points, heights)
        faces = any(model.face > 0 for model in models)
        self._tape(len(views), models[0].azimuth_bins, faces, (points.buffer, heights.buffer, layers)).run()
        return Reports(tuple(view.name for view in views), self.probability, self.observedness, self.surface)

    def _models(self, given: OccupancyInput) -> list[SensorModel]:
        lattice = given.lattice
        reaches = (reach_of(view, lattice, given.T_lattice_grid) for view in given.sensors)
        return [
            SensorModel.of(self.config, lattice.spacing, reach, len(view.points))
            for view, reach in zip(given.sensors, reaches)
        ]

    def _readable(self, array: Any, intake: Any) -> OnDevice:
        """An array of the host or of another library is offered to the kernels; what lies on the device stays."""
        return array if isinstance(array, OnDevice) else OnDevice(intake, self.backend.offer(array, intake))

    def _layers(self, surface: GroundSurface) -> Any:
        """Elevation, slope (x, y) and variance one after the other, as the ground's engines lay them."""
        if isinstance(surface.elevation, OnDevice):
            return surface.elevation.buffer
        start = 0
        for layer in (surface.elevation, surface.slope, surface.variance):
            flat = np.ascontiguousarray(layer, np.float32).reshape(-1)
            self.backend.upload(flat, self._ground, start)
            start += flat.size
        return self._ground

    def _post(self, given: OccupancyInput, models: Sequence[SensorModel], points: OnDevice, heights: OnDevice) -> None:
        pose, surface, count = given.T_lattice_sensor, given.surface, _length(given.points)
        ground, everything = surface.lattice, len(given.sensors) == 1 and len(given.sensors[0].points) == count
        belongs = 0 if everything else self.backend.offer(_belonging(given.sensors, count), self._belongs)
        records = np.zeros(self._sensors, VIEW)
        for k, (view, model) in enumerate(zip(given.sensors, models)):
            records[k] = (
                points.address, heights.address, belongs,
                pose.rotation.ravel(), pose.translation, view.origin, surface.plane,
                ground.x0, ground.y0, ground.spacing, ground.columns, ground.rows,
                count, everything, self._frame, k * self._bins, k * self._cells, k * self._nodes,
                *self._shape(given), *model,
            )  # fmt: skip
        self.backend.post(records, self._views)

    def _shape(self, given: OccupancyInput) -> GridShape:
        return grid_shape(given.lattice, given.T_lattice_grid)

    def _reserve(self, given: OccupancyInput, models: Sequence[SensorModel]) -> None:
        """Room for this scan; buffers that grow begin empty, as every scan leaves them."""
        sensors, points, nodes = len(given.sensors), _length(given.points), given.surface.lattice.size
        bins = max(model.azimuth_bins * model.range_bins for model in models)
        if sensors >= _NOBODYS:
            raise InputError(f"scan of {sensors} sensors: expected fewer than {_NOBODYS}")
        backend, zeros = self.backend, self.backend.zeros
        if points > self._points or not self._points:
            self._points = max(points + points // 4, 4096)
            check_points(backend.device, points, self._points * _BYTES_PER_POINT)
            intakes = (backend.intake((self._points, 3), np.float32), backend.intake(self._points, np.float32))
            self._intakes, self._belongs = intakes, backend.intake(self._points, np.uint8)
            self._tapes.clear()
        if sensors > self._sensors or bins > self._bins or nodes > self._nodes:
            self._sensors, self._nodes = max(sensors, self._sensors), max(nodes, self._nodes)
            self._bins = bins + bins // 8 if bins > self._bins else self._bins
            table, cells = self._sensors * self._bins, self._sensors * self._cells
            self._views = backend.mailbox(self._sensors * VIEW.itemsize)
            self._ground = zeros(4 * self._nodes, np.float32)
            self._doubted = zeros(self._sensors * self._nodes, np.int32)
            empty = (NO_PASSING, NO_PASSING, NO_LOWEST, NO_HIGHEST)
            self._tables = tuple(backend.upload(np.full(table, value)) for value in empty)
            self._passing, self._beneath = zeros(table, np.float32), zeros(table, np.float32)
            self._weights, self._marks = zeros(cells, np.int32), zeros(cells, np.uint32)
            self.probability, self.observedness = (zeros(cells, np.float32) for _ in range(2))
            self.surface = zeros(cells, np.uint16)
            self._tapes.clear()

    def _tape(self, sensors: int, rays: int, faces: bool, buffers: tuple) -> Tape:
        """Recorded once per number of sensors and set of buffers that the caller's arrays lie in."""
        key = (sensors, rays, faces, *(id(buffer) for buffer in buffers))
        if key not in self._tapes:
            tape = self.backend.tape(self._program, self._launches(sensors, rays, faces, *buffers))
            self._tapes[key] = tape, buffers  # which thus stay alive, and keep their id
        return self._tapes[key][0]

    def _launches(self, sensors: int, rays: int, faces: bool, points: Any, heights: Any, layers: Any) -> list[Launch]:
        views, belongs = self._views, self._belongs
        over_points, over_cells = groups_over(self.backend, self._points), groups_over(self.backend, self._cells)
        table, cover, *bounds = self._tables
        steps = []
        if faces:
            doubt = (views, points, heights, belongs, *bounds, self._doubted)
            steps.append(Launch("bound_bins", over_points, GROUP, (views, points, belongs, *bounds)))
            steps.append(Launch("doubt_ground", over_points, GROUP, doubt))
        counted = (self._weights, self._marks)
        seen = (points, heights, belongs, layers, *bounds, self._doubted)
        swept = (self._passing, self._beneath)
        reports = (self.probability, self.observedness, self.surface)
        collect = (views, *seen, table, cover, *counted)
        sweep = (views, table, cover, *bounds, *swept)
        judge = (views, layers, self._doubted, *swept, *counted, *reports)
        along_ray = 1 if self.backend.device.lanes == 1 else RAY_GROUP
        return [
            *steps,
            Launch("collect", over_points, GROUP, collect),
            Launch("sweep_rays", rays, along_ray, sweep, sensors),
            Launch("judge_cells", over_cells, GROUP, judge, sensors),
        ]


def _length(array: Any) -> int:
    return array.count if isinstance(array, OnDevice) else int(array.shape[0])


def _belonging(views: Sequence[SensorView], count: int) -> NDArray[np.uint8]:
    belongs = np.full(count, _NOBODYS, np.uint8)
    for k, view in enumerate(views):
        belongs[view.points] = k
    return belongs
