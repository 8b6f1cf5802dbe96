# SPDX-License-Identifier: Apache-2.0
"""The STCRF's engine on the CPU: buffers that are allocated once, and the Numba kernels that fill them."""

import math
from functools import cache, lru_cache, partial

import numpy as np

from roadbed.config import Config
from roadbed.core.geometry import Float32
from roadbed.core.timing import timed
from roadbed.ground.engine import FrameInput, FrameOutput, Misalignment, Rolled, Turned, Unaligned, Vehicle
from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.arrays import ActiveNodes, Field, Moving, Outputs, Runs, ShapingPoints, SortedPoints
from roadbed.ground.stcrf.cpu_rules import make_em_rules, make_surface_rules
from roadbed.ground.stcrf.em.em_cpu import EmArrays, run_em
from roadbed.ground.stcrf.labels.heights_cpu import BANDS_ROOM
from roadbed.ground.stcrf.labels.labels_cpu import LABEL_PHASES, LabelArrays, label_points
from roadbed.ground.stcrf.labels.vote_cpu import empty_votes, pillar_positions
from roadbed.ground.stcrf.motion.align_cpu import Samples, fit_tilt, sample_residuals
from roadbed.ground.stcrf.motion.motion_cpu import shift, shift_known, solve_field, transport
from roadbed.ground.stcrf.motion.pose_noise import with_scatter
from roadbed.ground.stcrf.points.active_columns_cpu import (
    CHUNKS,
    VECTOR,
    begin_active_columns,
    fill_expected,
    keep_seen,
    known_share,
    partition_points,
)  # fmt: skip
from roadbed.ground.stcrf.points.isolated_cpu import IsolatedReturns
from roadbed.ground.stcrf.points.node_classes_cpu import SUMS
from roadbed.ground.stcrf.points.select_cpu import Selection, select_points
from roadbed.ground.stcrf.points.sort_cpu import BLOCK, SORT_PHASES, SortScratch, sort_by_node
from roadbed.ground.stcrf.rules import LabelRules
from roadbed.ground.stcrf.sizes import (
    alignment_stride,
    check_memory_for,
    lattice_of,
    low_side_of,
    reach_of,
    side_of,
)  # fmt: skip
from roadbed.ground.stcrf.start.coarse_cpu import CoarseStart
from roadbed.ground.stcrf.surface.small_components_cpu import drop_small_components
from roadbed.ground.stcrf.surface.surface_cpu import (
    SURFACE_PHASES,
    Evidence,
    compute_variance,
    describe_surface,
)
from roadbed.kernels.parallel import parallel_begin, parallel_for, parallel_region, thread_count
from roadbed.kernels.progress import announce
from roadbed.kernels.simd import LANES
from roadbed.mapping.information import raise_base

F = np.float32
_NODES = 32_768  # that are worth a thread, where scans are worth waking any: a pass takes as long as to wake one
_POINTS = 8192  # of a scan from which its kernels are worth waking threads
_NONE = np.zeros(0, np.bool_)  # of the points: any may be ground
_NOTHING_MOVES = Moving(np.zeros((0, 0), np.bool_), np.zeros(2, F), F(1))


class StcrfCpu:
    """`roadbed.ground.engine.GroundEngine` on one lattice. A frame is sort, select, start, em, label, surface."""

    def __init__(self, config: Config) -> None:
        self.config = config.ground
        check_memory_for(self.config)
        announce("roadbed.ground.stcrf")
        stcrf = self.config.stcrf
        rows, columns = lattice_of(self.config).shape
        nodes = rows * columns
        self._fine = Field(rows, columns, stcrf.spacing, CHUNKS, VECTOR)
        self._side = side_of(self.config)
        self._coarse = CoarseStart(self.config, self._fine.shape) if self.config.uses("coarse_start") else None
        self._isolated = IsolatedReturns(self._fine.shape) if self.config.uses("isolated_returns") else None
        self._start = np.zeros(nodes + 1, np.int32)
        self._sort_scratch = SortScratch.of(thread_count(), nodes)
        self._sort_scratch_single = SortScratch(*(room[:1] for room in self._sort_scratch))  # of one slice
        self._low = self._coarse.low if self._coarse else np.zeros((nodes, 0, 3), F)
        self._rules, self._pillar_positions = LabelRules.of(config), pillar_positions(self._side)
        self._selection = self._make_selection()
        self._bands, self._votes = np.zeros((0, 0, 0), np.uint16), np.zeros((0, 0, 0), np.int16)
        if self._rules.around:
            self._votes = empty_votes(rows * self._side, columns * self._side)
        self._sums = np.zeros((SUMS, rows, columns), np.int32)
        self._active_nodes, self._active_nodes_before = ActiveNodes.none(rows, columns), ActiveNodes.none(rows, columns)
        self._node_classes = np.zeros(nodes, np.uint8)
        self._near_count, self._band_slot = np.zeros((2, nodes), np.int32)
        self._point_chunks = np.zeros(CHUNKS + 1, np.int32)  # ranges of rows that hold about as many points
        self._sample_counts = np.zeros(nodes, np.int32)
        self._evidence = Evidence.none(rows, self._fine.mean.shape[2])
        # Of functions: bound methods would keep the arrays of a closed filter until garbage is collected.
        self._em_rules = cache(partial(make_em_rules, self.config))
        self._surface_rules = lru_cache(4)(partial(make_surface_rules, self.config))
        self._warm = self._single_thread = False  # this frame uses the prior, and is computed by this thread only
        self._carries = False  # `prior_mean` holds a plane for every node, known or not
        self._started: FrameInput
        self._timings: dict[str, float] = {}
        self._level_at: np.float32 | None = None  # m, where the last frame started level; None: from carried planes
        self._shaping = np.empty((3, 0), F)
        self._grow(0)

    def _grow(self, points: int) -> None:
        """Buffers for at least `points` points."""
        capacity = max(4096, int(points * 1.25))
        self._runs = Runs.of(capacity, len(self._sort_scratch.count), BLOCK)
        self._sample_nodes = np.empty(capacity, np.int32)
        self._pillar = np.empty(capacity + LANES, np.uint16)  # whole vectors are read, also of the last points
        self._sorted = np.empty((3, capacity + LANES), F)
        self._dz, self._near = np.empty(capacity + LANES, F), np.empty(capacity, np.int32)
        self._ground, self._mark = np.empty((2, capacity + LANES), np.uint8)
        self._samples = np.empty((3, capacity), F)

    def frame(self, given: FrameInput) -> FrameOutput:
        self.start(given)
        return self.output(given)

    def start(self, given: FrameInput, unaligned: Unaligned | None = None) -> None:
        """The CPU computes when it is asked for results."""
        self._started, self._timings = given, {}

    def misalignment(self) -> Misalignment | None:
        with timed(self._timings, "align"):
            return self._misalignment(self._started)

    def output(self, given: FrameInput) -> FrameOutput:
        timings, out = self._timings, Outputs.of(len(given.points))
        self._warm, self._single_thread = given.warm, len(given.points) < _POINTS or thread_count() == 1
        self._sensor = given.placement.translation.astype(F)
        self._sensor[2] += F(given.rise)
        self._scatter = given.pose_variance if given.warm else (0.0, 0.0, 0.0)
        self._road = F(given.road)
        with timed(timings, "sort"):
            points = self._sort(given)
        with timed(timings, "select"):
            points, shaping = self._select(points, given)
        with timed(timings, "start"):
            self._begin(points, given.vehicle, given.road)
        with timed(timings, "em"):
            few = self._warm and self._overlap(shaping) >= model.ENOUGH_PRIOR
            stcrf = self.config.stcrf
            rules = self._em_rules(self._warm, stcrf.warm_iterations if few else stcrf.iterations)
            run_em(self._fine, shaping, rules, self._single_thread)
        timings |= {"label": 0.0, "surface": 0.0}  # in this order: neither waits for the other
        surface = parallel_begin(self._surface, given.placement.base, timings)
        with timed(timings, "label"):
            self._label(points, out)
        return FrameOutput(*out, *surface(), timings)

    def complete(self, timings: dict[str, float]) -> None:
        """The output is complete."""

    def profile(self, given: FrameInput) -> dict[str, float]:
        return self.frame(given).timings

    def warm_up_results(self) -> None:
        """Call the kernels of labels and surface without a scan: they need no kernel before them."""
        self._sensor, self._road, self._scatter = np.zeros(3, F), F(0), (0.0, 0.0, 0.0)
        self._label(self._points(), Outputs.of(0))
        self._surface(0.0, {})

    def _points(self) -> SortedPoints:
        """The scan in node order; without one, no points."""
        x, y, z = self._sorted
        return SortedPoints(self._start, x, y, z, self._pillar, self._mark, self._runs, self._active_nodes)

    def _sort(self, given: FrameInput) -> SortedPoints:
        """Points to their nodes (M_i), in node order."""
        points, placement, exclude = given.points, given.placement, given.exclude
        if len(points) > len(self._sample_nodes):
            self._grow(len(points))
        out = self._points()
        pose = placement.rotation.astype(F, "C"), placement.translation.astype(F)
        ego, known = (_NONE if mask is None else mask for mask in (exclude.ego_mask, exclude.non_ground_mask))
        room = self._sort_scratch_single if self._single_thread else self._sort_scratch
        sorting = (points, ego), known, pose, self._fine.shape, room, out
        parallel_region(sort_by_node, SORT_PHASES, *sorting, single_thread=self._single_thread)
        return out

    def _select(self, points: SortedPoints, given: FrameInput) -> tuple[SortedPoints, ShapingPoints]:
        """The points, without `mark` where none has one, and those of them that shape the surface: no walls, nothing
        that moves, at most so many per node."""
        stcrf, fine = self.config.stcrf, self._fine
        fine.cut(self._single_thread)
        chunks = self._point_chunks[:2] if self._single_thread else self._point_chunks
        room = fine.shape, fine.reserved, fine.row_chunks, chunks
        partition_points(points.start, points.active_nodes, stcrf.points_per_node, *room)
        marked = given.exclude.non_ground_mask is not None
        if self._isolated is not None:
            to_lattice, place = given.placement.rotation.T, given.placement.translation
            origins = (given.origins[: model.MOST_ORIGINS] @ to_lattice + place).astype(F)
            marked |= self._isolated.mark(points, chunks, origins, self._single_thread)
        if not marked:
            points = points._replace(mark=points.mark[:0])
        moves, moving = _NOTHING_MOVES, given.moving
        if moving is not None:
            moves = Moving(moving.mask, np.array(moving.corner, F), F(1 / moving.spacing))
        if fine.reserved[-1] > self._shaping.shape[1]:
            self._shaping = np.empty((3, fine.reserved[-1] + fine.reserved[-1] // 4), F)
        x, y, z = self._shaping
        shaping = ShapingPoints(fine.reserved, fine.count, x, y, z, points.active_nodes)
        selection = self._selection._replace(sensor=tuple(self._sensor))
        work = chunks, points, fine.shape, selection, moves, self._low, shaping
        parallel_region(select_points, 1, *work, single_thread=self._single_thread)
        return points, shaping

    def _make_selection(self) -> Selection:
        """Which points may shape the surface, as plain numbers."""
        exclude_walls = self.config.uses("wall_pillars")
        return Selection(
            limit=self.config.stcrf.points_per_node,
            side=np.int32(self._side),
            wall_low=F(model.WALL_LOW),
            wall_high=F(model.WALL_HIGH if exclude_walls or self._rules.around else 0),
            sensor=(F(0), F(0), F(0)),  # of each scan
            exclude_walls=exclude_walls,
            low_side=np.int32(low_side_of(self.config) if self._coarse else 0),
        )

    def _begin(self, points: SortedPoints, vehicle: Vehicle, road: float) -> None:
        """First surface: the prior's where there is one, else flat at height `road` or a coarse lattice's.

        The coarse lattice starts level, or from the last frame's surface where that was carried here.
        """
        fine, coarse, reach = self._fine, self._coarse, reach_of(self.config)
        # Nodes whose points are all left out are computed too: those points get heights like all others.
        written = fine.information, fine.written, fine.data[np.newaxis], fine.data_ends
        begin_active_columns(
            points.active_nodes, self._warm, fine.shape, reach, fine.active_columns, fine.prior, *written
        )
        self._level_at = None if self._warm and self._carries else F(road)
        if self._level_at is not None:
            fill_expected(fine.expected, fine.active_columns, self._level_at)
        if coarse is not None:
            carried = fine.prior_mean if self._level_at is None else None
            coarse.find(points, vehicle, road, carried, self._single_thread)
            before = fine.expected if carried is None else carried
            coarse.to_fine(fine.active_columns, before, fine.expected, self._grain)

    @property
    def _grain(self) -> int:
        """Rows of nodes that are worth a thread."""
        return self._fine.shape.rows + 2 if self._single_thread else -(-_NODES // self._fine.shape.columns)

    def _overlap(self, points: ShapingPoints) -> float:
        """Share of the nodes with points that the prior knows."""
        fine = self._fine
        return float(known_share(points.active_nodes, points.length, fine.prior, fine.shape.columns, model.KNOWN_PRIOR))

    def _label(self, points: SortedPoints, out: Outputs) -> None:
        """One label, ground probability c_j and height over the surface per input point."""
        rules, fine = self._rules, self._fine
        surface = fine.mean, fine.posterior[:, 0]
        if rules.around and points.active_nodes.row[-1] >= len(self._bands):
            rows = points.active_nodes.row[-1] * 5 // 4 + 1
            self._bands = np.empty((rows, self._side**2, BANDS_ROOM), np.uint16)
        near = self._near, self._near_count, self._band_slot
        places = self._node_classes, self._pillar_positions
        before = self._votes, self._active_nodes_before
        work = LabelArrays(self._dz, self._ground, *near, self._bands, self._sums, *places, *before)
        chunks = self._point_chunks[:2] if self._single_thread else self._point_chunks
        given = chunks, points, fine.shape, self._side, rules, surface, work, out
        parallel_region(label_points, LABEL_PHASES, *given, single_thread=self._single_thread)
        self._active_nodes, self._active_nodes_before = self._active_nodes_before, self._active_nodes

    def _surface(self, base: float, timings: dict[str, float]) -> tuple[Float32, Float32, Float32, Float32 | None]:
        """Elevation (m, lattice frame), slopes, variance (m^2) and, if that differs, without the poses' scatter."""
        uses, fine = self.config.uses, self._fine
        with timed(timings, "surface"):
            shape = fine.shape.rows, fine.shape.columns
            elevation, slope, variance = np.empty(shape, F), np.empty((*shape, 2), F), np.empty(shape, F)
            rules = self._surface_rules(self._warm, base)
            layers = elevation, slope, variance  # at first how far each node is in doubt
            arrays, seen_by = EmArrays.of(fine), (self._warm, self._sensor, self._road)
            given = fine.posterior, arrays, seen_by, fine.active_columns, rules, self._evidence, layers
            describe = describe_surface
            parallel_region(describe, SURFACE_PHASES, fine.row_chunks, *given, single_thread=self._single_thread)
            if uses("seen_only") and uses("small_components"):
                unknown = rules.scale / rules.height_information
                limits = model.SMALL_COMPONENT, rules.largest_variance, unknown
                drop_small_components(*limits, fine.active_columns, *layers)
            if uses("seen_only") and uses("neighbour_disagreement"):
                compute_variance(fine.active_columns, self._evidence, rules, variance)
                if any(self._scatter):
                    at = self._scatter, self._sensor, float(fine.shape.spacing), float(rules.largest_variance)
                    return elevation, slope, with_scatter(variance, *at), variance
        return elevation, slope, variance, None

    def keep(self) -> None:
        """The posterior becomes the prior where the ground was seen: what neighbours said would count again."""
        fine = self._fine
        if self.config.uses("seen_only"):
            self._carry_outside()
            gamma, carried = F(self.config.stcrf.gamma if self._warm else 0), self._level_at is None
            prior = self._warm, gamma, model.FARTHEST_ABOVE if self._coarse is not None and carried else F(np.inf)
            seen_by = self._sensor, self._road
            seen = EmArrays.of(fine), fine.posterior, fine.active_columns, prior, seen_by, fine.shape.spacing
            parallel_for(keep_seen, fine.shape.rows, *seen, fine.prior_ends, fine.prior_mean, grain=self._grain)
        else:
            fine.prior[:], fine.prior_mean[:], fine.prior_ends[:] = fine.posterior, fine.mean, fine.written
        self._carries = self._coarse is not None

    def _carry_outside(self) -> None:
        """What was expected of nodes outside of the active columns, where the last frame had no use for it."""
        fine = self._fine
        if self._coarse is not None:
            if self._level_at is not None:
                fine.prior_mean[:, 0], fine.prior_mean[:, 1:] = self._level_at, 0
            planes = fine.prior_mean
            self._coarse.to_fine(fine.active_columns, planes, planes, self._grain, inside=False)

    def forget(self) -> None:
        self._fine.prior[:], self._fine.prior_ends[:] = 0, 0
        self._carries = False

    @property
    def prior(self) -> Float32:
        return self._fine.prior[1:-1, :, 1 : self._fine.shape.columns + 1].transpose(1, 0, 2)

    @prior.setter
    def prior(self, information: Float32) -> None:
        fine = self._fine
        fine.prior[1:-1, :, 1 : fine.shape.columns + 1] = information.transpose(1, 0, 2)
        fine.prior_ends[0], fine.prior_ends[1] = 1, fine.shape.columns + 1
        weak = F(model.HEIGHT_WEIGHT), F(model.SLOPE_WEIGHT)
        solve_field(fine.prior, *weak, fine.shape.columns, fine.prior_mean)
        self._carries = False  # where nothing is known, these planes say nothing

    def move(self, motion: Rolled | Turned) -> None:
        fine = self._fine
        if isinstance(motion, Turned):
            rotation, translation = motion.T_old_new.rotation.astype(F), motion.T_old_new.translation.astype(F)
            origin = F(motion.x0), F(motion.y0)
            weak = F(model.HEIGHT_WEIGHT), F(model.SLOPE_WEIGHT)
            given = fine.prior, fine.shape, origin, rotation, translation, weak
            grain = fine.shape.rows if self._single_thread else 1
            parallel_for(transport, fine.shape.rows, *given, fine.data, fine.expected, grain=grain)
            fine.data_ends[0], fine.data_ends[1] = 1, fine.shape.columns + 1
            fine.take_prior()
            self._carries = False
            return
        if motion.columns or motion.rows:
            by = fine.shape.columns, motion.columns, motion.rows
            known = fine.prior, fine.prior_ends, fine.data, fine.data_ends
            parallel_for(shift_known, fine.shape.rows, *known, *by, grain=self._grain)
            planes = fine.prior_mean, fine.expected
            parallel_for(shift, fine.shape.rows + 2, *planes, *by, grain=self._grain)
            fine.take_prior()
        if motion.climb:
            raise_base(fine.prior, motion.climb)
            fine.prior_mean[:, 0] -= F(motion.climb)

    def _misalignment(self, given: FrameInput) -> Misalignment | None:
        """How the scan lies over the prior surface around the sensor; None where too little of it is known."""
        fine, points, placement = self._fine, given.points, given.placement
        if len(points) > len(self._sample_nodes):
            self._grow(len(points))
        # Where the occlusion filter has run, points on the ego vehicle are missing returns already.
        masks = given.exclude.non_ground_mask, given.exclude.ego_mask, _NONE
        left_out = next(mask for mask in masks if mask is not None)
        samples = Samples(self._samples, self._sample_nodes, self._sample_counts)
        turn, move = placement.rotation.astype(F, "C"), placement.translation.astype(F)
        scan, prior = (points, left_out, alignment_stride(len(points))), (fine.prior, fine.prior_mean)
        n, over = sample_residuals(*scan, turn, move, fine.shape, F(model.ALIGNMENT_RADIUS), *prior, samples)
        lift, slope_x, slope_y, share = fit_tilt(samples, n)
        if over >= model.FEWEST_SAMPLES and n < model.SMALLEST_OVERLAP * F(over):
            return Misalignment(lift, slope_x, slope_y, n / over, fits=False)
        if n < model.FEWEST_SAMPLES:
            return None
        tilt = math.hypot(slope_x, slope_y)
        fits = share >= model.SMALLEST_FIT and abs(lift) <= model.LARGEST_LIFT and tilt <= model.LARGEST_TILT
        return Misalignment(lift, slope_x, slope_y, share, fits)
