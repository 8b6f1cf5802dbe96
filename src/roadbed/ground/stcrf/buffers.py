# SPDX-License-Identifier: Apache-2.0
"""The STCRF's memory on a device: allocated once per configuration, grown with the scans."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from roadbed.config import Config
from roadbed.ground.stcrf.model import FRAME
from roadbed.ground.stcrf.programs import SPARE, tally_words
from roadbed.ground.stcrf.sizes import lattice_of
from roadbed.runtime.backend import Backend, Output
from roadbed.runtime.device_errors import check_points

_BYTES_PER_POINT = 12 + 16 + 4 + 16 + 10
# {next free place; nodes with some points, with many, with more; nodes the prior does not and does know; strays and
# returns of a sample}
CURSORS = 8
FIT_GROUPS = 32  # work-groups that share a fit to the prior surface
FIT_SUMS = 11


class Buffers:
    """For `slots` scans at a time. A node's state takes twelve floats: nine of information, then its plane."""

    def __init__(self, backend: Backend, config: Config, slots: int, device_resident: bool = False) -> None:
        """Where results `stay`, other kernels read them and the scan beside these."""
        self._backend, self.slots, self._device_resident = backend, slots, device_resident
        zeros, nodes = backend.zeros, lattice_of(config.ground).size
        self.counts = zeros(slots * nodes, np.int32)
        self.cursors = zeros(slots * CURSORS, np.int32)
        self.segments = zeros(slots * nodes * 2, np.int32)
        self.lists = zeros(slots * 3 * nodes * 4, np.int32)
        self.levels = zeros(slots * nodes * 2, np.float32)
        self.states = [zeros(slots * nodes * 12, np.float32) for _ in range(2)]
        self.priors = zeros(slots * 2 * nodes * 12, np.float32)
        self.expected = zeros(slots * nodes * 4, np.float32)
        self.surface = zeros(slots * nodes * 4, np.float32)
        self.seen = zeros(slots * nodes, np.uint8)  # where ground was seen: what is reported and kept as prior
        self.reported = zeros(slots * nodes * 4, np.float32)  # the surface as the caller gets it
        self.judged = zeros(slots * nodes * 4, np.float32)  # doubt about each node, and inputs of its variance
        self.clean = zeros(slots * nodes, np.int32)  # what clean nodes hang on,
        self.clean_sizes = zeros(slots * (nodes + 1), np.int32)  # nodes per component, then the known ones of all
        self.frames = backend.staging_buffer(slots * FRAME.itemsize)
        self.layers = backend.output((slots, 4, nodes), np.float32, device_resident)
        self.tallies = zeros(slots * tally_words(config), np.uint32)
        self.row_sums, self.node_classes = zeros(slots * nodes, np.uint32), zeros(slots * nodes, np.uint8)
        self.overlap = backend.output((slots, 2), np.int32)
        self.sample_counts, self.samples_found = zeros(slots * nodes, np.int32), zeros(2 * slots, np.int32)
        self.fit_parts = [zeros(slots * FIT_GROUPS * FIT_SUMS, np.float32) for _ in range(2)]  # of even and odd steps
        self.fit = backend.output((slots, 6), np.float32)
        self._next: tuple[Sequence[str], list[Output]] = ((), [])  # outputs that are laid out for the next frame
        self.capacity = self.moving_capacity = 0
        self.reserve_mask(4)
        self.reserve(4096)

    def reserve(self, points: int) -> bool:
        """Room for scans of at least `points` points; True where it was not there yet."""
        if points <= self.capacity:
            return False
        capacity = -(-max(points + points // 4, 4096) // 4) * 4
        total = self.slots * capacity
        check_points(self._backend.device, points * self.slots, total * _BYTES_PER_POINT)
        zeros, output = self._backend.zeros, partial(self._backend.output, device_resident=self._device_resident)
        input_buffer = self._backend.input_buffer(
            (self.slots, capacity, 3), np.float32, self._device_resident or self.slots > 1
        )
        located, rank = zeros(total * 4, np.float32), zeros(total, np.int32)
        by_node = zeros((total + SPARE) * 4, np.float32)
        decisions, non_ground = zeros(total, np.uint8), zeros(total, np.uint8)
        label = output((self.slots, capacity), np.uint8)
        probability, height = (output((self.slots, capacity), np.float32) for _ in range(2))
        # Nothing is taken before all of it is there: graphs know what was.
        self.input_buffer, self.located, self.rank, self.sorted = input_buffer, located, rank, by_node
        self.decisions, self.non_ground = decisions, non_ground
        self.label, self.probability, self.height = label, probability, height
        self.capacity, self._next = capacity, ((), [])
        return True

    def reserve_mask(self, cells: int) -> bool:
        """Room for a mask of so many cells that move; True where it was not there yet."""
        if cells <= self.moving_capacity:
            return False
        self.moving = self._backend.zeros((self.slots, cells), np.uint8)
        self.moving_capacity = cells
        return True

    def renew_outputs(self) -> None:
        """New arrays on the device for the next frame's results: the caller keeps those of the last."""
        make = self._backend.output_on_device
        self.label, self.layers = make(self.label.host.shape, np.uint8), make(self.layers.host.shape, np.float32)
        self.probability, self.height = (make(self.height.host.shape, np.float32) for _ in range(2))

    def lay_out(self, names: Sequence[str]) -> None:
        """New memory on the host for the next frame's outputs of these names: the caller keeps those of this one."""
        self._next = names, self._backend.reallocated([getattr(self, name) for name in names])

    def hand_out(self, names: Sequence[str]) -> None:
        """Take them for the frame that begins."""
        if self._next[0] != names:
            self.lay_out(names)
        for name, output in zip(*self._next):
            setattr(self, name, output)
        self._next = (), []

    def outputs(self) -> tuple[Output, Output, Output, Output]:
        """What kernels write for the caller."""
        return self.label, self.probability, self.height, self.layers
