# SPDX-License-Identifier: Apache-2.0
"""The occlusion filter on an accelerator."""

from __future__ import annotations

import numpy as np

from roadbed.ground.engine import SensorViews
from roadbed.ground.stcrf.buffers import Buffers
from roadbed.ground.visibility.model import (
    DIRECTION_GROUP,
    GROUP,
    MOST_RETURNS,
    VisibilityModel,
    borders,
    program,
    table_words,
)  # fmt: skip
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Launch

_ASKING = 9  # work-items that ask what is near a point on a GPU: see squares.cl


def can_find(backend: Backend, config: VisibilityModel) -> bool:
    """Whether the device computes as the CPU does, and has local memory for all returns of a direction."""
    return backend.device.has_double and config.room <= MOST_RETURNS


class VisibilityDevice:
    """`look` sets the sensor origins of a slot's scan; `graph` then marks points in `buffers.non_ground`.

    Nothing is built before the first scan that is not dense. Points and lists lie where the frame's own kernels will
    write later; what lies behind the sorted points those do read, so that it is left alone.
    """

    def __init__(self, backend: Backend, config: VisibilityModel, buffers: Buffers) -> None:
        self._backend, self._config, self._buffers = backend, config, buffers
        self._sensors = self._capacity = 0  # for which there is room
        self._told: list[bytes] = [b""] * buffers.slots  # of each slot: rotation, then origins
        self._graph: CommandGraph | None = None

    def look(self, views: SensorViews, slot: int) -> None:
        """The sensors of a slot's scan; only what has changed is sent."""
        if len(views.origins) > self._sensors:
            self._reserve(len(views.origins))
        if self._buffers.capacity > self._capacity:
            total = self._buffers.slots * self._buffers.capacity
            self._sensor = self._backend.zeros(total, np.uint16)
            self._seen = self._backend.zeros(2 * total, np.float64)
            self._capacity, self._graph = self._buffers.capacity, None  # once it is there: memory may be full
        sight = views.rotation.tobytes() + views.origins.tobytes()
        if sight != self._told[slot]:
            self._told[slot] = sight
            self._backend.upload(np.frombuffer(sight), self._sights, self._start_of(slot))
        if len(views.origins) > 1:
            assert views.sensor is not None
            self._backend.upload(views.sensor, self._sensor, slot * self._capacity)

    @property
    def graph(self) -> CommandGraph:
        """The kernels in order, recorded anew when buffers have grown."""
        if self._graph is None:
            self._graph = self._backend.graph(self._program, self._launches())
        return self._graph

    def _reserve(self, sensors: int) -> None:
        backend, slots = self._backend, self._buffers.slots
        self._program = backend.build(program(self._config, sensors))
        self._tables = backend.zeros(slots * table_words(self._config, sensors), np.int32)
        self._sensors, self._graph = sensors, None
        sights = np.zeros(self._start_of(slots))
        sights[: self._start_of(0)] = borders(self._config.directions).ravel()
        for slot, sight in enumerate(self._told):
            sights[self._start_of(slot) :][: len(sight) // 8] = np.frombuffer(sight)
        self._sights = backend.upload(sights)

    def _start_of(self, slot: int) -> int:
        """Where a slot's sensors are described, behind the borders of directions."""
        return 3 * (self._config.directions + 1) + slot * (9 + 3 * self._sensors)

    def _launches(self) -> list[Launch]:
        b, device = self._buffers, self._backend.device
        runs = 32 * device.units, 1

        def over_points(asking: int) -> tuple[int, int]:
            """So many work-items for a point."""
            groups = max(1, min(-(-b.capacity // (GROUP // asking)), 4 * device.units))
            return (groups, GROUP) if device.lanes > 1 else runs

        cells = self._sensors * self._config.directions
        over_directions = (cells, DIRECTION_GROUP) if device.lanes > 1 else runs
        capacity = np.int32(b.capacity)
        located, following = b.located, b.rank
        points = b.frames, b.input_buffer, self._sights, self._sensor
        known = b.frames, self._sights, located
        found = b.non_ground, following, self._tables, capacity
        steps = (
            ("find_directions", over_points(1), (*points, located, self._seen, *found)),
            ("mark_directions", over_directions, (*known, self._seen, *found)),
            ("release_road", over_points(_ASKING), (*known, self._seen, *found)),
            ("grow_non_ground", over_points(_ASKING), (*known, *found)),
        )
        return [Launch(kernel, *shape, arguments, b.slots) for kernel, shape, arguments in steps]
