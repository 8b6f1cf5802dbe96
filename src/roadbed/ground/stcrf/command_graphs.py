# SPDX-License-Identifier: Apache-2.0
"""The kernels of the STCRF as command graphs, recorded once per type of frame and run for every scan."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.ground.stcrf.buffers import Buffers
from roadbed.ground.stcrf.model import EARLY_SIGMA_UP, FIT_GROUPS, FIT_SIGMAS
from roadbed.ground.stcrf.programs import GROUP, EmLayout, exponent, fine_program, selects
from roadbed.ground.stcrf.rules import LabelRules
from roadbed.ground.stcrf.sizes import lattice_of
from roadbed.ground.stcrf.start.start_device import CoarseLattice
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Launch, PhaseOrder

# Phases that may run at the same time as another phase and its successors.
_CONCURRENT_WITH = {"coarse": "thin_out", "slope_start": "coarse", "components": "measure"}


class CommandGraphs:
    """The graphs `of_frame`, `motion` and `alignment`; call `record` again when buffers have grown."""

    def __init__(self, backend: Backend, config: Config, buffers: Buffers) -> None:
        self._backend, self._config, self._buffers = backend, config, buffers
        self._ground, self._stcrf, self._slots = config.ground, config.ground.stcrf, buffers.slots
        self._nodes = lattice_of(config.ground).size
        self._program = backend.build(fine_program(config))
        self._coarse = CoarseLattice(backend, config, buffers.slots) if config.ground.uses("coarse_start") else None
        self.record()

    def of_frame(
        self, warm: bool, carried: bool = False, few_iterations: bool = True
    ) -> tuple[CommandGraph, CommandGraph]:
        """The two graphs of a frame: sort, which also counts the nodes that the prior knows, and the rest.

        `carried`: the prior has a plane for every node, from which the coarse lattice starts. `few_iterations`: use
        `warm_iterations` if there is a prior.
        """
        iterations = self._stcrf.warm_iterations if warm and few_iterations else self._stcrf.iterations
        key = warm, iterations, warm and carried
        if key not in self._frames:
            sort, rest = self._sort(*key[1:]), self._after_sort(*key)
            order = order_of(rest) if self._backend.branches_are_free else None
            graph, program = self._backend.graph, self._program
            self._frames[key] = graph(program, sort), graph(program, rest, order)
        return self._frames[key]

    def record(self) -> None:
        graph = self._backend.graph
        self._frames: dict[tuple[bool, int, bool], tuple[CommandGraph, CommandGraph]] = {}
        self.motion = graph(self._program, self._motion())
        self.alignment = graph(self._program, self._alignment())

    @property
    def _over_nodes(self) -> tuple[int, int]:
        """Work-groups and their size: a work-item per node."""
        return -(-self._nodes // GROUP), GROUP

    @property
    def _over_rows(self) -> tuple[int, int]:
        """The same, but on a CPU each work-item takes a range of nodes."""
        return self._over_nodes if self._backend.device.lanes > 1 else self._runs

    @property
    def _over_points(self) -> tuple[int, int]:
        """Work-groups that fill the device: each takes several tiles of a large scan, on a CPU a range of points."""
        device = self._backend.device
        if device.lanes == 1:
            return self._runs
        return max(1, min(-(-self._buffers.capacity // GROUP), 4 * device.units)), GROUP

    @property
    def _runs(self) -> tuple[int, int]:
        """Work-groups of one work-item, so many that the cores of a CPU finish at about the same time."""
        return 32 * self._backend.device.units, 1

    def _launch(self, kernel: str, shape: tuple[int, int], *arguments: object) -> Launch:
        return Launch(kernel, *shape, arguments, self._slots)

    def _start(self, iterations: int) -> Any:
        """The state buffer from which the EM ends in the first one."""
        return self._buffers.states[iterations % 2]

    def _sort(self, iterations: int, carried: bool) -> list[Launch]:
        """The first kernels of a frame: sort points by node, and count the nodes that the prior knows."""
        b, coarse, capacity = self._buffers, self._coarse, np.int32(self._buffers.capacity)
        start = self._start(iterations)
        coarse_start = (coarse.start(carried), coarse.expected) if coarse else (start, b.expected)
        locate = (b.frames, b.input_buffer, b.located, b.rank, b.counts, b.cursors, b.tallies, capacity)
        states = (b.priors, start, b.expected, *coarse_start)
        allocate = (b.frames, b.counts, b.segments, b.cursors, b.lists, *states, np.int32(carried))
        place = (b.frames, b.located, b.rank, b.segments, b.cursors, b.sorted, b.overlap.buffer, capacity)
        launches = [
            self._launch("locate", self._over_points, *locate),
            self._launch("allocate", self._over_nodes, *allocate),
            self._launch("place", self._over_points, *place),
        ]
        if self._backend.device.lanes == 1 and LabelRules.of(self._config).around:
            return [self._launch("empty_tallies", self._runs, b.segments, b.tallies), *launches]
        return launches

    def _after_sort(self, warm: bool, iterations: int, carried: bool) -> list[Launch]:
        """The other kernels of a frame."""
        b, coarse = self._buffers, self._coarse
        launches = self._isolated() if self._ground.uses("isolated_returns") else []
        launches += self._select() if selects(self._config) else []
        if coarse:
            launches += coarse.launches(b.frames, carried)
            blend = (b.frames, coarse.result, b.priors, self._start(iterations), b.expected, np.int32(carried))
            launches.append(self._launch("blend_coarse", self._over_nodes, *blend))
        return [*launches, *self._iterations(iterations, warm), *self._labelling()]

    def _isolated(self) -> list[Launch]:
        """Marks of isolated returns below the ground."""
        b, device, capacity = self._buffers, self._backend.device, np.int32(self._buffers.capacity)
        groups = 4 * device.units  # work-groups for nodes that more than LANES work-items share
        shape = self._runs if device.lanes == 1 else (groups + -(-self._nodes * device.lanes // GROUP), GROUP)
        levels = (b.segments, b.sorted, b.lists, b.cursors, b.levels, capacity, np.int32(groups))
        low_returns = b.rank  # which is not needed any more once the points are sorted
        low = (b.frames, b.located, b.segments, b.levels, b.non_ground, low_returns, b.cursors, capacity)
        mark = (b.frames, b.located, b.segments, b.sorted, b.levels, low_returns, b.non_ground, b.cursors, capacity)
        return [
            self._launch("find_levels", shape, *levels),
            self._launch("list_low_returns", self._over_points, *low),
            self._launch("mark_isolated", self._runs if device.lanes == 1 else (8 * device.units, GROUP), *mark),
            self._launch("settle_isolated", self._over_points, b.frames, b.non_ground, b.cursors, capacity),
        ]

    def _select(self) -> list[Launch]:
        b, device = self._buffers, self._backend.device
        low_points = self._coarse.points if self._coarse else b.surface
        per_class = device.units  # work-groups for each size class of nodes that more than LANES work-items share
        arguments = (
            b.frames, b.moving, b.non_ground, b.segments, b.sorted, b.lists, b.cursors, low_points, b.tallies,
            np.int32(b.capacity), np.int32(per_class), np.int32(b.moving_capacity),
        )  # fmt: skip
        groups = 2 * per_class + -(-self._nodes * device.lanes // GROUP)
        shape = self._runs if device.lanes == 1 else (groups, GROUP)
        launches = [self._launch("select_points", shape, *arguments)]
        if device.lanes > 1 and self._stcrf.points_per_node:
            thin = (b.frames, b.sorted, b.lists, b.cursors, np.int32(b.capacity))
            launches.append(self._launch("thin_out", (2 * device.units, GROUP), *thin))
        return launches

    def _iterations(self, iterations: int, warm: bool) -> list[Launch]:
        """EM launches that alternate between two state buffers; the posterior ends in the first."""
        stcrf, b = self._stcrf, self._buffers
        layout = EmLayout.of(self._backend.device, *lattice_of(self._config.ground).shape, stcrf.points_per_node)
        per_slot = np.int32(b.capacity)
        early = EARLY_SIGMA_UP if self._ground.uses("early_tolerance") and not warm else stcrf.sigma_up
        launches = []
        for k in range(iterations):
            source, target = b.states[(iterations - k) % 2], b.states[(iterations - 1 - k) % 2]
            sigma = early if 2 * k < iterations else stcrf.sigma_up
            arguments = (
                b.frames, source, target, b.priors, b.expected, b.segments, b.sorted, b.lists, b.cursors, b.surface,
                b.seen, per_slot, np.int32(layout.whole_node), np.int32(layout.per_class), np.float32(exponent(sigma)),
                np.float32(stcrf.gamma if warm else 0), np.int32(k == iterations - 1),
            )  # fmt: skip
            launches.append(self._launch("iterate", (layout.groups, layout.size), *arguments))
        return launches

    def _labelling(self) -> list[Launch]:
        b, capacity = self._buffers, np.int32(self._buffers.capacity)
        over_points, over_nodes = self._over_points, self._over_nodes
        launches = []
        if LabelRules.of(self._config).around:
            over, state = b.rank, b.states[0]  # the heights reuse the buffer of the ranks
            measure = (b.frames, b.located, b.segments, b.sorted, b.surface, over, b.tallies)
            decide = (b.frames, b.located, over, b.tallies, b.node_classes, state, b.non_ground, b.decisions, capacity)
            launches = [
                self._launch("measure", over_points, *measure, capacity),
                self._launch("sum_rows", self._over_rows, b.tallies, b.row_sums),
                self._launch("classify_nodes", over_nodes, b.tallies, b.row_sums, state, b.segments, b.node_classes),
                self._launch("decide", over_points, *decide),
            ]
        seen_only, doubts = self._ground.uses("seen_only"), (b.doubts, b.clean, b.clean_sizes)
        states = b.states[1], b.states[0]  # before and after the last iteration of the EM
        find_clean = "find_clean", b.surface, b.seen, *states, b.expected, b.reported, *doubts
        components: list[tuple[Any, ...]] = [find_clean] if seen_only else []
        if seen_only and self._ground.uses("small_components"):
            components += [("join_clean", b.clean), ("count_clean", *doubts)]
        launches += [
            replace(self._launch(kernel, self._over_rows, b.frames, *arguments), phase="components")
            for kernel, *arguments in components
        ]
        nodes = b.surface, b.reported if seen_only else b.surface, b.seen, *doubts
        given = (b.frames, b.located, *nodes, b.tallies, b.non_ground, b.decisions)
        outputs = (b.label.buffer, b.probability.buffer, b.height.buffer, b.layers.buffer)
        return [*launches, self._launch("label", over_points, *given, *outputs, capacity)]

    def _motion(self) -> list[Launch]:
        b = self._buffers
        return [self._launch("move_prior", self._over_nodes, b.frames, *b.states, b.seen, b.expected, b.priors)]

    def _alignment(self) -> list[Launch]:
        b, capacity = self._buffers, np.int32(self._buffers.capacity)
        # Samples use the buffer of the sorted points, which are written later.
        samples = b.sorted, b.sample_counts, b.samples_found
        sample = (b.frames, b.input_buffer, b.non_ground, b.priors, *samples, capacity)
        launches = [self._launch("sample_residuals", (2 * self._backend.device.units, GROUP), *sample)]
        fitting = GROUP if self._backend.device.lanes > 1 else 1
        before, parts = b.fit_parts
        for k, sigma in enumerate(FIT_SIGMAS):
            before, parts = parts, before
            step = (*samples, before, parts, np.float32(exponent(sigma)), np.int32(k), capacity)
            launches.append(self._launch("fit_tilt", (FIT_GROUPS, fitting), *step))
        correct = (b.frames, *samples, parts, b.fit.buffer, capacity)
        return [*launches, self._launch("correct_pose", (1, fitting), *correct)]


def order_of(launches: Sequence[Launch]) -> PhaseOrder:
    """Phases in sequence, except those of _CONCURRENT_WITH."""
    order: dict[str, tuple[str, ...]] = {}
    ends: list[str] = []  # the phases that the next one waits for
    for launch in launches:
        phase = launch.phase or launch.kernel
        if phase in order:
            continue
        start = order.get(_CONCURRENT_WITH.get(phase, ""))
        order[phase] = tuple(ends) if start is None else start
        ends = [phase] if start is None else [*ends, phase]
    return order
