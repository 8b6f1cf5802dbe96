# SPDX-License-Identifier: Apache-2.0
"""The STCRF on an accelerator: buffers allocated once, and one recorded sequence of kernels per kind of frame.

It offers the steps of the CPU engine by the same names where it can; the device does a whole frame in one go.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.compute.backend import Backend, Launch, check_points
from roadbed.config.ground import GroundConfig
from roadbed.errors import InputError
from roadbed.geometry import Float32, Float64, Lattice, Pose
from roadbed.ground.stcrf.cpu import Misalignment, Placement
from roadbed.ground.stcrf.model import (
    FILES,
    GROUP,
    definitions,
    exponent,
    groups_over_nodes,
    looks_around,
    room_for_anchors,
    selects,
    tally_words,
)
from roadbed.ground.stcrf.start_device import CoarseLattice

_BYTES_PER_POINT = 12 + 16 + 4 + 16 + 9
_POSTERIOR = 2  # `prior_from` of a prior that is the last posterior
_ALIGNMENT_POINTS = 12000  # at most this many are compared with the prior surface
_FEWEST_SAMPLES = 50
_FIT_SIGMAS = (0.3, 0.15, 0.1, 0.05, 0.05)  # m, one per step
_FIT_GROUPS = 32
_ENOUGH_PRIOR = 0.2  # share of the nodes with points, from which a few iterations are enough
PROBABILITY, HEIGHT, LAYERS = 1, 2, 4  # bits of `StcrfDevice.wanted`
FRAME = np.dtype(
    [
        ("points", np.uint64),
        ("label", np.uint64),
        ("probability", np.uint64),
        ("height", np.uint64),
        ("layers", np.uint64),
        ("count", np.int32),
        ("wanted", np.int32),
        ("warm", np.int32),
        ("prior", np.int32),
        ("base", np.float32),
        ("road", np.float32),
        ("rotation", np.float32, 9),
        ("translation", np.float32, 3),
        ("vehicle", np.float32, 6),  # x, y, cosine and sine of the yaw, slopes of the wheels' plane
        ("moving_shape", np.int32, 2),
        ("moving_corner", np.float32, 2),
        ("moving_scale", np.float32),
        ("prior_from", np.int32),
        ("motion", np.int32),
        ("shift", np.int32, 2),
        ("lower", np.float32),
        ("turn", np.float32, 9),
        ("travel", np.float32, 3),
        ("first_node", np.float32, 2),
        ("stride", np.int32),
        ("reach", np.float32),
        ("spare", np.int32),
    ],
    align=True,
)


class StcrfDevice:
    """The engine for `slots` scans at a time on lattices of one shape."""

    def __init__(self, backend: Backend, config: GroundConfig, rows: int, columns: int, slots: int = 1) -> None:
        self.backend, self.config, self.slots = backend, config, slots
        self.rows, self.columns, self.nodes = rows, columns, rows * columns
        self._program = backend.build(FILES, definitions(config, rows, columns))
        zeros, nodes = backend.zeros, self.nodes
        self._counts = zeros(slots * nodes, np.int32)
        self._cursors = zeros(slots * 6, np.int32)
        self._segments = zeros(slots * nodes * 2, np.int32)
        self._lists = zeros(slots * 3 * nodes * 4, np.int32)
        self._states = [zeros(slots * nodes * 12, np.float32) for _ in range(2)]
        self._priors = zeros(slots * 2 * nodes * 12, np.float32)
        self._expected = zeros(slots * nodes * 4, np.float32)
        self._surface = zeros(slots * nodes * 4, np.float32)
        self._seen = zeros(slots * nodes, np.uint8)  # where ground was seen: what is reported and kept as prior
        self._frames = backend.mailbox(slots * FRAME.itemsize)
        self._motion = backend.mailbox(slots * FRAME.itemsize)
        self._layers = backend.output((slots, 4, nodes), np.float32)
        self._tallies = zeros(slots * tally_words(config, rows, columns), np.uint32)
        self._row_sums, self._kinds = zeros(slots * nodes, np.uint32), zeros(slots * nodes, np.uint8)
        self._overlap = backend.output((slots, 2), np.int32)
        self._coarse = CoarseLattice(backend, config, rows, columns, slots) if config.stcrf.start == "coarse" else None
        self.wanted = PROBABILITY | HEIGHT | LAYERS  # outputs beside the labels
        self._moving_capacity = 0
        self.frames = np.zeros(slots, FRAME)
        self._sample_counts, self._samples_found = zeros(slots * nodes, np.int32), zeros(2 * slots, np.int32)
        self._fit_parts = zeros(slots * _FIT_GROUPS * 11, np.float32)
        self._fit_state, self._fit = zeros(slots * 5, np.float32), backend.output((slots, 5), np.float32)
        self._kept = self._to_move = False
        self._offered: Any = None
        self.capacity = 0
        self._reserve_mask(4)
        self.reserve(4096)

    def reserve(self, points: int) -> None:
        """Room for scans of at least `points` points; what is there is kept when it is enough."""
        if points <= self.capacity:
            return
        capacity = -(-max(points + points // 4, 4096) // 4) * 4
        total = self.slots * capacity
        check_points(self.backend.device, points * self.slots, total * _BYTES_PER_POINT)
        zeros, output = self.backend.zeros, self.backend.output
        extra = self.slots * room_for_anchors(self.config)
        self._intake = self.backend.intake((self.slots, capacity, 3), np.float32)
        self._located, self._rank = zeros(total * 4, np.float32), zeros(total, np.int32)
        self._sorted = zeros((total + extra) * 4, np.float32)
        self._decisions = zeros(total, np.uint8)
        self._label = output((self.slots, capacity), np.uint8)
        self._probability = output((self.slots, capacity), np.float32)
        self._height = output((self.slots, capacity), np.float32)
        for name, place in (("label", self._label), ("probability", self._probability), ("height", self._height)):
            self.frames[name] = place.addresses
        self.frames["layers"] = self._layers.addresses
        self.capacity = capacity
        self._record()

    def _reserve_mask(self, cells: int) -> None:
        if cells > self._moving_capacity:
            self._moving = self.backend.zeros((self.slots, cells), np.uint8)
            self._moving_capacity = cells
            if self.capacity:
                self._record()

    def _record(self) -> None:
        stcrf = self.config.stcrf
        kinds = ((False, stcrf.iterations), (True, stcrf.warm_iterations), (True, stcrf.iterations))
        self._tapes = {kind: self.backend.tape(self._program, self._launches(*kind)) for kind in kinds}
        over_nodes, capacity = -(-self.nodes // GROUP), np.int32(self.capacity)
        move = (self._motion, self._states[0], self._seen, self._priors)
        motion = [Launch("move_prior", over_nodes, GROUP, move, self.slots)]
        self._motion_tape = self.backend.tape(self._program, motion)
        # Samples lie where the sorted points will: those come later.
        samples = (self._frames, self._intake, self._priors, self._sorted, self._sample_counts, self._samples_found)
        fit = (self._sorted, self._sample_counts, self._samples_found, self._fit_parts, self._fit_state)
        alignment = [Launch("sample_residuals", 2 * self.backend.device.units, GROUP, (*samples, capacity), self.slots)]
        for k, sigma in enumerate(_FIT_SIGMAS):
            step = (*fit, self._fit.buffer, np.float32(sigma), np.int32(k), capacity)
            alignment.append(Launch("fit_tilt", _FIT_GROUPS, GROUP, step, self.slots))
        self._alignment_tape = self.backend.tape(self._program, alignment)

    def _launches(self, warm: bool, iterations: int) -> list[Launch]:
        """The kernels of one frame, in order."""
        capacity, slots = np.int32(self.capacity), self.slots
        start = self._states[iterations % 2]  # the EM then ends in the first buffer
        over_points, over_nodes = self._groups_over_points(), -(-self.nodes // GROUP)
        coarse = self._coarse
        locate = (
            self._frames, self._intake, self._located, self._rank, self._counts, self._cursors, self._tallies,
        )  # fmt: skip
        allocate = (self._frames, self._counts, self._segments, self._cursors, self._lists, self._priors, start)
        coarse_start = (coarse.start, coarse.expected) if coarse else (start, self._expected)
        place = (self._frames, self._located, self._rank, self._segments, self._sorted, capacity)
        launches = [
            Launch("locate", over_points, GROUP, (*locate, capacity), slots),
            Launch("allocate", over_nodes, GROUP, (*allocate, self._expected, *coarse_start), slots),
            Launch("place", over_points, GROUP, place, slots),
        ]
        if selects(self.config):
            launches += self._select()
        if coarse:
            launches += coarse.launches()
            spread = (self._frames, coarse.result, self._priors, start, self._expected)
            launches.append(Launch("spread", over_nodes, GROUP, spread, slots))
        return launches + self._iterations(iterations, warm) + self._labelling()

    def _labelling(self) -> list[Launch]:
        capacity, slots = np.int32(self.capacity), self.slots
        over_points, over_nodes = self._groups_over_points(), -(-self.nodes // GROUP)
        launches = []
        if looks_around(self.config):
            over, state = self._rank, self._states[0]  # ranks are no longer needed: heights take their room
            measure = (self._frames, self._located, self._surface, over, self._tallies, capacity)
            classify = (self._tallies, self._row_sums, state, self._kinds)
            decide = (self._frames, self._located, over, self._tallies, self._kinds, state, self._decisions, capacity)
            launches = [
                Launch("measure", over_points, GROUP, measure, slots),
                Launch("sum_rows", over_nodes, GROUP, (self._tallies, self._row_sums), slots),
                Launch("classify_nodes", over_nodes, GROUP, classify, slots),
                Launch("decide", over_points, GROUP, decide, slots),
            ]
        outputs = (self._label.buffer, self._probability.buffer, self._height.buffer, self._layers.buffer)
        given = (self._frames, self._located, self._surface, self._seen, self._tallies, self._decisions)
        label = (*given, *outputs, self._cursors, self._overlap.buffer, capacity)
        return [*launches, Launch("label", over_points, GROUP, label, slots)]

    def _select(self) -> list[Launch]:
        low_points = self._coarse.points if self._coarse else self._surface
        device = self.backend.device
        whole_groups = 0 if device.lanes == 1 else 4 * device.units
        arguments = (
            self._frames, self._moving, self._segments, self._sorted, self._lists, self._cursors, low_points,
            self._tallies, np.int32(self.capacity), np.int32(whole_groups), np.int32(self._moving_capacity),
        )  # fmt: skip
        groups = whole_groups + -(-self.nodes * device.lanes // GROUP)
        launches = [Launch("select_points", groups, GROUP, arguments, self.slots)]
        if whole_groups and self.config.stcrf.points_per_node:
            thin = (self._frames, self._sorted, self._lists, self._cursors, np.int32(self.capacity))
            launches.append(Launch("thin_out", whole_groups, GROUP, thin, self.slots))
        return launches

    def _iterations(self, iterations: int, warm: bool) -> list[Launch]:
        """EM launches from one state buffer to the other; the posterior is left in the first."""
        stcrf = self.config.stcrf
        whole, per_kind, groups = groups_over_nodes(self.backend.device, self.nodes)
        launches = []
        for k in range(iterations):
            source, target = self._states[(iterations - k) % 2], self._states[(iterations - 1 - k) % 2]
            sigma = stcrf.sigma_up_early if not warm and 2 * k < iterations else stcrf.sigma_up
            arguments = (
                self._frames, source, target, self._priors, self._expected, self._segments, self._sorted, self._lists,
                self._cursors, self._surface, self._seen,
                np.int32(self.capacity + room_for_anchors(self.config)), np.int32(whole), np.int32(per_kind),
                np.float32(exponent(sigma)), np.float32(stcrf.gamma if warm else 0), np.int32(k == iterations - 1),
            )  # fmt: skip
            launches.append(Launch("iterate", groups, GROUP, arguments, self.slots))
        return launches

    def _groups_over_points(self) -> int:
        """Enough work-groups to fill the device; each takes several tiles of a large scan."""
        device = self.backend.device
        return max(1, min(-(-self.capacity // GROUP), (4 if device.lanes > 1 else 16) * device.units))

    def sort(self, points: Any, placement: Placement, slot: int = 0) -> None:
        """Make a scan's points readable by the kernels, wherever they lie."""
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"points: expected shape (N, 3), found {tuple(points.shape)}")
        count = int(points.shape[0])
        self.reserve(count)
        frame = self.frames[slot]
        frame["count"], frame["base"] = count, placement.base
        frame["rotation"], frame["translation"] = placement.rotation.ravel(), placement.translation
        if points is not self._offered:
            frame["points"] = self.backend.offer(points, self._intake, 3 * slot * self.capacity)

    def select(
        self,
        vehicle: NDArray[np.float32],
        moving: tuple[NDArray[np.bool_], Float64, float] | None,
        slot: int = 0,
    ) -> None:
        """Where the vehicle stands (six numbers, see FRAME), and the mask of what moves, its corner and cell size."""
        frame = self.frames[slot]
        frame["vehicle"] = vehicle
        frame["moving_shape"] = 0
        if moving is not None and moving[0].size:
            mask, corner, cell = moving
            self._reserve_mask(mask.size)
            self.backend.upload(mask.view(np.uint8), self._moving, slot * self._moving_capacity)
            frame["moving_shape"] = mask.shape[1], mask.shape[0]
            frame["moving_corner"], frame["moving_scale"] = corner, 1 / cell

    def estimate(self, warm: bool, road: float, timed: bool = False) -> dict[str, float]:
        """Queue the frame for every slot; with `timed`, wait and give seconds per kernel."""
        frames = self.frames
        self._move()
        frames["warm"], frames["road"], frames["wanted"] = warm, road, self.wanted
        self.backend.post(self.frames, self._frames)
        self._offered = None
        stcrf = self.config.stcrf
        tape = self._tapes[warm, stcrf.warm_iterations if warm else stcrf.iterations]
        if timed:
            return tape.timed()
        tape.run()
        return {}

    def fetch(self, slot: int = 0) -> None:
        """Wait for the outputs of a slot; where the prior knew too little under it, all iterations are run first."""
        stcrf = self.config.stcrf
        self.backend.fetch(self._overlap, slot, 2)
        self._fetch_all(slot)
        if not self.frames[slot]["warm"] or stcrf.warm_iterations >= stcrf.iterations:
            return
        unknown, known = (int(n) for n in self._overlap.host[slot])
        if known < _ENOUGH_PRIOR * max(1, known + unknown):
            self._tapes[True, stcrf.iterations].run()
            self._fetch_all(slot)

    def _fetch_all(self, slot: int) -> None:
        self.queue_fetch(slot)
        self.backend.finish()

    def queue_fetch(self, slot: int) -> None:
        """Queue the copies of what is wanted."""
        count = int(self.frames[slot]["count"])
        self.backend.fetch(self._label, slot, count)
        if self.wanted & PROBABILITY:
            self.backend.fetch(self._probability, slot, count)
        if self.wanted & HEIGHT:
            self.backend.fetch(self._height, slot, count)
        if self.wanted & LAYERS:
            self.backend.fetch(self._layers, slot, 4 * self.nodes)

    def per_point(self, slot: int = 0) -> tuple[NDArray[np.uint8], Float32, Float32]:
        """One label, ground probability c_j and height over the surface per input point; empty where not wanted."""
        count = int(self.frames[slot]["count"])
        return (
            self._label.host[slot, :count].copy(),
            self._probability.host[slot, : count if self.wanted & PROBABILITY else 0].copy(),
            self._height.host[slot, : count if self.wanted & HEIGHT else 0].copy(),
        )

    def surface(self, lattice: Lattice, slot: int = 0) -> tuple[Float32, Float32, Float32]:
        """Elevation (m, lattice frame), slopes and variance (m^2) of every node."""
        if not self.wanted & LAYERS:
            nothing = np.empty((0, 0), np.float32)
            return nothing, nothing, nothing
        layers = self._layers.host[slot].reshape(-1).copy()
        elevation, slope, variance = np.split(layers, [self.nodes, 3 * self.nodes])
        return elevation.reshape(lattice.shape), slope.reshape(*lattice.shape, 2), variance.reshape(lattice.shape)

    def keep(self) -> None:
        """The posterior becomes the prior of the next frame, where the ground was seen if only that is asked for."""
        self._kept = self._to_move = True
        self._stay()

    def forget(self) -> None:
        self._kept = self._to_move = False
        self._stay()

    def _stay(self) -> None:
        self.frames["motion"], self.frames["shift"], self.frames["lower"] = 0, 0, 0

    def shift(self, columns: int, rows: int) -> None:
        """Move the prior by whole nodes; nodes that enter are undefined."""
        self.frames["shift"] = columns, rows
        self._to_move = True

    def lower(self, by: float) -> None:
        """Count the prior's heights from a base that lies `by` metres higher."""
        self.frames["lower"] = by
        self._to_move = True

    def transport(self, T_old_new: Pose, lattice: Lattice) -> None:
        """Carry the prior from the last vehicle frame to this one."""
        frames = self.frames
        frames["motion"], frames["turn"], frames["travel"] = 1, T_old_new.rotation.ravel(), T_old_new.translation
        frames["first_node"] = lattice.x0, lattice.y0
        self._to_move = True

    def _move(self) -> None:
        """Carry out what was asked since the last frame."""
        if not self._to_move:
            return
        current = int(self.frames["prior"][0])
        if self._kept:
            self.frames["prior_from"] = _POSTERIOR
        else:
            self.frames["prior_from"], self.frames["prior"] = current, 1 - current
        self.backend.post(self.frames, self._motion)
        self._motion_tape.run()
        self._kept = self._to_move = False
        self._stay()

    def misalignment(self, points: Any, placement: Placement, radius: float) -> Misalignment | None:
        """How the scan lies over the prior surface; None where too little of it is known."""
        count = int(points.shape[0])
        stride = max(4, count // _ALIGNMENT_POINTS)
        self.frames["stride"] = stride if count >= 4 * stride else 1
        self.frames["reach"] = radius
        self.sort(points, placement)
        self._offered = points
        self._move()
        self.backend.post(self.frames, self._frames)
        self._alignment_tape.run()
        self.backend.fetch(self._fit, 0, 5)
        self.backend.finish()
        lift, slope_x, slope_y, share, samples = (float(v) for v in self._fit.host[0])
        if samples < _FEWEST_SAMPLES:
            return None
        return Misalignment(lift, slope_x, slope_y, share)
