# SPDX-License-Identifier: Apache-2.0
"""The coarse start on an accelerator: the EM on a lattice of coarse nodes, as one launch if the device allows it."""

from dataclasses import replace
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.programs import CURSORS, GROUP, SOME, SPARE, TEAM, EmLayout, coarse_program, exponent
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import Launch

_MESSAGES = 17  # per node, for both starts (first_surface.cl)
_MOST_HEIGHTS = 4096  # nodes whose heights fit in local memory twice (slope_start.cl)
_NEIGHBOURS = 8  # work-items per node: each reads one neighbour


class CoarseLattice:
    """The EM on coarse nodes, which gives the first surface; a program with the constants of the coarse lattice."""

    def __init__(self, backend: Backend, config: Config, slots: int) -> None:
        self._backend, self._slots = backend, slots
        self._finds_slopes = config.ground.uses("slope_aware_start")
        program = coarse_program(config)
        self._shape = int(program.definitions["ROWS"]), int(program.definitions["COLUMNS"])
        self._nodes = int(program.definitions["NODES"])
        self.program = backend.build(program)
        zeros = backend.zeros
        self._per_node = int(program.definitions["PER_NODE"])
        # The room of coarse nodes beyond the fine lattice is never written: it holds no points.
        nowhere = np.array([0, 0, model.FAR_ABOVE, 0], np.float32)
        self.points = backend.upload(np.tile(nowhere, slots * self._nodes * self._per_node + SPARE))
        self._states = [zeros(slots * self._nodes * 12, np.float32) for _ in range(2)]
        self.expected = zeros(slots * self._nodes * 4, np.float32)
        self._surface = zeros(slots * self._nodes * 4, np.float32)
        first = np.arange(self._nodes, dtype=np.int32) * self._per_node
        segments = np.stack([first, np.full_like(first, self._per_node)], axis=1)
        self._segments = backend.upload(np.tile(segments, (slots, 1)))
        # On a GPU all nodes are listed in one size class: SOME points, or MANY.
        numbers = np.arange(self._nodes, dtype=np.int32)
        entries = np.stack([numbers, segments[:, 0], segments[:, 1], np.zeros_like(numbers)], axis=1)
        self._lists = backend.upload(np.tile(entries, (slots, 3, 1)))
        cursors = np.zeros((slots, CURSORS), np.int32)
        cursors[:, 1 if self._per_node <= SOME else 2] = self._nodes
        self._cursors = backend.upload(cursors.ravel())
        self.result = self._states[0]
        self._groups = 0 if slots > 1 else self._cooperative_groups()  # per start, of the single launch
        if self._groups:
            self._mail = zeros((1 + _MESSAGES * self._nodes) * 4, np.uint32)
        self._shaping = self.points if backend.device.lanes > 1 else backend.zeros(self.points.shape, np.float32)
        if self._finds_slopes:
            self._sloped = [zeros(slots * self._nodes * 12, np.float32) for _ in range(2)]
            self._envelope = zeros(slots * self._nodes * 4, np.float32)
            self._heights = zeros(slots * self._nodes * 2, np.float32)
            self._counts = zeros(slots * self._nodes * 4, np.int32)

    def start(self, carried: bool) -> Any:
        """The state buffer from which the EM ends in `result`."""
        return self._states[self._iterations_of(carried) % 2]

    def launches(self, frames: Any, carried: bool) -> list[Launch]:
        """The EM from the surface of the last frame, or from a level and a slope-aware one: then the better is used."""
        count, finds_slopes = self._iterations_of(carried), self._finds_slopes and not carried
        if self._groups:
            groups = self._groups * (2 if finds_slopes else 1)
            given = frames, self.points, self.expected, self.result, self._mail, np.int32(count)
            return [replace(self._launch("coarse", "first_surface", groups, *given), size=TEAM, cooperative=True)]
        launches = self._iterations("coarse", count, model.COARSE_SIGMA_UP, self._states, self.expected)
        if self._shaping is not self.points:
            packing = self.points, self._shaping, self._lists
            launches = [self._launch("pack", "pack_lowest", -(-self._nodes // GROUP), *packing), *launches]
        return [*launches, *self._slope_start(frames)] if finds_slopes else launches

    def _cooperative_groups(self) -> int:
        """Work-groups per start; 0 if those of both starts cannot all run at once or a node has too many points."""
        groups = -(-self._nodes * self._backend.device.lanes // TEAM)
        if self._per_node > SOME or self._nodes > _MOST_HEIGHTS or self._backend.device.lanes < _NEIGHBOURS:
            return 0
        return groups if 2 * groups <= self._backend.resident_groups(self.program, "first_surface", TEAM) else 0

    def _iterations_of(self, carried: bool) -> int:
        return model.COARSE_WARM_ITERATIONS if carried else model.COARSE_ITERATIONS

    def _slope_start(self, frames: Any) -> list[Launch]:
        over_nodes = -(-self._nodes // GROUP)
        sloped = self._sloped[0]
        start = self._sloped[model.SLOPE_ITERATIONS % 2]
        envelope = frames, self._heights, self._envelope, start
        size = GROUP if self._backend.device.lanes > 1 else 1
        iterations = (model.SLOPE_ITERATIONS, model.SLOPE_SIGMA_UP, self._sloped, self._envelope)
        return [
            self._launch("slope_start", "find_heights", over_nodes, frames, self.points, self._heights),
            replace(self._launch("slope_start", "expect_envelope", 1, *envelope), size=size),
            *self._iterations("slope_start", *iterations),
            self._launch("better", "count_explained", over_nodes, self.points, self.result, sloped, self._counts),
            self._launch("better", "take_better", over_nodes, self._counts, sloped, self.result),
        ]

    def _iterations(
        self, phase: str, iterations: int, sigma_up: float, states: list[Any], expected: Any
    ) -> list[Launch]:
        """EM launches that alternate between two state buffers; the result ends in the first."""
        device = self._backend.device
        layout = EmLayout.of(device, *self._shape, self._per_node)
        if device.lanes > 1:  # every node is in one of two size classes
            layout = EmLayout(0, device.units, 2 * device.units)
        launches = []
        for k in range(iterations):
            source, target = states[(iterations - k) % 2], states[(iterations - 1 - k) % 2]
            arguments = (
                self.points, source, target, target, expected, self._segments, self._shaping, self._lists,
                self._cursors, self._surface, self._surface, np.int32(self._nodes * self._per_node), np.int32(0),
                np.int32(layout.per_class), np.float32(exponent(sigma_up)), np.float32(0), np.int32(0),
            )  # fmt: skip
            launches.append(Launch("iterate", layout.groups, layout.size, arguments, self._slots, phase, self.program))
        return launches

    def _launch(self, phase: str, kernel: str, groups: int, *arguments: object) -> Launch:
        return Launch(kernel, groups, GROUP, arguments, self._slots, phase, self.program)
