# SPDX-License-Identifier: Apache-2.0
"""The STCRF on an accelerator: buffers allocated once, and one recorded sequence of kernels per kind of frame.

It offers the steps of the CPU engine by the same names. They only note what is asked; the device does the whole frame in
one go when the labels are asked for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.compute.backend import Backend, Device, Launch, check_points
from roadbed.config.ground import GroundConfig
from roadbed.errors import ConfigError, InputError
from roadbed.frames import Float32, Float64, Lattice
from roadbed.ground.stcrf_cpu import Placement

FILES = (
    "ground/stcrf_frame.cl",
    "ground/stcrf_select.cl",
    "ground/stcrf_start.cl",
    "ground/stcrf_em.cl",
    "ground/stcrf_labels.cl",
)
COARSE_FILES = ("ground/stcrf_frame.cl", "ground/stcrf_em.cl")
GROUP = 256
_LOG2E = math.log2(math.e)
_FEW, _SOME, _MANY = 8, 64, 512  # points up to which one, eight and 32 work-items share a node; beyond, a work-group
_ANCHORS = 4  # points per node under the vehicle
_FOOTPRINT = (2.5, 1.5)  # m, half length and half width of the area under the vehicle
_MOST_SQUARES = 64  # fine columns per node that local memory holds
_BYTES_PER_POINT = 12 + 16 + 4 + 16 + 9
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
        self._frames = zeros(slots * FRAME.itemsize, np.uint8)
        self._counts = zeros(slots * nodes, np.int32)
        self._cursors = zeros(slots * 4, np.int32)
        self._segments = zeros(slots * nodes * 2, np.int32)
        self._lists = zeros(slots * 3 * nodes, np.int32)
        self._states = [zeros(slots * nodes * 12, np.float32) for _ in range(2)]
        self._priors = zeros(slots * 2 * nodes * 12, np.float32)
        self._expected = zeros(slots * nodes * 4, np.float32)
        self._surface = zeros(slots * nodes * 4, np.float32)
        self._incoming = backend.intake(slots * FRAME.itemsize, np.uint8)
        self._layers = backend.output((slots, 4, nodes), np.float32)
        self._coarse = CoarseLattice(backend, config, rows, columns, slots) if config.stcrf.start == "coarse" else None
        self.wanted = PROBABILITY | HEIGHT | LAYERS  # outputs beside the labels
        self._moving_capacity = 0
        self.frames = np.zeros(slots, FRAME)
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
        self._label = output((self.slots, capacity), np.uint8)
        self._probability = output((self.slots, capacity), np.float32)
        self._height = output((self.slots, capacity), np.float32)
        self.capacity = capacity
        self._record()

    def _reserve_mask(self, cells: int) -> None:
        if cells > self._moving_capacity:
            self._moving = self.backend.zeros((self.slots, cells), np.uint8)
            self._moving_capacity = cells
            if self.capacity:
                self._record()

    def _record(self) -> None:
        self._tapes = {warm: self.backend.tape(self._program, self._launches(warm)) for warm in (False, True)}

    def _launches(self, warm: bool) -> list[Launch]:
        """The kernels of one frame, in order."""
        stcrf, capacity, slots = self.config.stcrf, np.int32(self.capacity), self.slots
        iterations = stcrf.warm_iterations if warm else stcrf.iterations
        start = self._states[iterations % 2]  # the EM then ends in the first buffer
        over_points, over_nodes = self._groups_over_points(), -(-self.nodes // GROUP)
        coarse = self._coarse
        locate = (self._incoming, self._frames, self._intake, self._located, self._rank, self._counts, self._cursors)
        allocate = (self._frames, self._counts, self._segments, self._cursors, self._lists, self._priors, start)
        coarse_start = (coarse.start, coarse.expected) if coarse else (start, self._expected)
        place = (self._frames, self._located, self._rank, self._segments, self._sorted, capacity)
        outputs = (self._label.buffer, self._probability.buffer, self._height.buffer, self._layers.buffer)
        label = (self._frames, self._located, self._surface, *outputs, capacity)
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
        launches += self._iterations(iterations, warm)
        return [*launches, Launch("label", over_points, GROUP, label, slots)]

    def _select(self) -> list[Launch]:
        low_points = self._coarse.points if self._coarse else self._surface
        device = self.backend.device
        whole_groups = 0 if device.lanes == 1 else 4 * device.units
        arguments = (
            self._frames, self._moving, self._segments, self._sorted, self._lists, self._cursors, low_points,
            np.int32(self.capacity), np.int32(whole_groups), np.int32(self._moving_capacity),
        )  # fmt: skip
        groups = whole_groups + -(-self.nodes * device.lanes // GROUP)
        launches = [Launch("select_points", groups, GROUP, arguments, self.slots)]
        if whole_groups and self.config.stcrf.points_per_node:
            thin = (self._frames, self._segments, self._sorted, self._lists, self._cursors, np.int32(self.capacity))
            launches.append(Launch("thin_out", whole_groups, GROUP, thin, self.slots))
        return launches

    def _iterations(self, iterations: int, warm: bool) -> list[Launch]:
        """EM launches from one state buffer to the other; the posterior is left in the first."""
        stcrf = self.config.stcrf
        per_kind, groups = groups_over_nodes(self.backend.device, self.nodes)
        launches = []
        for k in range(iterations):
            source, target = self._states[(iterations - k) % 2], self._states[(iterations - 1 - k) % 2]
            sigma = stcrf.sigma_up_early if not warm and 2 * k < iterations else stcrf.sigma_up
            arguments = (
                self._frames, source, target, self._priors, self._expected, self._segments, self._sorted, self._lists,
                self._cursors, self._surface, np.int32(self.capacity + room_for_anchors(self.config)),
                np.int32(per_kind), np.float32(exponent(sigma)), np.float32(stcrf.gamma if warm else 0),
                np.int32(k == iterations - 1),
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
        frames["warm"], frames["road"], frames["wanted"] = warm, road, self.wanted
        for name, output in (
            ("label", self._label),
            ("probability", self._probability),
            ("height", self._height),
            ("layers", self._layers),
        ):
            frames[name] = output.addresses
        self.backend.offer(frames.view(np.uint8), self._incoming)
        if timed:
            return self._tapes[warm].timed()
        self._tapes[warm].run()
        return {}

    def fetch(self, slot: int = 0) -> None:
        """Wait for the outputs of a slot."""
        count = int(self.frames[slot]["count"])
        for output in (self._label, self._probability, self._height):
            self.backend.fetch(output, slot, count)
        self.backend.fetch(self._layers, slot, 4 * self.nodes)
        self.backend.finish()

    def label(self, label: NDArray[np.uint8], probability: Float32, height: Float32, slot: int = 0) -> None:
        """Copy one label, ground probability c_j and height over the surface per input point."""
        for output, out in ((self._label, label), (self._probability, probability), (self._height, height)):
            out[:] = output.host[slot, : len(out)]

    def surface(self, lattice: Lattice, slot: int = 0) -> tuple[Float32, Float32, Float32]:
        """Elevation (m, lattice frame), slopes and variance (m^2) of every node."""
        layers = self._layers.host[slot].reshape(-1).copy()
        elevation, slope, variance = np.split(layers, [self.nodes, 3 * self.nodes])
        return elevation.reshape(lattice.shape), slope.reshape(*lattice.shape, 2), variance.reshape(lattice.shape)


class CoarseLattice:
    """The EM on wide nodes, which gives the first surface: a program of its own with the wide lattice's constants."""

    def __init__(self, backend: Backend, config: GroundConfig, rows: int, columns: int, slots: int) -> None:
        self._backend, self._stcrf, self._slots = backend, config.stcrf, slots
        facts = coarse_definitions(config, rows, columns)
        self._nodes = int(facts["NODES"])
        self.program = backend.build(COARSE_FILES, facts)
        zeros = backend.zeros
        self._per_node = ratio_of(config) ** 2 * low_side_of(config) ** 2
        # Places of nodes beyond the fine lattice are never written: no points there.
        self.points = backend.upload(np.tile(np.array([0, 0, 1e3, 0], np.float32), slots * self._nodes * self._per_node))
        self._states = [zeros(slots * self._nodes * 12, np.float32) for _ in range(2)]
        self.expected = zeros(slots * self._nodes * 4, np.float32)
        self._surface = zeros(slots * self._nodes * 4, np.float32)
        first = np.arange(self._nodes, dtype=np.int32) * self._per_node
        segments = np.stack([first, np.full_like(first, self._per_node)], axis=1)
        self._segments = backend.upload(np.tile(segments, (slots, 1)))
        # On a GPU all nodes are listed as having many points, so that a warp shares each.
        listed = np.tile(np.arange(self._nodes, dtype=np.int32), (slots, 3, 1))
        self._lists = backend.upload(listed)
        self._cursors = backend.upload(np.tile(np.array([0, 0, self._nodes, 0], np.int32), slots))
        iterations = self._stcrf.coarse.iterations
        self.start, self.result = self._states[iterations % 2], self._states[0]

    def launches(self) -> list[Launch]:
        per_kind, groups = groups_over_nodes(self._backend.device, self._nodes)
        iterations = self._stcrf.coarse.iterations
        up = np.float32(exponent(self._stcrf.coarse.sigma_up))
        launches = []
        for k in range(iterations):
            source, target = self._states[(iterations - k) % 2], self._states[(iterations - 1 - k) % 2]
            arguments = (
                self.points, source, target, target, self.expected, self._segments, self.points, self._lists,
                self._cursors, self._surface, np.int32(self._nodes * self._per_node), np.int32(per_kind), up,
                np.float32(0), np.int32(0),
            )  # fmt: skip
            launches.append(Launch("iterate", groups, GROUP, arguments, self._slots, "coarse", self.program))
        return launches


def groups_over_nodes(device: Device, nodes: int) -> tuple[int, int]:
    """Work-groups for each kind of listed nodes in the EM, and work-groups in all."""
    per_kind = 0 if device.lanes == 1 else device.units
    return per_kind, 3 * per_kind + -(-nodes // GROUP)


def exponent(sigma: float) -> float:
    """exp(-dz^2 / (2 sigma^2)) as a power of two: the factor of dz^2."""
    return -0.5 * _LOG2E / sigma**2


def ratio_of(config: GroundConfig) -> int:
    return max(1, round(config.stcrf.coarse.spacing / config.stcrf.spacing))


def low_side_of(config: GroundConfig) -> int:
    return max(1, round(config.stcrf.spacing / config.stcrf.coarse.cell))


def side_of(config: GroundConfig) -> int:
    return max(1, round(config.stcrf.spacing / config.stcrf.column))


def selects(config: GroundConfig) -> bool:
    """Whether some points are kept from shaping the surface, or some are added."""
    stcrf = config.stcrf
    return stcrf.walls.enabled or stcrf.points_per_node > 0 or stcrf.footprint or stcrf.start == "coarse"


def room_for_anchors(config: GroundConfig) -> int:
    """Points that may be added under the vehicle."""
    if not config.stcrf.footprint:
        return 0
    across = [math.ceil(2 * math.hypot(*_FOOTPRINT) / config.stcrf.spacing) + 1 for _ in range(2)]
    return _ANCHORS * across[0] * across[1]


def definitions(config: GroundConfig, rows: int, columns: int) -> dict[str, int | float]:
    """What the kernels know when they are compiled."""
    stcrf, labels = config.stcrf, config.labels
    side, ratio, low_side = side_of(config), ratio_of(config), low_side_of(config)
    if max(side, low_side) ** 2 > _MOST_SQUARES:
        raise ConfigError(
            f"stcrf.column = {stcrf.column:g}, stcrf.coarse.cell = {stcrf.coarse.cell:g}: accelerators take at most "
            f"{_MOST_SQUARES} columns per node, expected at least {stcrf.spacing / math.isqrt(_MOST_SQUARES):g}"
        )
    limit = stcrf.points_per_node
    from_coarse = stcrf.start == "coarse"
    coarse_columns, coarse_rows = -(-columns // ratio), -(-rows // ratio)
    return {
        "GROUP": GROUP,
        "FEW": _FEW,
        "SOME": min(_SOME, limit) if limit else _SOME,
        "MANY": _MANY,
        "COLUMNS": columns,
        "ROWS": rows,
        "NODES": rows * columns,
        "SPACING": stcrf.spacing,
        "ALPHA": stcrf.alpha,
        "BETA": stcrf.beta,
        "NEIGHBOURS": stcrf.neighbours,
        "HEIGHT_INFORMATION": stcrf.coarse_height_information if from_coarse else stcrf.height_information,
        "SLOPE_INFORMATION": stcrf.slope_information,
        "SLOPE_LIMIT": stcrf.slope_limit,
        "UP": exponent(stcrf.sigma_up),
        "DOWN": exponent(stcrf.sigma_down),
        "VARIANCE_SCALE": stcrf.sigma_up**2 * stcrf.variance_factor,
        "KNOWN_VARIANCE": stcrf.known_sigma**2,
        "ANCHORS": _ANCHORS if stcrf.footprint else 0,
        "EXTRA": room_for_anchors(config),
        "FOOTPRINT_X": _FOOTPRINT[0],
        "FOOTPRINT_Y": _FOOTPRINT[1],
        "SIDE": side,
        "WALLS": stcrf.walls.enabled,
        "WALL_LOW": stcrf.walls.low,
        "WALL_HIGH": stcrf.walls.high,
        "LIMIT": limit,
        "COARSE_START": from_coarse,
        "LOW_SIDE": low_side,
        "RATIO": ratio,
        "COARSE_COLUMNS": coarse_columns,
        "COARSE_ROWS": coarse_rows,
        "COARSE_NODES": coarse_columns * coarse_rows,
        "MOST_INFORMATION": stcrf.coarse.most_information,
        "THRESHOLD": labels.threshold,
        "CLEARANCE": labels.clearance,
        "LOW_OUTLIER_DEPTH": labels.low_outlier,
    }


def coarse_definitions(config: GroundConfig, rows: int, columns: int) -> dict[str, int | float]:
    """The same for the wide lattice's program."""
    fine, ratio = definitions(config, rows, columns), ratio_of(config)
    return {
        **fine,
        "COLUMNS": fine["COARSE_COLUMNS"],
        "ROWS": fine["COARSE_ROWS"],
        "NODES": fine["COARSE_NODES"],
        "SPACING": config.stcrf.spacing * ratio,
        "HEIGHT_INFORMATION": config.stcrf.height_information,
        # Over a wide node a slope matters more: its information grows with the lever arm.
        "SLOPE_INFORMATION": config.stcrf.slope_information * (ratio**2 / 4 if ratio > 1 else 1),
        "FEW": 0,  # every coarse node is listed
        "ANCHORS": 0,
        "COARSE_START": False,
    }
