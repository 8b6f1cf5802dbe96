# SPDX-License-Identifier: Apache-2.0
"""The STCRF on an accelerator: buffers allocated once, and one recorded sequence of kernels per kind of frame."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from roadbed.compute.backend import Backend, Launch, check_points
from roadbed.config.ground import GroundConfig
from roadbed.errors import InputError

FILES = ("ground/stcrf_frame.cl", "ground/stcrf_em.cl", "ground/stcrf_labels.cl")
_GROUP = 256
_LOG2E = 1.4426950408889634
_DENSE_FROM = 128  # points in a node from which a whole work-group shares it
_BYTES_PER_POINT = 12 + 16 + 4 + 16 + 9
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
        ("shift_columns", np.int32),
        ("shift_rows", np.int32),
        ("base", np.float32),
        ("base_change", np.float32),
        ("rotation", np.float32, 9),
        ("translation", np.float32, 3),
    ],
    align=True,
)
OUTPUTS = {"ground_probability": 1, "height_above_ground": 2, "surface": 4}


class StcrfDevice:
    """The engine for `slots` scans at a time on lattices of one shape."""

    def __init__(self, backend: Backend, config: GroundConfig, rows: int, columns: int, slots: int = 1) -> None:
        self.backend, self.config = backend, config
        self.rows, self.columns, self.nodes, self.slots = rows, columns, rows * columns, slots
        self._program = backend.build(FILES, definitions(config, rows, columns))
        zeros, nodes = backend.zeros, self.nodes
        self._frames = zeros(slots * FRAME.itemsize, np.uint8)
        self._counts = zeros(slots * nodes, np.int32)
        self._cursors = zeros(slots * 2, np.int32)
        self._segments = zeros(slots * nodes * 2, np.int32)
        self._dense = zeros(slots * nodes, np.int32)
        self._states = [zeros(slots * nodes * 12, np.float32) for _ in range(2)]
        self._prior = zeros(slots * nodes * 12, np.float32)
        self._expected = zeros(slots * nodes * 4, np.float32)
        self._surface = zeros(slots * nodes * 4, np.float32)
        self._incoming = backend.intake(slots * FRAME.itemsize, np.uint8)
        self.layers = backend.output((slots, 4, nodes), np.float32)
        self.frames = np.zeros(slots, FRAME)
        self.capacity = 0
        self.reserve(4096)

    def reserve(self, points: int) -> None:
        """Room for scans of at least `points` points; what is there is kept when it is enough."""
        if points <= self.capacity:
            return
        capacity = -(-max(points + points // 4, 4096) // 4) * 4
        check_points(self.backend.device, points * self.slots, capacity * self.slots * _BYTES_PER_POINT)
        zeros, total = self.backend.zeros, self.slots * capacity
        intake = self.backend.intake((self.slots, capacity, 3), np.float32)
        located, rank = zeros(total * 4, np.float32), zeros(total, np.int32)
        ordered = zeros(total * 4, np.float32)
        self.label = self.backend.output((self.slots, capacity), np.uint8)
        self.probability = self.backend.output((self.slots, capacity), np.float32)
        self.height = self.backend.output((self.slots, capacity), np.float32)
        self._intake, self._located, self._rank, self._ordered = intake, located, rank, ordered
        self.capacity = capacity
        self._tapes = {warm: self.backend.tape(self._program, self.launches(warm)) for warm in (False, True)}

    def launches(self, warm: bool) -> list[Launch]:
        """The kernels of one frame, in order."""
        stcrf, capacity, slots = self.config.stcrf, np.int32(self.capacity), self.slots
        wide = self._wide_groups()
        node_groups = -(-self.nodes // _GROUP)
        locate = (self._incoming, self._frames, self._intake, self._located, self._rank, self._counts, self._cursors)
        prepare = (self._frames, self._counts, self._segments, self._cursors, self._dense, self._states[0], self._prior)
        place = (self._frames, self._located, self._rank, self._segments, self._ordered, capacity)
        outputs = (self.label.buffer, self.probability.buffer, self.height.buffer, self.layers.buffer)
        label = (self._frames, self._located, self._surface, *outputs, capacity)
        return [
            Launch("locate", wide, _GROUP, (*locate, capacity), slots),
            Launch("prepare", node_groups, _GROUP, (*prepare, self._expected), slots),
            Launch("place", wide, _GROUP, place, slots),
            *self._iterations(stcrf.warm_iterations if warm else stcrf.iterations, warm),
            Launch("label", wide, _GROUP, label, slots),
        ]

    def _iterations(self, iterations: int, warm: bool) -> list[Launch]:
        """EM launches that read the prior first and leave the posterior in the first state buffer."""
        stcrf = self.config.stcrf
        lanes = self.backend.device.lanes
        dense_groups = 0 if lanes == 1 else 2 * self.backend.device.units
        groups = dense_groups + -(-self.nodes * lanes // _GROUP)
        launches = []
        source = self._prior
        for k in range(iterations):
            target = self._states[(iterations - 1 - k) % 2]
            sigma = stcrf.sigma_up_early if not warm and 2 * k < iterations else stcrf.sigma_up
            up = np.float32(-0.5 * _LOG2E / sigma**2)
            arguments = (
                self._frames, source, target, self._prior, self._expected, self._segments, self._ordered, self._dense,
                self._cursors, self._surface, np.int32(self.capacity), np.int32(dense_groups), up,
                np.int32(k == iterations - 1),
            )  # fmt: skip
            launches.append(Launch("iterate", groups, _GROUP, arguments, self.slots))
            source = target
        return launches

    def _wide_groups(self) -> int:
        """Work-groups for kernels over points: enough to fill the device, each takes several tiles of a large scan."""
        most = 4 * self.backend.device.units if self.backend.device.lanes > 1 else 16 * self.backend.device.units
        return max(1, min(-(-self.capacity // _GROUP), most))

    def offer(self, slot: int, points: Any) -> None:
        """Make a scan's points readable by the kernels; they may lie anywhere."""
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"points: expected shape (N, 3), found {tuple(points.shape)}")
        count = int(points.shape[0])
        self.reserve(count)
        frame = self.frames[slot]
        frame["count"] = count
        frame["points"] = self.backend.offer(points, self._intake, 3 * slot * self.capacity)

    def run(self, warm: bool, timed: bool = False) -> dict[str, float]:
        """Queue one frame for every slot; with `timed`, wait and give seconds per kernel."""
        self.frames["warm"] = warm
        for name, output in self._outputs():
            self.frames[name] = output.addresses
        self.backend.offer(self.frames.view(np.uint8), self._incoming)
        tape = self._tapes[warm]
        if timed:
            return tape.timed()
        tape.run()
        return {}

    def _outputs(self) -> list[tuple[str, Any]]:
        return [
            ("label", self.label),
            ("probability", self.probability),
            ("height", self.height),
            ("layers", self.layers),
        ]

    def want(self, outputs: Collection[str]) -> None:
        """Which outputs beside the labels kernels shall write."""
        self.frames["wanted"] = sum(OUTPUTS[name] for name in outputs)

    def forget(self) -> None:
        """Back to the state before the first frame, also after an error."""
        self._counts = self.backend.zeros(self.slots * self.nodes, np.int32)
        self._tapes = {warm: self.backend.tape(self._program, self.launches(warm)) for warm in (False, True)}


def definitions(config: GroundConfig, rows: int, columns: int) -> dict[str, int | float]:
    """What the kernels know when they are compiled."""
    stcrf, labels = config.stcrf, config.labels
    return {
        "GROUP": _GROUP,
        "DENSE_FROM": _DENSE_FROM,
        "COLUMNS": columns,
        "ROWS": rows,
        "NODES": rows * columns,
        "SPACING": stcrf.spacing,
        "ALPHA": stcrf.alpha,
        "BETA": stcrf.beta,
        "GAMMA": stcrf.gamma,
        "NEIGHBOURS": stcrf.neighbours,
        "HEIGHT_INFORMATION": stcrf.height_information,
        "SLOPE_INFORMATION": stcrf.slope_information,
        "SLOPE_LIMIT": stcrf.slope_limit,
        "UP": -0.5 * _LOG2E / stcrf.sigma_up**2,
        "DOWN": -0.5 * _LOG2E / stcrf.sigma_down**2,
        "VARIANCE_SCALE": stcrf.sigma_up**2 * stcrf.variance_factor,
        "KNOWN_VARIANCE": stcrf.known_sigma**2,
        "THRESHOLD": labels.threshold,
        "CLEARANCE": labels.clearance,
        "LOW_OUTLIER_DEPTH": labels.low_outlier,
    }
