# SPDX-License-Identifier: Apache-2.0
"""The steps of the STCRF on the CPU: buffers that are allocated once, and the Numba kernels that fill them."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from roadbed.compute.compilation import announce
from roadbed.config.ground import GroundConfig
from roadbed.geometry import Float32, Float64, Lattice, Pose
from roadbed.ground.stcrf.align_cpu import fit_tilt, sample_residuals
from roadbed.ground.stcrf.em_cpu import expectation_maximization
from roadbed.ground.stcrf.labels_cpu import CLEAR, DECIDE, MEASURE, WRITE, label_points
from roadbed.ground.stcrf.measure_cpu import BANDS, COUNTERS
from roadbed.ground.stcrf.motion_cpu import shift, solve_field, transport
from roadbed.ground.stcrf.places_cpu import classify_nodes
from roadbed.ground.stcrf.rules import LabelRules
from roadbed.ground.stcrf.select_cpu import ANCHORS, PAD, reserve, select_points
from roadbed.ground.stcrf.sort_cpu import sort_by_node
from roadbed.ground.stcrf.spans_cpu import VECTOR, clear_spans, fill_expected, find_spans, keep_seen, share_rows
from roadbed.ground.stcrf.start_cpu import gather_lowest, spread_coarse
from roadbed.ground.stcrf.surface_cpu import describe_surface
from roadbed.ground.stcrf.vote_cpu import CELL_COLUMNS, PLANES
from roadbed.mapping.information import lower

F = np.float32
_CHUNKS = 16  # ranges of rows handed to threads; results do not depend on it
_ALIGNMENT_POINTS = 12000  # at most this many are looked at
_FEWEST_SAMPLES = 50
_ENOUGH_PRIOR = 0.2  # share of the seen nodes
_KNOWN_PRIOR = 0.05  # effective points
_NODE_COST = 6  # a node's arithmetic in an iteration costs about as much as this many points


@dataclass(frozen=True)
class Placement:
    """Where a scan lies over the lattice: sensor to the lattice's corner, heights from `base` (m)."""

    rotation: Float64  # (3, 3)
    translation: Float64  # (3,) m from the outer corner of node [0][0] and from the base height
    base: float  # m, height in the lattice frame from which the engine counts


@dataclass(frozen=True)
class Misalignment:
    """A scan over the prior surface: dz = lift + slope . (x, y from the sensor), and how many points then fit."""

    lift: float  # m
    slope_x: float
    slope_y: float
    share: float  # of the points within 0.1 m of the surface


class Field:
    """Information and planes of one lattice, with a border of empty nodes. See `em_cpu` for the layout."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        stride = columns + 2 + 2 * VECTOR  # spans of rows, and of three rows together, end at whole vectors
        padded = (rows + 2, 9, stride)
        self.information = np.zeros((2, *padded), F)  # P, X: the two Jacobi buffers
        self.prior = np.zeros(padded, F)  # P, X of the previous frame
        self.prior_mean = np.zeros((rows + 2, 3, stride), F)
        self.data = np.zeros(padded, F)
        self.expected = np.zeros((rows + 2, 3, stride), F)  # plane that the weak prior pulls to
        self.mean = np.zeros((rows + 2, 3, stride), F)  # mu = (h, sx, sy)
        self.reserved = np.zeros(rows * columns + 1, np.int32)
        self.count = np.zeros(rows * columns, np.int32)
        self.lo, self.hi = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
        self.wide_lo, self.wide_hi = np.zeros(rows + 2, np.int32), np.zeros(rows + 2, np.int32)
        self.row_chunks = np.zeros(_CHUNKS + 1, np.int32)
        self.row_sums = np.zeros((_CHUNKS, 3, 9, stride), F)
        self.work = np.zeros((_CHUNKS, 6, stride), F)
        self.result = 0  # which buffer of `information` is the posterior


class StcrfCpu:
    """One lattice's engine. Call `sort`, `select`, `start`, `estimate`, `label`, `surface` in this order."""

    def __init__(self, config: GroundConfig, rows: int, columns: int) -> None:
        announce((sort_by_node, select_points, expectation_maximization, label_points))
        self.config = config
        stcrf = config.stcrf
        self.rows, self.columns = rows, columns
        self.spacing = F(stcrf.spacing)
        nodes = rows * columns
        self.fine = Field(rows, columns)
        self.ratio = max(1, round(stcrf.coarse.spacing / stcrf.spacing))
        self.coarse = Field(-(-rows // self.ratio), -(-columns // self.ratio))
        self.side = max(1, round(stcrf.spacing / stcrf.column))
        self.low_side = max(1, round(stcrf.spacing / stcrf.coarse.cell))
        self.start_of_node = np.zeros(nodes + 1, np.int32)
        self.counts = np.zeros((numba.get_num_threads(), nodes), np.int32)
        self.low = np.zeros((nodes, self.low_side**2, 3), F)
        self.low_points = np.zeros((3, nodes * self.low_side**2 + PAD * self.coarse.rows * self.coarse.columns), F)
        self.rules = LabelRules.of(config.labels)
        if self.rules.around:
            self.bands = np.zeros((nodes, self.side**2, BANDS), np.uint16)
            cells = (-(-rows * self.side // CELL_COLUMNS), -(-columns * self.side // CELL_COLUMNS))
            self.votes = np.zeros((cells[0] + 2, cells[1] + 2, PLANES), np.int16)
        else:
            self.bands, self.votes = np.zeros((0, 0, 0), np.uint16), np.zeros((0, 0, 0), np.int16)
        self.counters = np.zeros((COUNTERS, rows, columns), np.int32)
        self.planes = np.zeros((7, rows, columns), np.int32)
        self.kinds = np.zeros(nodes, np.uint8)
        self.anchored = np.zeros(nodes, np.uint8)
        self.anchor_plane = np.zeros((nodes, 3), F)
        self.node_chunks = np.zeros(_CHUNKS + 1, np.int32)
        self.node_samples = np.zeros(nodes, np.int32)
        self._grow(0)

    def _grow(self, points: int) -> None:
        """Buffers for at least `points` points."""
        self.capacity = max(4096, int(points * 1.25))
        self.node = np.empty(self.capacity, np.int32)
        self.origin = np.empty(self.capacity, np.int32)
        self.column = np.empty(self.capacity, np.uint16)
        self.sorted = np.empty((3, self.capacity), F)
        self.dz = np.empty(self.capacity, F)
        self.probability = np.empty(self.capacity, F)
        self.ground = np.empty(self.capacity, np.bool_)
        self.samples = np.empty((3, self.capacity), F)
        self.shaping = np.empty((3, self.capacity + (PAD + ANCHORS) * self.rows * self.columns), F)
        self.weight = np.empty(max(self.shaping.shape[1], self.low_points.shape[1]), F)

    def sort(self, points: Float32, placement: Placement) -> None:
        """Points to their nodes (M_i), in node order."""
        if len(points) > self.capacity:
            self._grow(len(points))
        self.points = len(points)
        sort_by_node(
            points,
            placement.rotation.astype(F),
            placement.translation.astype(F),
            self.spacing,
            self.columns,
            self.rows,
            self.node[: len(points)],
            self.counts,
            self.start_of_node,
            *self.sorted,
            self.origin,
        )

    def select(
        self,
        anchors: tuple[NDArray[np.int64], Float64] | None,
        moving: tuple[NDArray[np.bool_], Float64, float] | None,
    ) -> None:
        """Which points shape the surface: no walls, nothing that moves, at most so many per node; known road added.

        `anchors`: nodes and their planes (h, sx, sy). `moving`: mask [y][x], its corner and its cell size.
        """
        stcrf, fine = self.config.stcrf, self.fine
        self.anchored[:] = 0
        if anchors is not None:
            self.anchored[anchors[0]] = 1
            self.anchor_plane[anchors[0]] = anchors[1]
        mask, corner, cell = moving if moving is not None else (np.zeros((0, 0), np.bool_), np.zeros(2), 1.0)
        reserve(self.start_of_node, stcrf.points_per_node, self.anchored, fine.reserved)
        share_rows(self.start_of_node, self.rows, self.columns, fine.row_chunks, _NODE_COST)
        # Two rows of nodes hold a whole number of vote cells, so that no two threads share one.
        self.node_chunks[:] = fine.row_chunks // CELL_COLUMNS * CELL_COLUMNS * self.columns
        self.node_chunks[-1] = self.rows * self.columns
        walls = stcrf.walls
        select_points(
            self.node_chunks,
            self.start_of_node,
            *self.sorted,
            self.column,
            fine.reserved,
            stcrf.points_per_node,
            self.anchored,
            self.anchor_plane,
            mask,
            corner.astype(F),
            F(1 / cell),
            self.spacing,
            self.columns,
            np.int32(self.side),
            F(walls.low),
            F(walls.high if walls.enabled or self.rules.around else 0),
            walls.enabled,
            np.int32(self.low_side if stcrf.start == "coarse" else 0),
            self.low,
            *self.shaping,
            fine.count,
        )
        share_rows(fine.reserved, self.rows, self.columns, fine.row_chunks, _NODE_COST)

    def start(self, warm: bool, road: float) -> None:
        """First surface: the prior's where there is one, else flat at height `road` or a coarse lattice's."""
        stcrf, fine = self.config.stcrf, self.fine
        clear_spans(fine.information, fine.data, fine.lo, fine.hi)
        self._find_spans(fine, warm)
        if warm:
            fine.information[0] = fine.prior
        if stcrf.start == "zero":
            fill_expected(fine.expected, fine.lo, fine.hi, F(road))
            return
        coarse = self.coarse
        gather_lowest(
            self.low, self.rows, self.columns, self.ratio, self.spacing, coarse.rows, coarse.columns, coarse.reserved,
            coarse.count, *self.low_points,
        )  # fmt: skip
        clear_spans(coarse.information, coarse.data, coarse.lo, coarse.hi)
        self._find_spans(coarse, False)
        fill_expected(coarse.expected, coarse.lo, coarse.hi, F(road))
        share_rows(coarse.reserved, coarse.rows, coarse.columns, coarse.row_chunks, _NODE_COST)
        self._run(coarse, self.low_points, stcrf.coarse.iterations, warm=False)
        spread_coarse(
            coarse.information[coarse.result, :, 0],
            coarse.mean,
            coarse.columns,
            self.ratio,
            self.spacing,
            F(stcrf.coarse.most_information),
            fine.lo,
            fine.hi,
            fine.expected,
        )

    def estimate(self, warm: bool) -> None:
        """The EM on the fine lattice; with a prior under most of the scan a few iterations are enough."""
        stcrf = self.config.stcrf
        self.warm = warm
        few = warm and self._overlap() >= _ENOUGH_PRIOR
        self._run(self.fine, self.shaping, stcrf.warm_iterations if few else stcrf.iterations, warm)

    def _overlap(self) -> float:
        """Share of the nodes with points that the prior knows."""
        seen = self.fine.count.reshape(self.rows, self.columns) > 0
        known = self.fine.prior[1:-1, 0, 1 : self.columns + 1] > _KNOWN_PRIOR
        return float((seen & known).sum() / max(1, seen.sum()))

    def _find_spans(self, field: Field, warm: bool) -> None:
        find_spans(
            field.count, field.prior, warm, field.rows, field.columns, self.config.stcrf.reach, field.lo, field.hi,
            field.wide_lo, field.wide_hi,
        )  # fmt: skip

    def _height_information(self, field: Field) -> np.float32:
        stcrf = self.config.stcrf
        from_coarse = field is self.fine and stcrf.start == "coarse"
        return F(stcrf.coarse_height_information if from_coarse else stcrf.height_information)

    def _run(self, field: Field, points: Float32, iterations: int, warm: bool) -> None:
        stcrf = self.config.stcrf
        fine = field is self.fine
        wide = 1 if fine else self.ratio
        field.result = expectation_maximization(
            field.row_chunks,
            field.reserved,
            field.count,
            *points,
            self.weight,
            field.information,
            field.prior,
            field.data,
            field.expected,
            field.mean,
            field.lo,
            field.hi,
            field.wide_lo,
            field.wide_hi,
            field.row_sums,
            field.work,
            F(stcrf.spacing * wide),
            iterations,
            F(stcrf.alpha),
            F(stcrf.beta),
            stcrf.neighbours,
            F(stcrf.gamma if warm else 0),
            F(stcrf.sigma_up_early if fine and not warm else stcrf.sigma_up if fine else stcrf.coarse.sigma_up),
            F(stcrf.sigma_up if fine else stcrf.coarse.sigma_up),
            F(stcrf.sigma_down),
            F(0 if fine else stcrf.coarse.pull),
            self._height_information(field),
            # Over a wide node a slope matters more: its information grows with the lever arm.
            F(stcrf.slope_information * (wide**2 / 4 if wide > 1 else 1)),
            F(stcrf.slope_limit),
        )

    def label(self, label: NDArray[np.uint8], probability: Float32, height: Float32) -> None:
        """Write one label, ground probability c_j and height over the surface per input point."""
        rules = self.rules
        p00 = self.fine.information[self.fine.result, :, 0]
        outputs = label, probability, height
        self._label_phase(MEASURE, p00, outputs)
        if rules.around:
            ratio, even = rules.support_ratio, rules.support_even
            classify_nodes(self.counters, p00, self.rows, self.columns, ratio, even, self.planes, self.kinds)
            self._label_phase(DECIDE, p00, outputs)
        self._label_phase(WRITE, p00, outputs)
        if rules.vote:
            self._label_phase(CLEAR, p00, outputs)

    def _label_phase(self, phase: int, p00: Float32, outputs: tuple[NDArray[np.uint8], Float32, Float32]) -> None:
        stcrf = self.config.stcrf
        label_points(
            phase,
            self.node_chunks,
            self.start_of_node,
            *self.sorted,
            self.column,
            self.origin,
            self.node[: self.points],
            self.fine.mean,
            p00,
            self.dz,
            self.probability,
            self.bands,
            self.counters,
            self.kinds,
            self.ground,
            self.votes,
            self.columns,
            self.rows,
            self.side,
            self.rules,
            F(stcrf.sigma_up),
            F(stcrf.sigma_down),
            *outputs,
        )

    def surface(self, lattice: Lattice, base: float) -> tuple[Float32, Float32, Float32]:
        """Elevation (m, lattice frame), slopes and variance (m^2) of every node."""
        stcrf, fine = self.config.stcrf, self.fine
        elevation = np.empty(lattice.shape, F)
        slope = np.empty((*lattice.shape, 2), F)
        variance = np.empty(lattice.shape, F)
        describe_surface(
            fine.information[fine.result],
            stcrf.seen_only,
            fine.data,
            fine.prior,
            self.warm,
            fine.mean,
            fine.lo,
            fine.hi,
            self._height_information(fine),
            F(stcrf.slope_information),
            F(stcrf.sigma_up**2 * stcrf.variance_factor),
            F(stcrf.known_sigma**2),
            F(base),
            elevation,
            slope,
            variance,
        )
        return elevation, slope, variance

    def keep(self) -> None:
        """The posterior becomes the prior of the next frame, where the ground was seen now or before.

        What was only carried over from neighbours is not kept: it would be counted again in every frame.
        """
        fine = self.fine
        if self.config.stcrf.seen_only:
            posterior = fine.information[fine.result]
            keep_seen(posterior, fine.data, fine.mean, fine.lo, fine.hi, self.warm, fine.prior, fine.prior_mean)
        else:
            fine.prior[:] = fine.information[fine.result]
            fine.prior_mean[:] = fine.mean

    def forget(self) -> None:
        self.fine.prior[:] = 0

    def prior_information(self) -> Float32:
        """The prior as (9, rows, columns); a view, or a copy where it lives on a device."""
        return self.fine.prior[1:-1, :, 1 : self.columns + 1].transpose(1, 0, 2)

    def set_prior_information(self, information: Float32) -> None:
        """Take (9, rows, columns) as the prior."""
        self.fine.prior[1:-1, :, 1 : self.columns + 1] = information.transpose(1, 0, 2)
        stcrf, fine = self.config.stcrf, self.fine
        solve_field(fine.prior, F(stcrf.height_information), F(stcrf.slope_information), self.columns, fine.prior_mean)

    def knows_something(self) -> bool:
        return bool((self.fine.prior[:, 0] > _KNOWN_PRIOR).any())

    def shift(self, columns: int, rows: int) -> None:
        """Move the prior by whole nodes; nodes that enter are undefined."""
        fine = self.fine
        spare, spare_mean = fine.data, fine.expected
        shift(fine.prior, spare, self.columns, columns, rows)
        shift(fine.prior_mean, spare_mean, self.columns, columns, rows)
        fine.prior, fine.data = spare, fine.prior
        fine.prior_mean, fine.expected = spare_mean, fine.prior_mean

    def lower(self, by: float) -> None:
        """Count the prior's heights from a base that lies `by` metres higher."""
        lower(self.fine.prior, by)
        self.fine.prior_mean[:, 0] -= F(by)

    def transport(self, T_old_new: Pose, lattice: Lattice) -> None:
        """Carry the prior from the last vehicle frame to this one."""
        stcrf, fine = self.config.stcrf, self.fine
        spare, spare_mean = fine.data, fine.expected
        transport(
            fine.prior,
            self.columns,
            T_old_new.rotation.astype(F),
            T_old_new.translation.astype(F),
            F(lattice.x0),
            F(lattice.y0),
            self.spacing,
            F(stcrf.height_information),
            F(stcrf.slope_information),
            spare,
            spare_mean,
        )
        fine.prior, fine.data = spare, fine.prior
        fine.prior_mean, fine.expected = spare_mean, fine.prior_mean

    def misalignment(self, points: Float32, placement: Placement, radius: float) -> Misalignment | None:
        """How the scan lies over the prior surface; None where too little of it is known."""
        fine = self.fine
        stride = max(4, len(points) // _ALIGNMENT_POINTS)
        if len(points) < 4 * stride:
            stride = 1
        centre = placement.translation
        n = sample_residuals(
            points,
            stride,
            placement.rotation.astype(F),
            placement.translation.astype(F),
            self.columns,
            self.spacing,
            F(centre[0]),
            F(centre[1]),
            F(radius),
            fine.prior,
            fine.prior_mean,
            self.node_samples,
            self.origin,
            self.samples,
        )
        lift, slope_x, slope_y, share = fit_tilt(self.samples, self.origin, self.node_samples, n)
        if n < _FEWEST_SAMPLES:
            return None
        return Misalignment(lift, slope_x, slope_y, share)
