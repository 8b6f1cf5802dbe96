# SPDX-License-Identifier: Apache-2.0
"""The own vehicle in a scan on an accelerator: its points are left out there, and the host learns which they were."""

from __future__ import annotations

from typing import Any

import numpy as np

from roadbed.config.shared import VehicleConfig
from roadbed.ground.ego.ego_mask import ACROSS, ALONG, CELLS, LOW, PER_METRE
from roadbed.ground.engine import BodyQuestion, OwnVehicle
from roadbed.ground.stcrf.buffers import Buffers
from roadbed.ground.stcrf.model import FRAME
from roadbed.runtime.argument_struct import ArgumentStruct
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Launch
from roadbed.runtime.program import Program

_GROUP = 256
_MOST_LOOKS = 2**31 - 1


def program(config: VehicleConfig) -> Program:
    """Exact: a point on a border lies on the side where the CPU finds it."""
    definitions = {
        "GROUP": _GROUP,
        "ALONG": ALONG,
        "ACROSS": ACROSS,
        "LOW": LOW,
        "CLEARANCE": config.clearance,
        "PER_METRE": float(PER_METRE),
        "CELLS_ALONG": CELLS[0],
        "CELLS_ACROSS": CELLS[1],
    }
    return Program(("ground/ego/ego_mask.cl",), definitions, {"Frame": FRAME}, exact=True)


class OwnBodyDevice:
    """`ask` writes a question into the only frame of a drive; `graph` then answers it before the frame's other kernels,
    `fetch` brings the answer, and `answer` reads it once it is there. Nothing is built before the first question.
    """

    def __init__(self, backend: Backend, config: VehicleConfig, buffers: Buffers, frames: ArgumentStruct) -> None:
        self._backend, self._config, self._buffers = backend, config, buffers
        self._record, array = frames.records[0], frames.array
        self._pose, self._box = array["body_pose"][0], array["body_box"][0]
        self._program: Any = None
        self._graph: CommandGraph | None = None
        self._capacity = self._looks = 0
        self._asked: BodyQuestion | None = None
        self._count = 0

    def ask(self, question: BodyQuestion) -> None:
        """Of a scan that is described already; what is left of it lies in the input_buffer, if points are left out."""
        self._reserve()
        record, self._asked = self._record, question
        self._count, self._pose[:] = record.count, question.T_vehicle_sensor.numbers
        record.body_known, record.body_look = question.box is not None, 0
        if question.box is not None:
            self._box[:], record.points = question.box, 0
        if question.looks:
            self._looks = self._looks % _MOST_LOOKS + 1  # cells keep the number: none has to be cleared
            record.body_look = self._looks

    @property
    def graph(self) -> CommandGraph:
        """Recorded anew when buffers have grown."""
        assert self._graph is not None
        return self._graph

    def fetch(self) -> None:
        """Queue what brings the answer to the host."""
        assert self._asked is not None
        if self._asked.box is not None:
            self._backend.fetch(self._own, 0, self._count)
        if self._asked.looks:
            self._backend.fetch(self._met, 0, CELLS[0] * CELLS[1])

    def answer(self, found: OwnVehicle) -> None:
        """What was fetched, in arrays of the caller's own."""
        assert self._asked is not None
        if self._asked.box is not None:
            own = self._own.host[0, : self._count].view(np.bool_)
            found.points = own.copy() if own.any() else None
        if self._asked.looks:
            found.cells = self._met.host[0] == self._looks

    def _reserve(self) -> None:
        backend, buffers = self._backend, self._buffers
        if self._program is None:
            self._program = backend.build(program(self._config))
            self._met = backend.output((buffers.slots, *CELLS), np.int32)
            self._met.host[...] = 0
        if buffers.capacity > self._capacity:
            self._own = backend.output((buffers.slots, buffers.capacity), np.uint8)
            self._capacity = buffers.capacity
            self._graph = backend.graph(self._program, [self._launch()])

    def _launch(self) -> Launch:
        b, device = self._buffers, self._backend.device
        arguments = b.frames, b.input_buffer, self._own.buffer, self._met.buffer, np.int32(b.capacity)
        shape = (max(1, min(-(-b.capacity // _GROUP), 4 * device.units)), _GROUP)
        return Launch("find_own_body", *(shape if device.lanes > 1 else (32 * device.units, 1)), arguments, b.slots)
