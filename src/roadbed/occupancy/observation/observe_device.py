# SPDX-License-Identifier: Apache-2.0
"""The observation grids of a scan's sensors on an accelerator: all sensors in the same launches, equal to the CPU's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.device_arrays import DeviceArray
from roadbed.core.errors import InputError
from roadbed.core.geometry import Grid
from roadbed.occupancy.arrays import Reports
from roadbed.occupancy.engine import GroundSurface, OccupancyInput, SensorView
from roadbed.occupancy.model import NOBODYS
from roadbed.occupancy.observation.observe import grid_shape, reach_of
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
from roadbed.runtime.argument_struct import ArgumentStruct
from roadbed.runtime.backend import Backend
from roadbed.runtime.device_errors import check_points
from roadbed.runtime.graphs import CommandGraph, Launch

_BYTES_PER_POINT = 12 + 4 + 1
_MOST_TAPES = 16  # recorded at a time, for different callers


class ObserveDevice:
    """`observer(given)` queues the observation of a scan by each of its sensors; nothing returns to the host.

    `prepare` does all but running the graph that it gives beside the reports.
    """

    def __init__(self, backend: Backend, config: Config, grid: Grid) -> None:
        check_device(backend.device)
        self.backend, self.config, self._cells = backend, config, grid.size
        self._program = backend.build(OBSERVE)
        self._frame = 0
        self._sensors = self._points = self._bins = self._nodes = 0  # room there is, the last two per sensor
        self._models: dict[tuple[int, bool], SensorModel] = {}  # by their kind
        self._elsewhere = backend.zeros(1, np.float32)  # stands for what kernels read by its address
        self._graphs: dict[tuple, tuple[CommandGraph, tuple]] = {}  # with the buffers of the caller that they read

    def __call__(self, given: OccupancyInput) -> Reports:
        reports, graph = self.prepare(given)
        graph.run()
        return reports

    def prepare(self, given: OccupancyInput) -> tuple[Reports, CommandGraph]:
        views = given.sensors
        models = [self._model(given, view) for view in views]
        self._reserve(given, models)
        points, heights = (self._readable(a, i) for a, i in zip((given.points, given.heights), self._input_buffers))
        layers = self._layers(given.surface)
        self._frame += 1
        self._enqueue_arguments(given, models, (points.address, heights.address), layers.address)
        faces = any(model.face > 0 for model in models)
        buffers = (points.buffer, heights.buffer, layers.buffer)
        graph = self._graph(len(views), models[0].azimuth_bins, faces, buffers)
        return Reports(tuple(view.name for view in views), *self._reports), graph

    def _model(self, given: OccupancyInput, view: SensorView) -> SensorModel:
        """The same for a sensor scan after scan: only the cells to the grid's farthest corner change a little."""
        spacing, reach = given.grid.spacing, reach_of(view, given.grid, given.T_ground_grid)
        kind = SensorModel.kind(self.config.occupancy.observation, spacing, reach, view.count)
        if kind not in self._models:
            self._models[kind] = SensorModel.of(self.config, spacing, reach, view.count)
        return self._models[kind]

    def _readable(self, array: Any, input_buffer: Any) -> DeviceArray:
        """An array of the host or of another library is offered to the kernels; what lies on the device stays."""
        if not isinstance(array, DeviceArray):
            return DeviceArray(input_buffer, self.backend.bind(array, input_buffer))
        return DeviceArray(input_buffer, array.address) if array.address else array

    def _layers(self, surface: GroundSurface) -> DeviceArray:
        """Elevation, slope (x, y) and variance one after the other, as the ground's engines lay them."""
        if isinstance(surface.elevation, DeviceArray):
            held = surface.elevation
            return DeviceArray(self._elsewhere, held.address) if held.address else held
        start = 0
        for layer in (surface.elevation, surface.slope, surface.variance):
            flat = np.ascontiguousarray(layer, np.float32).reshape(-1)
            self.backend.upload(flat, self._ground, start)
            start += flat.size
        return DeviceArray(self._ground)

    def _enqueue_arguments(
        self, given: OccupancyInput, models: Sequence[SensorModel], addresses: tuple[int, int], layers: int
    ) -> None:
        numbers, surface, count = given.T_ground_sensor.numbers, given.surface, _length(given.points)
        ground, first = surface.grid, given.sensors[0]
        everything = len(given.sensors) == 1 and (first.points is None or first.count == count)
        belonging, belongs = given.belongs, 0
        if belonging is None and not everything:
            belonging = _belonging(given.sensors, count)
        if belonging is not None:
            belongs, everything = self.backend.bind(belonging, self._belongs), False
        plane, grid = surface.plane.tolist(), grid_shape(given.grid, given.T_ground_grid)
        for k, (view, model) in enumerate(zip(given.sensors, models)):
            self._argument_struct.write(
                k, *addresses, belongs, layers,
                *numbers, *view.origin, *plane,
                ground.x0, ground.y0, ground.spacing, ground.columns, ground.rows,
                count, everything, self._frame, k * self._bins, k * self._cells, k * self._nodes,
                *grid, *model,
            )  # fmt: skip
        self.backend.enqueue(self._argument_struct.array, self._views)

    def _reserve(self, given: OccupancyInput, models: Sequence[SensorModel]) -> None:
        """Room for this scan; buffers that grow begin empty, as every scan leaves them."""
        sensors, points, nodes = len(given.sensors), _length(given.points), given.surface.grid.size
        bins = max(model.azimuth_bins * model.range_bins for model in models)
        if sensors >= NOBODYS:
            raise InputError(f"scan of {sensors} sensors: expected fewer than {NOBODYS}")
        if points > self._points or not self._points:
            self._reserve_points(points)
        if sensors > self._sensors or bins > self._bins or nodes > self._nodes:
            wider = bins + bins // 8 if bins > self._bins else self._bins
            self._reserve_tables(max(sensors, self._sensors), wider, max(nodes, self._nodes))

    def _reserve_points(self, points: int) -> None:
        backend, room = self.backend, max(points + points // 4, 4096)
        check_points(backend.device, points, room * _BYTES_PER_POINT)
        input_buffers = (backend.input_buffer((room, 3), np.float32), backend.input_buffer(room, np.float32))
        self._belongs = backend.input_buffer(room, np.uint8)
        self._input_buffers, self._points = input_buffers, room
        self._graphs.clear()

    def _reserve_tables(self, sensors: int, bins: int, nodes: int) -> None:
        """All or nothing: without room for all of it the observer stays as it was."""
        backend, zeros = self.backend, self.backend.zeros
        views, cells = backend.staging_buffer(sensors * VIEW.itemsize), sensors * self._cells
        ground, doubted = zeros(4 * nodes, np.float32), zeros(sensors * nodes, np.int32)
        empty = (NO_PASSING, NO_PASSING, NO_LOWEST, NO_HIGHEST)
        tables = tuple(backend.upload(np.full(sensors * bins, value)) for value in empty)
        swept = (zeros(sensors * bins, np.float32), zeros(sensors * bins, np.float32))
        counted = (zeros(cells, np.int32), zeros(cells, np.uint32))
        reports = (zeros(cells, np.float32), zeros(cells, np.float32), zeros(cells, np.uint16))
        self._views, self._argument_struct = views, ArgumentStruct(VIEW, sensors)
        self._ground, self._doubted, self._tables = ground, doubted, tables
        self._swept, self._counted, self._reports = swept, counted, reports
        self._sensors, self._bins, self._nodes = sensors, bins, nodes
        self._graphs.clear()

    def _graph(self, sensors: int, rays: int, faces: bool, buffers: tuple) -> CommandGraph:
        """Recorded once per number of sensors and set of buffers that the caller's arrays lie in."""
        key = (sensors, rays, faces, *(id(buffer) for buffer in buffers))
        if key not in self._graphs:
            if len(self._graphs) >= _MOST_TAPES:
                self._graphs.clear()
            graph = self.backend.graph(self._program, self._launches(sensors, rays, faces, *buffers))
            self._graphs[key] = graph, buffers  # which thus stay alive, and keep their id
        return self._graphs[key][0]

    def _launches(self, sensors: int, rays: int, faces: bool, points: Any, heights: Any, given: Any) -> list[Launch]:
        views, belongs, elsewhere = self._views, self._belongs, given is self._elsewhere
        layers = self._ground if elsewhere else given
        over_points, over_cells = groups_over(self.backend, self._points), groups_over(self.backend, self._cells)
        table, cover, *bounds = self._tables
        steps = []
        if elsewhere:
            take = (views, given, layers)
            steps.append(Launch("take_layers", groups_over(self.backend, 4 * self._nodes), GROUP, take))
        if faces:
            doubt = (views, points, heights, belongs, *bounds, self._doubted)
            steps.append(Launch("bound_bins", over_points, GROUP, (views, points, belongs, *bounds)))
            steps.append(Launch("doubt_ground", over_points, GROUP, doubt))
        seen = (points, heights, belongs, layers, *bounds, self._doubted)
        swept, counted = self._swept, self._counted
        collect = (views, *seen, table, cover, *counted)
        sweep = (views, table, cover, *bounds, *swept)
        judge = (views, layers, self._doubted, *swept, *counted, *self._reports)
        along_ray = 1 if self.backend.device.lanes == 1 else RAY_GROUP
        return [
            *steps,
            Launch("collect", over_points, GROUP, collect),
            Launch("sweep_rays", rays, along_ray, sweep, sensors),
            Launch("judge_cells", over_cells, GROUP, judge, sensors),
        ]


def _length(array: Any) -> int:
    return array.count if isinstance(array, DeviceArray) else int(array.shape[0])


def _belonging(views: Sequence[SensorView], count: int) -> NDArray[np.uint8]:
    belongs = np.full(count, NOBODYS, np.uint8)
    for k, view in enumerate(views):
        belongs[view.points] = k
    return belongs
