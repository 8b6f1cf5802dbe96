# SPDX-License-Identifier: Apache-2.0
"""The occlusion filter on an accelerator."""

import numpy as np

from roadbed.ground.engine import SensorViews
from roadbed.ground.stcrf.buffers import Buffers
from roadbed.ground.visibility import model
from roadbed.ground.visibility.model import VisibilityModel, borders, program, table_words
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Launch

_PER_POINT = 9  # work-items per point in neighbour searches on a GPU: see squares.cl


class VisibilityDevice:
    """`set_views` sets the sensor origins of a slot's scan; `graph` then marks points in `buffers.non_ground`.

    The program is built at the first scan that is not dense. Points and lists use buffers that the frame's own kernels
    overwrite later.
    """

    def __init__(self, backend: Backend, config: VisibilityModel, buffers: Buffers) -> None:
        self._backend, self._config, self._buffers = backend, config, buffers
        self._sensors = self._capacity = 0  # allocated
        self._sent: list[bytes] = [b""] * buffers.slots  # rotation and origins of each slot on the device
        self._graph: CommandGraph | None = None

    def set_views(self, views: SensorViews, slot: int) -> None:
        """Set the sensors of a slot's scan; only changes are uploaded."""
        if len(views.origins) > self._sensors:
            self._reserve(len(views.origins))
        if self._buffers.capacity > self._capacity:
            total = self._buffers.slots * self._buffers.capacity
            self._sensor = self._backend.zeros(total, np.uint16)
            self._seen = self._backend.zeros(2 * total, np.float64)
            self._capacity, self._graph = self._buffers.capacity, None  # only now: the allocations may fail
        numbers = views.rotation.tobytes() + views.origins.tobytes()
        if numbers != self._sent[slot]:
            self._sent[slot] = numbers
            self._backend.upload(np.frombuffer(numbers), self._views, self._start_of(slot))
        if len(views.origins) > 1:
            assert views.sensor is not None
            self._backend.upload(views.sensor, self._sensor, slot * self._capacity)

    @property
    def graph(self) -> CommandGraph:
        """The command graph, recorded again when buffers have grown."""
        if self._graph is None:
            self._graph = self._backend.graph(self._program, self._launches())
        return self._graph

    def _reserve(self, sensors: int) -> None:
        backend, slots = self._backend, self._buffers.slots
        self._program = backend.build(program(self._config, sensors))
        self._tables = backend.zeros(slots * table_words(self._config, sensors), np.int32)
        self._sensors, self._graph = sensors, None
        views = np.zeros(self._start_of(slots))
        views[: self._start_of(0)] = borders(self._config.directions).ravel()
        for slot, numbers in enumerate(self._sent):
            views[self._start_of(slot) :][: len(numbers) // 8] = np.frombuffer(numbers)
        self._views = backend.upload(views)

    def _start_of(self, slot: int) -> int:
        """Index of a slot's views, which follow the borders of directions."""
        return 3 * (self._config.directions + 1) + slot * (9 + 3 * self._sensors)

    def _launches(self) -> list[Launch]:
        b, device = self._buffers, self._backend.device
        runs = 32 * device.units, 1

        def over_points(per_point: int) -> tuple[int, int]:
            """Groups and their size, with `per_point` work-items per point."""
            groups = max(1, min(-(-b.capacity // (model.GROUP // per_point)), 4 * device.units))
            return (groups, model.GROUP) if device.lanes > 1 else runs

        cells = self._sensors * self._config.directions
        over_directions = (cells, model.DIRECTION_GROUP) if device.lanes > 1 else runs
        capacity = np.int32(b.capacity)
        located, next_entry = b.located, b.rank
        points = b.frames, b.input_buffer, self._views, self._sensor
        known = b.frames, self._views, located
        found = b.non_ground, next_entry, self._tables, capacity
        steps = (
            ("find_directions", over_points(1), (*points, located, self._seen, *found)),
            ("find_lone", over_directions, (b.frames, self._seen, b.non_ground, self._tables, capacity)),
            ("mark_directions", over_directions, (*known, self._seen, *found)),
            ("release_road", over_points(_PER_POINT), (*known, self._seen, *found)),
            ("grow_non_ground", over_points(_PER_POINT), (*known, *found)),
        )
        return [Launch(kernel, *shape, arguments, b.slots) for kernel, shape, arguments in steps]
