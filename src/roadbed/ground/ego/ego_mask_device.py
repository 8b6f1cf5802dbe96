# SPDX-License-Identifier: Apache-2.0
"""The ego mask on an accelerator: points on the ego vehicle become missing returns, and the host gets the mask."""

from typing import Any

import numpy as np

from roadbed.config.shared import VehicleConfig
from roadbed.ground.ego.ego_mask import ACROSS, ALONG, CELLS, LOW, PER_METRE
from roadbed.ground.engine import EgoPoints, EgoQuery
from roadbed.ground.stcrf.buffers import Buffers
from roadbed.ground.stcrf.model import FRAME
from roadbed.runtime.argument_struct import ArgumentStruct
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Launch
from roadbed.runtime.program import Program

_GROUP = 256
_MOST_SCANS = 2**31 - 1


def program(config: VehicleConfig) -> Program:
    """An exact program: a point on a border is on the same side as on the CPU."""
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


class EgoMaskDevice:
    """`ask` writes a query into the frame of slot 0, `graph` runs it before the frame's other kernels, `fetch` queues
    the copies of the result, and `answer` reads them. The program is built at the first query.
    """

    def __init__(self, backend: Backend, config: VehicleConfig, buffers: Buffers, frames: ArgumentStruct) -> None:
        self._backend, self._config, self._buffers = backend, config, buffers
        self._record, array = frames.records[0], frames.array
        self._pose, self._box = array["ego_pose"][0], array["ego_box"][0]
        self._program: Any = None
        self._graph: CommandGraph | None = None
        self._capacity = self._scan = 0
        self._asked: EgoQuery | None = None
        self._count = 0

    def ask(self, query: EgoQuery) -> None:
        """Set the query of a scan whose frame is already written; the points that remain go to the input buffer."""
        self._reserve()
        record, self._asked = self._record, query
        self._count, self._pose[:] = record.count, query.T_vehicle_sensor.numbers
        record.ego_masked, record.ego_scan = query.box is not None, 0
        if query.box is not None:
            self._box[:], record.points = query.box, 0
        if query.counts_cells:
            self._scan = self._scan % _MOST_SCANS + 1  # cells hold the scan number and need not be cleared
            record.ego_scan = self._scan

    @property
    def graph(self) -> CommandGraph:
        """The command graph, recorded again when buffers have grown."""
        assert self._graph is not None
        return self._graph

    def fetch(self) -> None:
        """Queue the copies of the result to the host."""
        assert self._asked is not None
        if self._asked.box is not None:
            self._backend.fetch(self._mask, 0, self._count)
        if self._asked.counts_cells:
            self._backend.fetch(self._cells, 0, CELLS[0] * CELLS[1])

    def answer(self, found: EgoPoints) -> None:
        """Write the result to `found`, in new arrays."""
        assert self._asked is not None
        if self._asked.box is not None:
            mask = self._mask.host[0, : self._count].view(np.bool_)
            found.points = mask.copy() if mask.any() else None
        if self._asked.counts_cells:
            found.cells = self._cells.host[0] == self._scan

    def _reserve(self) -> None:
        backend, buffers = self._backend, self._buffers
        if self._program is None:
            self._program = backend.build(program(self._config))
            self._cells = backend.output((buffers.slots, *CELLS), np.int32)
            self._cells.host[...] = 0
        if buffers.capacity > self._capacity:
            self._mask = backend.output((buffers.slots, buffers.capacity), np.uint8)
            self._capacity = buffers.capacity
            self._graph = backend.graph(self._program, [self._launch()])

    def _launch(self) -> Launch:
        b, device = self._buffers, self._backend.device
        arguments = b.frames, b.input_buffer, self._mask.buffer, self._cells.buffer, np.int32(b.capacity)
        shape = (max(1, min(-(-b.capacity // _GROUP), 4 * device.units)), _GROUP)
        return Launch("mask_ego", *(shape if device.lanes > 1 else (32 * device.units, 1)), arguments, b.slots)
