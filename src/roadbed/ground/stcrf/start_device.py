# SPDX-License-Identifier: Apache-2.0
"""The coarse start on an accelerator: the same EM kernel on a lattice of wide nodes."""

from __future__ import annotations

import numpy as np

from roadbed.compute.backend import Backend, Launch
from roadbed.config import Config
from roadbed.ground.stcrf.model import FAR_ABOVE
from roadbed.ground.stcrf.programs import GROUP, SOME, coarse_program, exponent, groups_over_nodes
from roadbed.ground.stcrf.sizes import low_side_of, ratio_of


class CoarseLattice:
    """The EM on wide nodes, which gives the first surface: a program of its own with the wide lattice's constants."""

    def __init__(self, backend: Backend, config: Config, slots: int) -> None:
        self._backend, self._stcrf, self._slots = backend, config.ground.stcrf, slots
        program = coarse_program(config)
        self._nodes = int(program.definitions["NODES"])
        self.program = backend.build(program)
        zeros = backend.zeros
        self._per_node = ratio_of(config.ground) ** 2 * low_side_of(config.ground) ** 2
        # Places of nodes beyond the fine lattice are never written: no points there.
        nowhere = np.array([0, 0, FAR_ABOVE, 0], np.float32)
        self.points = backend.upload(np.tile(nowhere, slots * self._nodes * self._per_node))
        self._states = [zeros(slots * self._nodes * 12, np.float32) for _ in range(2)]
        self.expected = zeros(slots * self._nodes * 4, np.float32)
        self._surface = zeros(slots * self._nodes * 4, np.float32)
        first = np.arange(self._nodes, dtype=np.int32) * self._per_node
        segments = np.stack([first, np.full_like(first, self._per_node)], axis=1)
        self._segments = backend.upload(np.tile(segments, (slots, 1)))
        # On a GPU all nodes are listed as having some points, or many: work-items share each accordingly.
        numbers = np.arange(self._nodes, dtype=np.int32)
        listed = np.stack([numbers, segments[:, 0], segments[:, 1], np.zeros_like(numbers)], axis=1)
        self._lists = backend.upload(np.tile(listed, (slots, 3, 1)))
        cursors = [0, self._nodes, 0, 0, 0, 0] if self._per_node <= SOME else [0, 0, self._nodes, 0, 0, 0]
        self._cursors = backend.upload(np.tile(np.array(cursors, np.int32), slots))
        iterations = self._stcrf.coarse.iterations
        self.start, self.result = self._states[iterations % 2], self._states[0]

    def launches(self) -> list[Launch]:
        whole, per_kind, groups = groups_over_nodes(self._backend.device, self._nodes)
        groups -= whole  # no coarse node takes a whole work-group
        iterations = self._stcrf.coarse.iterations
        up = np.float32(exponent(self._stcrf.coarse.sigma_up))
        launches = []
        for k in range(iterations):
            source, target = self._states[(iterations - k) % 2], self._states[(iterations - 1 - k) % 2]
            arguments = (
                self.points, source, target, target, self.expected, self._segments, self.points, self._lists,
                self._cursors, self._surface, self._surface, np.int32(self._nodes * self._per_node), np.int32(0),
                np.int32(per_kind), up, np.float32(0), np.int32(0),
            )  # fmt: skip
            launches.append(Launch("iterate", groups, GROUP, arguments, self._slots, "coarse", self.program))
        return launches
