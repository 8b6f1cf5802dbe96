# SPDX-License-Identifier: Apache-2.0
"""Registration on an accelerator: components, partners and shifts are found there, and the scan history stays there."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from roadbed.occupancy.arrays import Cells, Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.model import SUBCELLS
from roadbed.occupancy.programs import GROUP, groups_over
from roadbed.occupancy.registration.arrays import GridTransform, Registered
from roadbed.occupancy.registration.model import Pass, RegistrationModel, RegistrationRule
from roadbed.occupancy.registration.program import REGISTRATION_PASS, register_group, register_program
from roadbed.occupancy.registration.register import registration_passes, transform_of
from roadbed.occupancy.registration.scan_history import HISTORY_LENGTH, PastScan, ScanHistory
from roadbed.runtime import primitives
from roadbed.runtime.argument_struct import ArgumentStruct
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Concurrent, Launch, flattened

_MATURITY = 3  # index of the maturity among the filter's layers
_BOX = 5  # numbers that describe where a component lies
_CELLS_OF_WORD = 16  # in a line of a bitmap
_POINT_NUMBERS = 2 * 2 * 2  # per point compared: two scans, room for twice as many, x and y
_SCANS = HISTORY_LENGTH + 2  # those of the span, the one before them, and the present one


class RegistrationDevice:
    """`register.Registration` on a device; its result lies in the same buffers in every step.

    No two components touch a square of 2 x 2 cells, in which all are neighbours: there are at most as many of them as
    there are such squares, and that much memory is reserved, and some for the background.
    """

    def __init__(self, backend: Backend, cells: Cells, model: RegistrationModel) -> None:
        self.backend, self.cells, self.model = backend, cells, model
        self._history: ScanHistory[int] = ScanHistory(model.span)  # by their index in the buffers
        size, zeros = cells.rows * cells.columns, backend.zeros
        self._most = _most_components(cells.rows, cells.columns)
        label = backend.upload(np.full(size, -1, np.int32))
        self._slots, self._groups = _slots(backend), _groups(backend)
        velocity = backend.upload(np.full(2 * self._slots * self._most, np.nan, np.float32))
        self.registered = Registered(label, velocity, zeros(self._most, np.int32))
        if not model.enabled:
            return
        self._passes = backend.staging_buffer(len(Pass) * REGISTRATION_PASS.itemsize)
        self._arguments = ArgumentStruct(REGISTRATION_PASS, len(Pass))
        for kind, record in zip(Pass, self._arguments.records):
            record.rows, record.columns, record.most_components = cells.rows, cells.columns, self._most
            record.xx = record.yy = 1.0
            record.slots, record.slot = self._slots, self._slots - 1 if kind is Pass.FAST else 0
            for name, value in RegistrationRule.of(model, 1.0, cells.spacing, kind)._asdict().items():
                setattr(record, name, value)
        self._bitmaps = zeros(_SCANS * _bitmap_words(cells.rows, cells.columns), np.uint64)
        self._no_maturity = zeros(size, np.float32)
        self._labels, self._boxes = zeros(_SCANS * size, np.int32), zeros(_SCANS * self._most * _BOX, np.int32)
        self._counts = zeros(_SCANS, np.int32)
        self._parent, self._roots, self._before = (zeros(size, np.int32) for _ in range(3))
        self._root_boxes = zeros(size * _BOX, np.int32)  # of components with the background, at their first cells
        self._progress = zeros(primitives.scan_progress_size(size), np.int32)
        self._points = zeros(self._slots * self._groups * _POINT_NUMBERS * model.points, np.int32)
        self._group = register_group(backend.device)
        self._tickets = zeros(len(Pass), np.int32)  # next component of each pass
        self._programs = backend.build(register_program(self._group)), primitives.build(backend)
        self._recorded: tuple | None = None

    @staticmethod
    def bytes_needed(backend: Backend, rows: int, columns: int, model: RegistrationModel) -> int:
        """Device memory of the scan history, and of the points that work-groups compare."""
        if not model.enabled:
            return 0
        size, boxes = rows * columns, _most_components(rows, columns) * _BOX
        scans = _SCANS * (8 * _bitmap_words(rows, columns) + 4 * (size + boxes)) + 4 * (3 + _BOX) * size
        return scans + _slots(backend) * _groups(backend) * _POINT_NUMBERS * model.points * 4

    def forget(self) -> None:
        self._history.forget()

    def __call__(self, observation: Observation, dt: float, motion: GridMotion, layers: Any = None) -> Registered:
        """The motion of this scan's components; the grid moved by `motion` in the last `dt` seconds.

        `layers` are the filter's before that, which hold the maturity; without them no cell was static.
        """
        for graph in flattened(*self.prepare(observation, dt, motion, layers)):
            graph.run()
        return self.registered

    def prepare(
        self, observation: Observation, dt: float, motion: GridMotion, layers: Any = None
    ) -> tuple[CommandGraph | Concurrent, ...]:
        """The graphs that find it; the result lies in `registered`."""
        if not self.model.enabled:
            return ()
        passes = registration_passes(self._history, dt, motion, self.model)
        taken = self._history.stored()
        now = next(index for index in range(_SCANS) if index not in taken)
        prior = transform_of(motion, self.cells.spacing)
        maturity = 0 if layers is None else _MATURITY * self.cells.rows * self.cells.columns
        self._send(now, passes, prior, maturity)
        components, merge, *registrations = self._graphs(observation, self._no_maturity if layers is None else layers)
        self._history.store(now)
        kinds = [kind for _, kind in passes]
        if self._slots == 1 or Pass.FAST not in kinds:
            return components, *(registrations[kind] for kind in kinds)
        before, after = kinds[: kinds.index(Pass.FAST)], kinds[kinds.index(Pass.FAST) + 1 :]
        concurrent = Concurrent(tuple(registrations[kind] for kind in before), (registrations[Pass.FAST],))
        return components, concurrent, merge, *(registrations[kind] for kind in after)

    def _send(self, now: int, passes: list[tuple[PastScan[int], Pass]], prior: GridTransform, maturity: int) -> None:
        """What differs from scan to scan. The components read the first record, whether there is an old scan or not."""
        spacing, records = self.cells.spacing, self._arguments.records
        for r in records:
            r.now, r.maturity = now, maturity
            r.prior_xx, r.prior_xy, r.prior_yx, r.prior_yy, r.prior_x, r.prior_y = prior
        for old, kind in passes:
            r = records[kind]
            r.xx, r.xy, r.yx, r.yy, r.x, r.y = transform_of(old.motion, spacing)
            r.age = old.age
            r.reach, r.least, r.short_shift = RegistrationRule.shifts(self.model, old.age, spacing, kind)
            r.old, r.rolled = old.components, old.motion.cells is not None
        self.backend.enqueue(self._arguments.array, self._passes)

    def _graphs(self, observation: Observation, layers: Any) -> tuple[CommandGraph, ...]:
        """Recorded once for the buffers that the observation lies in."""
        given = (*observation, layers)
        if self._recorded is None or any(a is not b for a, b in zip(self._recorded[0], given)):
            program, collective = self._programs
            size = self.cells.rows * self.cells.columns
            groups, passes, found = groups_over(self.backend, size), self._passes, self.registered
            roots, boxes = (self._parent, self._roots), (self._boxes, self._root_boxes)
            emptied = (*boxes, found.velocity, found.cells, self._tickets)
            draw = (passes, *observation, self._bitmaps, self._parent, *emptied)
            number = (passes, *roots, self._before, self._labels, self._boxes, self._counts, found.label, found.cells)
            scan = primitives.scan(self._roots, self._before, self._progress, size)
            scanned = (self._progress, np.int32(primitives.scan_progress_size(size)))
            join = Launch("join_hits", groups, GROUP, (passes, self._parent))
            background = [
                join,
                Launch("measure_hits", groups, GROUP, (passes, self._parent, self._root_boxes)),
                Launch("leave_background", groups, GROUP, (passes, self._root_boxes, layers, self._parent)),
            ]
            components = [
                Launch("draw_bitmap", groups, GROUP, draw),
                Launch("draw_lines", groups, GROUP, (passes, self._bitmaps)),
                *(background if math.isfinite(self.model.background_time) else ()),
                join,
                Launch("find_roots", groups, GROUP, (passes, *roots, *scanned)),
                replace(scan, program=collective),
                Launch("number_hits", groups, GROUP, number),
            ]
            stored = (self._bitmaps, self._labels, self._boxes, self._counts)
            refine = (passes, *stored, self._points, self._tickets)
            register = (*refine, layers)
            kernels = {Pass.REFINED: ("refine_hits", refine)}
            registrations = [
                [Launch(name, self._groups, self._group, (*arguments, found.velocity, np.int32(kind)))]
                for kind in Pass
                for name, arguments in (kernels.get(kind, ("register_hits", register)),)
            ]
            merge = [Launch("merge_fast", groups, GROUP, (passes, self._counts, found.velocity))]
            graphs = tuple(self.backend.graph(program, one) for one in (components, merge, *registrations))
            self._recorded = given, graphs
        return self._recorded[1]


def _most_components(rows: int, columns: int) -> int:
    return -(-rows // 2) * -(-columns // 2) + 1


def _bitmap_words(rows: int, columns: int) -> int:
    """A word per cell, and the bitmap's lines."""
    return rows * (columns + 2 * SUBCELLS * -(-columns // _CELLS_OF_WORD))


def _slots(backend: Backend) -> int:
    """Where concurrent graphs cost nothing, the pass for fast objects runs concurrently, with memory of its own."""
    return 2 if backend.branches_are_free else 1


def _groups(backend: Backend) -> int:
    """Work-groups, which take one component after the other."""
    return 2 * backend.device.units
