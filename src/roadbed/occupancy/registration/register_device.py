# SPDX-License-Identifier: Apache-2.0
"""Registration on an accelerator: components, partners and shifts are found there, and stored scans stay there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from roadbed.config.occupancy import RegistrationConfig
from roadbed.occupancy.arrays import Between, Cells, Masses, Observation, Registered
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.model import SUBCELLS
from roadbed.occupancy.programs import (
    GROUP,
    LAYING,
    check_device,
    groups_over,
    register_group,
    register_program,
)
from roadbed.occupancy.registration.register import between_scans, pasts
from roadbed.occupancy.registration.scan_history import STORED, Stored, StoredScans
from roadbed.occupancy.rules import Laid, RegistrationRule
from roadbed.runtime import primitives
from roadbed.runtime.argument_struct import ArgumentStruct
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Concurrent, Launch, flattened

_MATURITY = Masses._fields.index("maturity")  # among the filter's layers
_BOX = 5  # numbers that describe where a component lies
_CELLS_OF_WORD = 16  # in a line of a picture
_POINT_NUMBERS = 2 * 2 * 2  # per point asked for: two scans, room for twice as many, x and y
_SLOTS = STORED + 2  # those of the span, the one it is laid over, and the one of now


class RegistrationDevice:
    """`register.Registration` on a device; its result lies in the same buffers in every step.

    No two components touch a square of 2 x 2 cells, in which all are neighbours: there are at most as many of them as
    there are such squares, and that much room is kept.
    """

    def __init__(self, backend: Backend, cells: Cells, config: RegistrationConfig) -> None:
        check_device(backend.device)
        self.backend, self.cells, self.config = backend, cells, config
        self._scans: StoredScans[int] = StoredScans(config.span)  # by their place in the buffers
        size, zeros = cells.rows * cells.columns, backend.zeros
        self._most = _most_components(cells.rows, cells.columns)
        label = backend.upload(np.full(size, -1, np.int32))
        self._rooms, self._groups = _rooms(backend), _groups(backend)
        self.registered = Registered(label, backend.upload(np.full(2 * self._rooms * self._most, np.nan, np.float32)))
        if not config.enabled:
            return
        self._laying, self._argument_struct = (
            backend.staging_buffer(len(Laid) * LAYING.itemsize),
            ArgumentStruct(LAYING, len(Laid)),
        )
        for laid, record in zip(Laid, self._argument_struct.records):
            record.rows, record.columns, record.most_components = cells.rows, cells.columns, self._most
            record.xx = record.yy = 1.0
            record.rooms, record.room = self._rooms, self._rooms - 1 if laid is Laid.FAST else 0
            for name, value in RegistrationRule.of(config, 1.0, cells.spacing, laid)._asdict().items():
                setattr(record, name, value)
        picture = _SLOTS * _picture_words(cells.rows, cells.columns)
        self._pictures, self._unknown = zeros(picture, np.uint64), zeros(size, np.float32)
        self._labels, self._boxes = zeros(_SLOTS * size, np.int32), zeros(_SLOTS * self._most * _BOX, np.int32)
        self._counts = zeros(_SLOTS, np.int32)
        self._parent, self._roots, self._before = (zeros(size, np.int32) for _ in range(3))
        self._progress = zeros(primitives.scan_progress_size(size), np.int32)
        self._points = zeros(self._rooms * self._groups * _POINT_NUMBERS * config.points, np.int32)
        self._group = register_group(backend.device)
        self._tickets = zeros(len(Laid), np.int32)  # whose turn it is
        self._programs = backend.build(register_program(self._group)), primitives.build(backend)
        self._recorded: tuple | None = None

    @staticmethod
    def bytes_needed(backend: Backend, rows: int, columns: int, config: RegistrationConfig) -> int:
        """Memory on the device of the scans remembered, and of the points that its work-groups compare."""
        if not config.enabled:
            return 0
        size, boxes = rows * columns, _most_components(rows, columns) * _BOX
        scans = _SLOTS * (8 * _picture_words(rows, columns) + 4 * (size + boxes)) + 3 * 4 * size
        return scans + _rooms(backend) * _groups(backend) * _POINT_NUMBERS * config.points * 4

    def forget(self) -> None:
        self._scans.forget()

    def __call__(self, observation: Observation, dt: float, motion: GridMotion, layers: Any = None) -> Registered:
        """The motion of this scan's connected hits; `dt` seconds ago the grid lay `motion` before.

        `layers` are the filter's of that grid, which know for how long cells have been static; without nothing stands.
        """
        for graph in flattened(*self.prepare(observation, dt, motion, layers)):
            graph.run()
        return self.registered

    def prepare(
        self, observation: Observation, dt: float, motion: GridMotion, layers: Any = None
    ) -> tuple[CommandGraph | Concurrent, ...]:
        """The graphs that find it; it lies in `registered`."""
        if not self.config.enabled:
            return ()
        over = pasts(self._scans, dt, motion, self.config)
        taken = self._scans.grids()
        now = next(place for place in range(_SLOTS) if place not in taken)
        before = between_scans(motion, self.cells.spacing)
        first = 0 if layers is None else _MATURITY * self.cells.rows * self.cells.columns
        self._enqueue_arguments(now, over, before, first)
        components, take_apart, *registrations = self._graphs(observation, self._unknown if layers is None else layers)
        self._scans.store(now)
        laid_over = [laid for _, laid in over]
        if self._rooms == 1 or Laid.FAST not in laid_over:
            return components, *(registrations[laid] for laid in laid_over)
        others = tuple(registrations[laid] for laid in laid_over if laid is not Laid.FAST)
        return components, Concurrent(others, (registrations[Laid.FAST],)), take_apart

    def _enqueue_arguments(
        self, now: int, over: list[tuple[Stored[int], Laid]], before: Between, maturity: int
    ) -> None:
        """What differs from scan to scan. The components ask the first record where this scan is stored."""
        spacing, records = self.cells.spacing, self._argument_struct.records
        records[Laid.OLD].now = now
        for old, laid in over:
            r = records[laid]
            r.xx, r.xy, r.yx, r.yy, r.x, r.y = between_scans(old.motion, spacing)
            r.before_xx, r.before_xy, r.before_yx, r.before_yy, r.before_x, r.before_y = before
            r.age, (r.reach, r.least) = old.age, RegistrationRule.shifts(self.config, old.age, spacing, laid)
            r.now, r.old, r.rolled, r.maturity = now, old.hits, old.motion.cells is not None, maturity
        self.backend.enqueue(self._argument_struct.array, self._laying)

    def _graphs(self, observation: Observation, layers: Any) -> tuple[CommandGraph, ...]:
        """Recorded once for the buffers that the observation lies in."""
        given = (*observation, layers)
        if self._recorded is None or any(a is not b for a, b in zip(self._recorded[0], given)):
            program, collective = self._programs
            size = self.cells.rows * self.cells.columns
            groups, lay, found = groups_over(self.backend, size), self._laying, self.registered
            hits, roots = (self._parent, self._boxes), (self._parent, self._roots)
            draw = (lay, *observation, self._pictures, *hits, found.velocity, self._tickets)
            number = (lay, *roots, self._before, self._labels, self._boxes, self._counts, found.label)
            scan = primitives.scan(self._roots, self._before, self._progress, size)
            scanned = (self._progress, np.int32(primitives.scan_progress_size(size)))
            components = [
                Launch("draw_picture", groups, GROUP, draw),
                Launch("draw_lines", groups, GROUP, (lay, self._pictures)),
                Launch("join_hits", groups, GROUP, (lay, self._parent)),
                Launch("find_roots", groups, GROUP, (lay, *roots, *scanned)),
                replace(scan, program=collective),
                Launch("number_hits", groups, GROUP, number),
            ]
            stored = (self._pictures, self._labels, self._boxes, self._counts)
            refine = (lay, *stored, self._points, self._tickets)
            register = (*refine, layers)
            registrations = [
                [Launch(name, self._groups, self._group, (*given, found.velocity, np.int32(laid)))]
                for laid, name, given in (
                    (Laid.OLD, "register_hits", register),
                    (Laid.REFINED, "refine_hits", refine),
                    (Laid.FAST, "register_hits", register),
                )
            ]
            take = [Launch("take_apart", groups, GROUP, (lay, self._counts, found.velocity))]
            graphs = tuple(self.backend.graph(program, one) for one in (components, take, *registrations))
            self._recorded = given, graphs
        return self._recorded[1]


def _most_components(rows: int, columns: int) -> int:
    return -(-rows // 2) * -(-columns // 2)


def _picture_words(rows: int, columns: int) -> int:
    """A word per cell, and the picture's lines."""
    return rows * (columns + 2 * SUBCELLS * -(-columns // _CELLS_OF_WORD))


def _rooms(backend: Backend) -> int:
    """Where branches are free, what is fast is looked for beside the rest, in a room of its own."""
    return 2 if backend.branches_are_free else 1


def _groups(backend: Backend) -> int:
    """Work-groups, which take one component after the other."""
    return 2 * backend.device.units
