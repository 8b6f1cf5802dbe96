# SPDX-License-Identifier: Apache-2.0
"""Many scans that stand alone, several at a time on one device, with transfers beside compute."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from roadbed.compute.backend import Backend
from roadbed.compute.opening import open_like
from roadbed.config.ground import GroundConfig
from roadbed.geometry import Lattice, Pose
from roadbed.ground.stcrf.cpu import Placement
from roadbed.ground.stcrf.device import StcrfDevice
from roadbed.ground.stcrf.method import StcrfResult

_ENGINES = 3  # one receives scans while another computes and a third hands results back
_SLOTS = 4  # scans that an engine computes at the same time


class BatchStcrf:
    """`run` takes (points, T_vehicle_sensor) pairs and gives results in their order; nothing is kept between scans."""

    def __init__(self, backend: Backend, config: GroundConfig, wanted: int | None = None) -> None:
        stcrf = config.stcrf
        self.lattice = Lattice.centred(stcrf.length, stcrf.width, stcrf.spacing)
        x_min, _, y_min, _ = self.lattice.extent
        self._corner = np.array([x_min, y_min, 0.0])
        # The vehicle stands at the origin, level.
        self._vehicle = np.array([-x_min, -y_min, 1, 0, 0, 0], np.float32)
        shape = self.lattice.shape
        self._engines = [StcrfDevice(open_like(backend), config, *shape, slots=_SLOTS) for _ in range(_ENGINES)]
        for engine in self._engines:
            for slot in range(_SLOTS):
                engine.select(self._vehicle, None, slot)
            if wanted is not None:
                engine.wanted = wanted

    def run(self, scans: Iterable[tuple[Any, Pose]]) -> Iterator[StcrfResult]:
        free: deque[StcrfDevice] = deque(self._engines)
        busy: deque[tuple[StcrfDevice, int]] = deque()
        group: list[tuple[Any, Pose]] = []
        for scan in scans:
            group.append(scan)
            if len(group) == _SLOTS:
                if not free:
                    yield from self._collect(free, busy)
                self._queue(free, busy, group)
                group = []
        if group:
            if not free:
                yield from self._collect(free, busy)
            self._queue(free, busy, group)
        while busy:
            yield from self._collect(free, busy)

    def _queue(self, free: deque, busy: deque, group: list[tuple[Any, Pose]]) -> None:
        engine = free.popleft()
        engine.reserve(max(int(points.shape[0]) for points, _ in group))
        for slot, (points, T_vehicle_sensor) in enumerate(group):
            offset = T_vehicle_sensor.translation - self._corner
            engine.sort(points, Placement(T_vehicle_sensor.rotation, offset, 0.0), slot)
        engine.frames["count"][len(group) :] = 0
        engine.estimate(False, 0.0)
        busy.append((engine, len(group)))

    def _collect(self, free: deque, busy: deque) -> Iterator[StcrfResult]:
        engine, scans = busy.popleft()
        for slot in range(scans):
            engine.queue_fetch(slot)
        engine.backend.finish()
        for slot in range(scans):
            label, probability, height = engine.per_point(slot)
            elevation, slope, variance = engine.surface(self.lattice, slot)
            yield StcrfResult(label, probability, height, elevation, slope, variance, {})
        free.append(engine)
