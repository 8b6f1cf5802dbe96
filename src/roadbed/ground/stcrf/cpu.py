# SPDX-License-Identifier: Apache-2.0
"""The STCRF's engine on the CPU: buffers that are allocated once, and the Numba kernels that fill them."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from roadbed.compute.compilation import announce
from roadbed.config import Config
from roadbed.geometry import Float32
from roadbed.ground.engine import FrameInput, FrameOutput, Misalignment, MovingMask, Placement, Rolled, Turned, Vehicle
from roadbed.ground.stcrf.align_cpu import Samples, fit_tilt, sample_residuals
from roadbed.ground.stcrf.arrays import Field, Moving, Outputs, ShapingPoints, SortedPoints
from roadbed.ground.stcrf.climb_cpu import (
    climb_arrays,
    count_all,
    count_explained,
    expect_envelope,
    find_heights,
    lower_envelope,
    may_be_better,
    take_better,
)  # fmt: skip
from roadbed.ground.stcrf.em_cpu import EmArrays, EmRules, expectation_maximization
from roadbed.ground.stcrf.islands_cpu import drop_islands
from roadbed.ground.stcrf.labels_cpu import CLEAR, DECIDE, MEASURE, WRITE, LabelArrays, label_points
from roadbed.ground.stcrf.model import (
    ANCHORS,
    BANDS,
    COUNTERS,
    ENOUGH_PRIOR,
    FEWEST_SAMPLES,
    FOOTPRINT_X,
    FOOTPRINT_Y,
    KNOWN_PRIOR,
    VOTE_PILLARS,
)  # fmt: skip
from roadbed.ground.stcrf.motion_cpu import shift, solve_field, transport
from roadbed.ground.stcrf.places_cpu import classify_nodes
from roadbed.ground.stcrf.rules import LabelRules
from roadbed.ground.stcrf.select_cpu import PAD, Selection, reserve, select_points
from roadbed.ground.stcrf.sizes import alignment_stride, check_memory_for, lattice_of, low_side_of, ratio_of, side_of
from roadbed.ground.stcrf.sort_cpu import sort_by_node
from roadbed.ground.stcrf.spans_cpu import VECTOR, clear_spans, fill_expected, find_spans, keep_seen, share_rows
from roadbed.ground.stcrf.start_cpu import gather_lowest, spread_coarse
from roadbed.ground.stcrf.surface_cpu import SurfaceRules, describe_surface
from roadbed.ground.stcrf.vote_cpu import empty_votes
from roadbed.mapping.information import lower
from roadbed.timing import timed

F = np.float32
_CHUNKS = 16  # ranges of rows handed to threads; results do not depend on it
_NODE_COST = 6  # a node's arithmetic in an iteration costs about as much as this many points
_NOTHING_STANDS = np.zeros(0, np.bool_)
_NOTHING_MOVES = Moving(np.zeros((0, 0), np.bool_), np.zeros(2, F), F(1))


class StcrfCpu:
    """`roadbed.ground.engine.GroundEngine` on one lattice. A frame is sort, select, start, em, label, surface."""

    def __init__(self, config: Config) -> None:
        self.config = config.ground
        check_memory_for(self.config)
        announce((sort_by_node, select_points, expectation_maximization, label_points))
        stcrf = self.config.stcrf
        rows, columns = lattice_of(self.config).shape
        nodes = rows * columns
        self._fine = Field(rows, columns, stcrf.spacing, _CHUNKS, VECTOR)
        self._ratio, self._side, self._low_side = ratio_of(self.config), side_of(self.config), low_side_of(self.config)
        wide = -(-rows // self._ratio), -(-columns // self._ratio)
        self._coarse, self._climbing = (Field(*wide, stcrf.spacing * self._ratio, _CHUNKS, VECTOR) for _ in range(2))
        self._climb_arrays = climb_arrays(*wide)
        self._start = np.zeros(nodes + 1, np.int32)
        self._counts = np.zeros((numba.get_num_threads(), nodes), np.int32)
        self._low = np.zeros((nodes, self._low_side**2, 3), F)
        self._low_points = np.zeros((3, nodes * self._low_side**2 + PAD * wide[0] * wide[1]), F)
        self._rules = LabelRules.of(config)
        self._bands, self._votes = np.zeros((0, 0, 0), np.uint16), np.zeros((0, 0, 0), np.int16)
        if self._rules.around:
            self._bands = np.zeros((nodes, self._side**2, BANDS), np.uint16)
            self._votes = empty_votes(rows * self._side, columns * self._side)
        self._counters = np.zeros((COUNTERS, rows, columns), np.int32)
        self._planes = np.zeros((7, rows, columns), np.int32)
        self._kinds = np.zeros(nodes, np.uint8)
        self._anchored = np.zeros(nodes, np.uint8)
        self._anchor_plane = np.zeros((nodes, 3), F)
        self._node_chunks = np.zeros(_CHUNKS + 1, np.int32)
        self._sample_counts = np.zeros(nodes, np.int32)
        self._warm = False
        self._grow(0)

    def _grow(self, points: int) -> None:
        """Buffers for at least `points` points."""
        capacity = max(4096, int(points * 1.25))
        self._node, self._origin = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
        self._pillar = np.empty(capacity, np.uint16)
        self._sorted = np.empty((3, capacity), F)
        self._dz, self._probability = np.empty(capacity, F), np.empty(capacity, F)
        self._ground = np.empty(capacity, np.bool_)
        self._samples = np.empty((3, capacity), F)
        self._shaping = np.empty((3, capacity + (PAD + ANCHORS) * self._kinds.size), F)
        self._weight = np.empty(max(self._shaping.shape[1], self._low_points.shape[1]), F)

    def frame(self, given: FrameInput) -> FrameOutput:
        timings: dict[str, float] = {}
        count = len(given.points)
        out = Outputs(np.empty(count, np.uint8), np.empty(count, F), np.empty(count, F))
        self._warm = given.warm
        with timed(timings, "sort"):
            points = self._sort(given.points, given.placement, given.standing)
        with timed(timings, "select"):
            shaping = self._select(points, given.vehicle, given.road, given.moving)
        with timed(timings, "start"):
            self._begin(points, given.vehicle, given.road)
        with timed(timings, "em"):
            few = self._warm and self._overlap() >= ENOUGH_PRIOR
            stcrf = self.config.stcrf
            self._run(self._fine, shaping, stcrf.warm_iterations if few else stcrf.iterations, self._warm)
        with timed(timings, "label"):
            self._label(points, out)
        with timed(timings, "surface"):
            elevation, slope, variance = self._surface(given.placement.base)
        return FrameOutput(*out, elevation, slope, variance, timings)

    def profile(self, given: FrameInput) -> dict[str, float]:
        return self.frame(given).timings

    def _sort(self, points: Float32, placement: Placement, standing: NDArray[np.bool_] | None) -> SortedPoints:
        """Points to their nodes (M_i), in node order."""
        if len(points) > len(self._node):
            self._grow(len(points))
        x, y, z = self._sorted
        stands = _NOTHING_STANDS if standing is None else standing
        out = SortedPoints(self._start, x, y, z, self._pillar, self._origin, self._node[: len(points)], stands)
        turn, move = placement.rotation.astype(F), placement.translation.astype(F)
        sort_by_node(points, turn, move, self._fine.shape, self._counts, out)
        return out

    def _select(self, points: SortedPoints, vehicle: Vehicle, road: float, moving: MovingMask | None) -> ShapingPoints:
        """Which points shape the surface: no walls, nothing that moves, at most so many per node; known road added."""
        stcrf, fine = self.config.stcrf, self._fine
        self._mark_anchors(vehicle, road)
        reserve(points.start, stcrf.points_per_node, self._anchored, fine.reserved)
        share_rows(points.start, fine.shape, fine.row_chunks, _NODE_COST)
        # Two rows of nodes hold a whole number of vote cells, so that no two threads share one.
        self._node_chunks[:] = fine.row_chunks // VOTE_PILLARS * VOTE_PILLARS * fine.shape.columns
        self._node_chunks[-1] = self._kinds.size
        walls = stcrf.walls
        rules = Selection(
            limit=stcrf.points_per_node,
            side=np.int32(self._side),
            wall_low=F(walls.low),
            wall_high=F(walls.high if walls.enabled or self._rules.around else 0),
            walls_out=walls.enabled,
            low_side=np.int32(self._low_side if stcrf.start == "coarse" else 0),
        )
        moves = _NOTHING_MOVES
        if moving is not None:
            moves = Moving(moving.mask, moving.corner.astype(F), F(1 / moving.spacing))
        x, y, z = self._shaping
        shaping = ShapingPoints(fine.reserved, fine.count, x, y, z, self._weight)
        select_points(
            self._node_chunks, points, fine.shape, rules, self._anchored, self._anchor_plane, moves, self._low, shaping
        )
        share_rows(fine.reserved, fine.shape, fine.row_chunks, _NODE_COST)
        return shaping

    def _mark_anchors(self, vehicle: Vehicle, road: float) -> None:
        """Nodes under the vehicle, and the plane (h, sx, sy) of its wheels there."""
        self._anchored[:] = 0
        if not self.config.stcrf.footprint:
            return
        rows, columns, _ = self._fine.shape
        spacing = self.config.stcrf.spacing
        x = (np.arange(columns) + 0.5) * spacing - vehicle.x
        y = (np.arange(rows) + 0.5) * spacing - vehicle.y
        reach = np.hypot(FOOTPRINT_X, FOOTPRINT_Y)
        near_columns, near_rows = np.flatnonzero(np.abs(x) < reach), np.flatnonzero(np.abs(y) < reach)
        x, y = np.meshgrid(x[near_columns], y[near_rows])
        cosine, sine = np.cos(vehicle.yaw), np.sin(vehicle.yaw)
        under = (np.abs(cosine * x + sine * y) < FOOTPRINT_X) & (np.abs(cosine * y - sine * x) < FOOTPRINT_Y)
        nodes = (near_rows[:, None] * columns + near_columns[None, :])[under]
        self._anchored[nodes] = 1
        heights = (road + vehicle.slope_x * x + vehicle.slope_y * y)[under]
        self._anchor_plane[nodes, 0] = heights
        self._anchor_plane[nodes, 1:] = vehicle.slope_x, vehicle.slope_y

    def _begin(self, points: SortedPoints, vehicle: Vehicle, road: float) -> None:
        """First surface: the prior's where there is one, else flat at height `road` or a coarse lattice's."""
        stcrf, fine, coarse = self.config.stcrf, self._fine, self._coarse
        clear_spans(fine.information, fine.data, fine.spans)
        # Nodes whose points are all left out are computed too: those points get heights like all others.
        held = np.diff(points.start).astype(fine.count.dtype) + fine.count
        find_spans(held, fine.prior, self._warm, fine.shape, stcrf.reach, fine.spans)
        if self._warm:
            fine.information[0] = fine.prior
        if stcrf.start == "zero":
            fill_expected(fine.expected, fine.spans, F(road))
            return
        x, y, z = self._low_points
        lowest = ShapingPoints(coarse.reserved, coarse.count, x, y, z, self._weight)
        gather_lowest(self._low, fine.shape, self._ratio, coarse.shape, lowest)
        clear_spans(coarse.information, coarse.data, coarse.spans)
        find_spans(coarse.count, coarse.prior, False, coarse.shape, stcrf.reach, coarse.spans)
        fill_expected(coarse.expected, coarse.spans, F(road))
        coarse.mean[:, 0], coarse.mean[:, 1:] = road, 0  # where nothing is near: not what an earlier scan left there
        share_rows(coarse.reserved, coarse.shape, coarse.row_chunks, _NODE_COST)
        self._run(coarse, lowest, stcrf.coarse.iterations, warm=False)
        if stcrf.coarse.climb:
            self._climb(lowest, vehicle, road)
        most = F(stcrf.coarse.most_information)
        p00 = coarse.posterior[:, 0]
        spread_coarse(p00, coarse.mean, coarse.shape, self._ratio, most, fine.spans, fine.expected)

    def _climb(self, lowest: ShapingPoints, vehicle: Vehicle, road: float) -> None:
        """The second coarse start, for hillsides; it replaces the first where it explains clearly more."""
        stcrf, coarse, climbing = self.config.stcrf, self._coarse, self._climbing
        shape, (heights, counts, sums) = coarse.shape, self._climb_arrays
        count_all(lowest, shape, counts[0])
        count_explained(lowest, coarse.mean, shape, counts[1])
        if not may_be_better(counts, sums):
            return
        slope = F(stcrf.slope_limit)
        find_heights(lowest, shape, F(vehicle.x), F(vehicle.y), F(road), heights[0])
        lower_envelope(heights, slope, shape)
        expect_envelope(heights[0], F(road), slope, shape, climbing.expected)
        clear_spans(climbing.information, climbing.data, climbing.spans)
        for own, ends in zip(climbing.spans, coarse.spans):
            own[:] = ends
        climbing.row_chunks[:] = coarse.row_chunks
        self._run(climbing, lowest, stcrf.coarse.climb_iterations, warm=False)
        count_explained(lowest, climbing.mean, shape, counts[2])
        take_better(counts, sums, climbing.posterior, climbing.mean, coarse.posterior, coarse.mean)

    def _overlap(self) -> float:
        """Share of the nodes with points that the prior knows."""
        rows, columns, _ = self._fine.shape
        seen = self._fine.count.reshape(rows, columns) > 0
        known = self._fine.prior[1:-1, 0, 1 : columns + 1] > KNOWN_PRIOR
        return float((seen & known).sum() / max(1, seen.sum()))

    def _height_information(self, field: Field) -> np.float32:
        stcrf = self.config.stcrf
        from_coarse = field is self._fine and stcrf.start == "coarse"
        return F(stcrf.coarse_height_information if from_coarse else stcrf.height_information)

    def _run(self, field: Field, points: ShapingPoints, iterations: int, warm: bool) -> None:
        """The EM on one of the two lattices."""
        stcrf = self.config.stcrf
        fine = field is self._fine
        wide = 1 if fine else self._ratio
        coarse_sigma = stcrf.coarse.climb_sigma_up if field is self._climbing else stcrf.coarse.sigma_up
        sigma_up = stcrf.sigma_up if fine else coarse_sigma
        rules = EmRules(
            iterations=iterations,
            alpha=F(stcrf.alpha),
            beta=F(stcrf.beta),
            neighbours=stcrf.neighbours,
            gamma=F(stcrf.gamma if warm else 0),
            sigma_up_early=F(stcrf.sigma_up_early if fine and not warm else sigma_up),
            sigma_up=F(sigma_up),
            sigma_down=F(stcrf.sigma_down),
            pull=F(0 if fine else stcrf.coarse.pull),
            height_information=self._height_information(field),
            # Over a wide node a slope matters more: its information grows with the lever arm.
            slope_information=F(stcrf.slope_information * (wide**2 / 4 if wide > 1 else 1)),
            slope_limit=F(stcrf.slope_limit),
        )
        field.result = expectation_maximization(
            field.row_chunks, points, _arrays(field), field.spans, field.row_sums, field.work, field.shape, rules
        )

    def _label(self, points: SortedPoints, out: Outputs) -> None:
        """One label, ground probability c_j and height over the surface per input point."""
        rules, fine = self._rules, self._fine
        surface = fine.mean, fine.posterior[:, 0]
        work = LabelArrays(
            self._dz, self._probability, self._ground, self._bands, self._counters, self._kinds, self._votes
        )

        def phase(number: int) -> None:
            label_points(number, self._node_chunks, points, fine.shape, self._side, rules, surface, work, out)

        phase(MEASURE)
        if rules.around:
            classify_nodes(self._counters, surface[1], fine.shape, rules, self._planes, self._kinds)
            phase(DECIDE)
        phase(WRITE)
        if rules.vote:
            phase(CLEAR)

    def _surface(self, base: float) -> tuple[Float32, Float32, Float32]:
        """Elevation (m, lattice frame), slopes and variance (m^2) of every node."""
        stcrf, fine = self.config.stcrf, self._fine
        shape = fine.shape.rows, fine.shape.columns
        elevation, slope, variance = np.empty(shape, F), np.empty((*shape, 2), F), np.empty(shape, F)
        rules = SurfaceRules(
            seen_only=stcrf.seen_only,
            height_information=self._height_information(fine),
            slope_information=F(stcrf.slope_information),
            scale=F(stcrf.sigma_up**2 * stcrf.variance_factor),
            disagreement=F(stcrf.disagreement),
            spacing=F(stcrf.spacing),
            largest_variance=F(stcrf.known_sigma**2),
            base=F(base),
        )
        describe_surface(fine.posterior, _arrays(fine), self._warm, fine.spans, rules, elevation, slope, variance)
        if stcrf.seen_only and stcrf.islands:
            unknown = rules.scale / rules.height_information
            drop_islands(stcrf.islands, rules.largest_variance, unknown, elevation, slope, variance)
        return elevation, slope, variance

    def keep(self) -> None:
        """The posterior becomes the prior where the ground was seen: what neighbours said would count again."""
        fine = self._fine
        if self.config.stcrf.seen_only:
            keep_seen(_arrays(fine), fine.posterior, fine.spans, self._warm, fine.prior_mean)
        else:
            fine.prior[:] = fine.posterior
            fine.prior_mean[:] = fine.mean

    def forget(self) -> None:
        self._fine.prior[:] = 0

    @property
    def prior(self) -> Float32:
        return self._fine.prior[1:-1, :, 1 : self._fine.shape.columns + 1].transpose(1, 0, 2)

    @prior.setter
    def prior(self, information: Float32) -> None:
        stcrf, fine = self.config.stcrf, self._fine
        fine.prior[1:-1, :, 1 : fine.shape.columns + 1] = information.transpose(1, 0, 2)
        weak = F(stcrf.height_information), F(stcrf.slope_information)
        solve_field(fine.prior, *weak, fine.shape.columns, fine.prior_mean)

    def move(self, motion: Rolled | Turned) -> None:
        stcrf, fine = self.config.stcrf, self._fine
        if isinstance(motion, Turned):
            rotation, translation = motion.T_old_new.rotation.astype(F), motion.T_old_new.translation.astype(F)
            origin = F(motion.x0), F(motion.y0)
            weak = F(stcrf.height_information), F(stcrf.slope_information)
            transport(fine.prior, fine.shape, origin, rotation, translation, *weak, fine.data, fine.expected)
            fine.take_prior()
            return
        if motion.columns or motion.rows:
            shift(fine.prior, fine.data, fine.shape.columns, motion.columns, motion.rows)
            shift(fine.prior_mean, fine.expected, fine.shape.columns, motion.columns, motion.rows)
            fine.take_prior()
        if motion.climb:
            lower(fine.prior, motion.climb)
            fine.prior_mean[:, 0] -= F(motion.climb)

    def misalignment(self, given: FrameInput, radius: float) -> Misalignment | None:
        fine, points, placement = self._fine, given.points, given.placement
        if len(points) > len(self._node):
            self._grow(len(points))
        samples = Samples(self._samples, self._origin, self._sample_counts)
        turn, move = placement.rotation.astype(F), placement.translation.astype(F)
        n = sample_residuals(
            points,
            alignment_stride(len(points)),
            turn,
            move,
            fine.shape,
            F(radius),
            fine.prior,
            fine.prior_mean,
            samples,
        )
        lift, slope_x, slope_y, share = fit_tilt(samples, n)
        return None if n < FEWEST_SAMPLES else Misalignment(lift, slope_x, slope_y, share)


def _arrays(field: Field) -> EmArrays:
    return EmArrays(field.information, field.prior, field.data, field.expected, field.mean)
