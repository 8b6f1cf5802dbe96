# SPDX-License-Identifier: Apache-2.0
"""Device memory of the STCRF: allocated once per configuration, grown with the scans."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from roadbed.config import Config
from roadbed.ground.stcrf.model import FIT_GROUPS, FRAME
from roadbed.ground.stcrf.programs import CURSORS, SPARE, tally_words
from roadbed.ground.stcrf.sizes import lattice_of
from roadbed.runtime.backend import Backend, Output
from roadbed.runtime.device_errors import check_points

_BYTES_PER_POINT = 12 + 16 + 4 + 16 + 10
FIT_SUMS = 11


class Buffers:
    """Buffers for `slots` scans. The state of a node is 12 floats: nine of information, then its plane."""

    def __init__(self, backend: Backend, config: Config, slots: int, device_resident: bool = False) -> None:
        """`device_resident`: other kernels read the scan and the results on the device."""
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
        self.seen = zeros(slots * nodes, np.uint8)  # SEEN, STAYS and HAS_DATA bits of each node
        self.reported = zeros(slots * nodes * 4, np.float32)  # the surface that the caller gets
        self.doubts = zeros(slots * nodes * 4, np.float32)  # {doubt, unevenness, certainty} of each node
        self.clean = zeros(slots * nodes, np.int32)  # union-find parents of clean nodes, -1: not clean
        self.clean_sizes = zeros(slots * (nodes + 1), np.int32)  # nodes per component, then the number of known nodes
        self.frames = backend.staging_buffer(slots * FRAME.itemsize)
        self.layers = backend.output((slots, 5, nodes), np.float32, device_resident)
        self.tallies = zeros(slots * tally_words(config), np.uint32)
        self.row_sums, self.node_classes = zeros(slots * nodes, np.uint32), zeros(slots * nodes, np.uint8)
        self.overlap = backend.output((slots, 2), np.int32)
        self.sample_counts, self.samples_found = zeros(slots * nodes, np.int32), zeros(2 * slots, np.int32)
        self.fit_parts = [zeros(slots * FIT_GROUPS * FIT_SUMS, np.float32) for _ in range(2)]  # of even and odd steps
        self.fit = backend.output((slots, 6), np.float32)
        self._next: tuple[Sequence[str], list[Output]] = ((), [])  # host arrays allocated for the next frame
        self.capacity = self.moving_capacity = 0
        self.reserve_mask(4)
        self.reserve(4096)

    def reserve(self, points: int) -> bool:
        """Make room for scans of at least `points` points; True if buffers were allocated."""
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
        # Assigned only when all allocations have succeeded: recorded graphs use the old buffers.
        self.input_buffer, self.located, self.rank, self.sorted = input_buffer, located, rank, by_node
        self.decisions, self.non_ground = decisions, non_ground
        self.label, self.probability, self.height = label, probability, height
        self.capacity, self._next = capacity, ((), [])
        return True

    def reserve_mask(self, cells: int) -> bool:
        """Make room for a mask of `cells` moving cells; True if a buffer was allocated."""
        if cells <= self.moving_capacity:
            return False
        self.moving = self._backend.zeros((self.slots, cells), np.uint8)
        self.moving_capacity = cells
        return True

    def renew_outputs(self) -> None:
        """New device arrays for the results of the next frame: the caller owns those of the last one."""
        make = self._backend.output_on_device
        self.label, self.layers = make(self.label.host.shape, np.uint8), make(self.layers.host.shape, np.float32)
        self.probability, self.height = (make(self.height.host.shape, np.float32) for _ in range(2))

    def allocate_outputs(self, names: Sequence[str]) -> None:
        """New host arrays for these outputs of the next frame: the caller owns those of this frame."""
        self._next = names, self._backend.reallocated([getattr(self, name) for name in names])

    def take_outputs(self, names: Sequence[str]) -> None:
        """Use the arrays of `allocate_outputs` for the frame that begins."""
        if self._next[0] != names:
            self.allocate_outputs(names)
        for name, output in zip(*self._next):
            setattr(self, name, output)
        self._next = (), []

    def outputs(self) -> tuple[Output, Output, Output, Output]:
        """The outputs that kernels write for the caller."""
        return self.label, self.probability, self.height, self.layers
