# SPDX-License-Identifier: Apache-2.0
"""The observation grids of a scan's sensors on an accelerator, equal to the CPU's: all sensors in the same launches."""

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
from roadbed.occupancy.observation.model import NO_SENSOR, SensorModel
from roadbed.occupancy.observation.movers import MOST_MOVERS, MOVER, MOVER_STEP
from roadbed.occupancy.observation.observe import grid_shape, reach_of
from roadbed.occupancy.observation.program import NO_HIGHEST, NO_LOWEST, NO_PASSING, OBSERVE, RAY_GROUP, VIEW
from roadbed.occupancy.programs import GROUP, groups_over
from roadbed.runtime.argument_struct import ArgumentStruct
from roadbed.runtime.backend import Backend
from roadbed.runtime.device_errors import check_points
from roadbed.runtime.graphs import CommandGraph, Launch

_BYTES_PER_POINT = 12 + 4 + 1 + 4 + 12  # what is given, and the points of movers at the frame's time
_MOST_GRAPHS = 16  # recorded at a time


class ObserveDevice:
    """`prepare` returns the reports of a scan and the graph that computes them; nothing returns to the host."""

    def __init__(self, backend: Backend, config: Config, grid: Grid) -> None:
        self.backend, self.config, self._cells = backend, config, grid.size
        self._program = backend.build(OBSERVE)
        self._frame, self.layered = 0, True  # as on the CPU
        self._sensors = self._points = self._bins = self._nodes = 0  # capacity; the last two per sensor
        self._models: dict[tuple[int, bool], SensorModel] = {}  # by `SensorModel.kind`
        self._elsewhere = backend.zeros(1, np.float32)  # placeholder for layers that kernels read by address
        self._mover_step = backend.staging_buffer(MOVER_STEP.itemsize)
        self._movers = backend.staging_buffer(MOST_MOVERS * MOVER.itemsize)
        self._graphs: dict[tuple, tuple[CommandGraph, tuple]] = {}  # with the caller's buffers that they read

    def prepare(self, given: OccupancyInput) -> tuple[Reports, CommandGraph]:
        views = given.sensors
        models = [self._model(given, view) for view in views]
        self._reserve(given, models)
        points, heights = (self._readable(a, i) for a, i in zip((given.points, given.heights), self._inputs))
        layers = self._layers(given.surface)
        self._frame += 1
        moves = len(given.movers) > 0
        if moves:
            self._send_movers(given, points.address)
        self._send(given, models, (0 if moves else points.address, heights.address), layers.address)
        self.layered = any(model.layers_apart > 0 for model in models)
        faces = any(model.face > 0 for model in models)
        buffers = (points.buffer, heights.buffer, layers.buffer)
        graph = self._graph(len(views), models[0].azimuth_bins, (faces, moves), buffers)
        return Reports(tuple(view.name for view in views), *self._reports), graph

    def _model(self, given: OccupancyInput, view: SensorView) -> SensorModel:
        """Cached: from scan to scan only the range to the grid's farthest corner changes."""
        spacing, reach = given.grid.spacing, reach_of(view, given.grid, given.T_ground_grid)
        kind = SensorModel.kind(self.config.occupancy.observation, spacing, reach, view.count)
        if kind not in self._models:
            self._models[kind] = SensorModel.of(self.config, spacing, reach, view.count)
        return self._models[kind]

    def _readable(self, array: Any, input_buffer: Any) -> DeviceArray:
        """An array on the host or of another library is bound to the input buffer; one on the device stays there."""
        if not isinstance(array, DeviceArray):
            return DeviceArray(input_buffer, self.backend.bind(array, input_buffer))
        return DeviceArray(input_buffer, array.address) if array.address else array

    def _layers(self, surface: GroundSurface) -> DeviceArray:
        """Elevation, slope (x, y) and variance one after the other, as in the ground's engines."""
        if isinstance(surface.elevation, DeviceArray):
            held = surface.elevation
            return DeviceArray(self._elsewhere, held.address) if held.address else held
        start = 0
        for layer in (surface.elevation, surface.slope, surface.variance):
            flat = np.ascontiguousarray(layer, np.float32).reshape(-1)
            self.backend.upload(flat, self._ground, start)
            start += flat.size
        return DeviceArray(self._ground)

    def _send_movers(self, given: OccupancyInput, points: int) -> None:
        times = self.backend.bind(given.point_time, self._times)
        step = np.array((points, times, _length(given.points), len(given.movers)), MOVER_STEP)
        self.backend.enqueue(step.reshape(1), self._mover_step)
        self.backend.enqueue(given.movers, self._movers)

    def _send(
        self, given: OccupancyInput, models: Sequence[SensorModel], addresses: tuple[int, int], layers: int
    ) -> None:
        numbers, surface, count = given.T_ground_sensor.numbers, given.surface, _length(given.points)
        ground, first = surface.grid, given.sensors[0]
        everything = len(given.sensors) == 1 and (first.points is None or first.count == count)
        indices, sensor_index = given.sensor_index, 0
        if indices is None and not everything:
            indices = _sensor_indices(given.sensors, count)
        if indices is not None:
            sensor_index, everything = self.backend.bind(indices, self._sensor_index), False
        plane, grid = surface.plane.tolist(), grid_shape(given.grid, given.T_ground_grid)
        for k, (view, model) in enumerate(zip(given.sensors, models)):
            self._arguments.write(
                k, *addresses, sensor_index, layers,
                *numbers, *view.origin, *plane,
                ground.x0, ground.y0, ground.spacing, ground.columns, ground.rows,
                count, everything, self._frame, k * self._bins, k * self._cells, k * self._nodes,
                *grid, *model,
            )  # fmt: skip
        self.backend.enqueue(self._arguments.array, self._views)

    def _reserve(self, given: OccupancyInput, models: Sequence[SensorModel]) -> None:
        """Memory for this scan; new buffers are empty, as every scan leaves them."""
        sensors, points, nodes = len(given.sensors), _length(given.points), given.surface.grid.size
        bins = max(model.azimuth_bins * model.range_bins for model in models)
        if sensors >= NO_SENSOR:
            raise InputError(f"scan of {sensors} sensors: expected fewer than {NO_SENSOR}")
        if points > self._points or not self._points:
            self._reserve_points(points)
        if sensors > self._sensors or bins > self._bins or nodes > self._nodes:
            wider = bins + bins // 8 if bins > self._bins else self._bins
            self._reserve_tables(max(sensors, self._sensors), wider, max(nodes, self._nodes))

    def _reserve_points(self, points: int) -> None:
        backend, room = self.backend, max(points + points // 4, 4096)
        check_points(backend.device, points, room * _BYTES_PER_POINT)
        inputs = (backend.input_buffer((room, 3), np.float32), backend.input_buffer(room, np.float32))
        others = tuple(backend.input_buffer(room, kind) for kind in (np.uint8, np.float32))
        moved = backend.zeros(3 * room, np.float32)
        (self._sensor_index, self._times), self._moved = others, moved
        self._inputs, self._points = inputs, room
        self._graphs.clear()

    def _reserve_tables(self, sensors: int, bins: int, nodes: int) -> None:
        """All or nothing: if memory runs out the observer stays as it was."""
        backend, zeros = self.backend, self.backend.zeros
        views, cells = backend.staging_buffer(sensors * VIEW.itemsize), sensors * self._cells
        ground, unreliable = zeros(4 * nodes, np.float32), zeros(sensors * nodes, np.int32)
        empty = (NO_PASSING, NO_PASSING, NO_LOWEST, NO_HIGHEST)
        tables = tuple(backend.upload(np.full(sensors * bins, value)) for value in empty)
        swept = (zeros(sensors * bins, np.float32), zeros(sensors * bins, np.float32))
        bounds = (backend.upload(np.full(cells, value)) for value in (NO_LOWEST, NO_HIGHEST))
        counted = (zeros(cells, np.int32), zeros(cells, np.uint32), *bounds)
        reports = (zeros(cells, np.float32), zeros(cells, np.float32), zeros(cells, np.uint16))
        self._views, self._arguments = views, ArgumentStruct(VIEW, sensors)
        self._ground, self._unreliable, self._tables = ground, unreliable, tables
        self._swept, self._counted, self._reports = swept, counted, reports
        self._sensors, self._bins, self._nodes = sensors, bins, nodes
        self._graphs.clear()

    def _graph(self, sensors: int, rays: int, steps: tuple[bool, bool], buffers: tuple) -> CommandGraph:
        """Recorded once per number of sensors and set of the caller's buffers."""
        key = (sensors, rays, *steps, *(id(buffer) for buffer in buffers))
        if key not in self._graphs:
            if len(self._graphs) >= _MOST_GRAPHS:
                self._graphs.clear()
            graph = self.backend.graph(self._program, self._launches(sensors, rays, *steps, *buffers))
            self._graphs[key] = graph, buffers  # keeps them alive, and so their ids unique
        return self._graphs[key][0]

    def _launches(
        self, sensors: int, rays: int, faces: bool, moves: bool, points: Any, heights: Any, given: Any
    ) -> list[Launch]:
        views, sensor_index, elsewhere = self._views, self._sensor_index, given is self._elsewhere
        layers = self._ground if elsewhere else given
        over_points, over_cells = groups_over(self.backend, self._points), groups_over(self.backend, self._cells)
        table, cover, *bounds = self._tables
        steps = []
        if elsewhere:
            take = (views, given, layers)
            steps.append(Launch("take_layers", groups_over(self.backend, 4 * self._nodes), GROUP, take))
        if moves:
            carry = (self._mover_step, self._movers, points, self._times, self._moved)
            steps.append(Launch("move_points", over_points, GROUP, carry))
            points = self._moved
        if faces:
            doubt = (views, points, heights, sensor_index, *bounds, self._unreliable)
            steps.append(Launch("bound_bins", over_points, GROUP, (views, points, sensor_index, *bounds)))
            steps.append(Launch("mark_unreliable_ground", over_points, GROUP, doubt))
        seen = (points, heights, sensor_index, layers, *bounds, self._unreliable)
        swept, counted = self._swept, self._counted
        collect = (views, *seen, table, cover, *counted)
        sweep = (views, table, cover, *bounds, *swept)
        *report, surface = self._reports
        judge = (views, layers, self._unreliable, *swept, *counted, *report)
        along_ray = 1 if self.backend.device.lanes == 1 else RAY_GROUP
        return [
            *steps,
            Launch("collect", over_points, GROUP, collect),
            Launch("sweep_rays", rays, along_ray, sweep, sensors),
            Launch("find_surfaces", over_cells, GROUP, (views, *swept, *counted[1:], surface), sensors),
            Launch("apply_sensor_model", over_cells, GROUP, judge, sensors),
        ]


def _length(array: Any) -> int:
    return array.count if isinstance(array, DeviceArray) else int(array.shape[0])


def _sensor_indices(views: Sequence[SensorView], count: int) -> NDArray[np.uint8]:
    sensor_index = np.full(count, NO_SENSOR, np.uint8)
    for k, view in enumerate(views):
        sensor_index[view.points] = k
    return sensor_index
