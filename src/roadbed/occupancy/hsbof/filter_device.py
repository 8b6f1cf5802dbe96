# SPDX-License-Identifier: Apache-2.0
"""The hybrid sampling Bayesian occupancy filter on an accelerator: the steps of filter.py, with equal results.

A step is a recorded sequence of launches over the capacity of what it works on: nothing returns to the host within it.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from roadbed.core.geometry import Float32
from roadbed.occupancy.arrays import Cells
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.hsbof.buffers import FilterBuffers, ObservationBuffers, check_memory, tiles_of
from roadbed.occupancy.hsbof.model import CellRules, FilterModel, MotionRule
from roadbed.occupancy.hsbof.program import STEP, filter_program
from roadbed.occupancy.programs import GROUP
from roadbed.runtime import primitives
from roadbed.runtime.argument_struct import ArgumentStruct
from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Launch

_NAN_BITS = 0x7FC00000
_PARTS = (
    ("propagate_particles", "reorder_particles"),
    ("propagate_priors", "update_measurement", "estimate_velocities"),
    ("give_birth", "resample", "normalise"),
)


class HsbofDevice:
    """State and steps of the filter on a grid of `shape` (rows, columns) with cells of `spacing` metres.

    `given` are buffers that other kernels fill before a step.
    """

    def __init__(
        self,
        backend: Backend,
        shape: tuple[int, int],
        spacing: float,
        model: FilterModel,
        seed: int,
        given: ObservationBuffers,
        group: int = GROUP,
    ) -> None:
        self.backend, self.model, self.seed, self._given = backend, model, seed, given
        self.cells = Cells(*shape, spacing)
        self.size, self.capacity = shape[0] * shape[1], self.model.particles
        self.births = self.model.births
        check_memory(backend, self.size, self.model)
        self._group = group  # work-items per work-group, a power of two
        self._buffers = FilterBuffers(backend, self.size, self.capacity, self.births, self._group)
        self._arguments = ArgumentStruct(STEP, 1)
        self._motion_rules: tuple[float, ...] = ()
        self._known_rules = math.nan, True  # the time step and `layered` that they are for
        self._birth_rule = self.model.birth.on_grid(spacing)
        self.program, self._primitives = backend.build(filter_program(self._group)), primitives.build(backend)
        self._clearing = backend.graph(self._primitives, [primitives.fill(self._buffers.layers, 0, 5 * self.size)])
        self._forgetting = backend.graph(self._primitives, list(self._forget_launches()))
        self.forget()

    def forget(self) -> None:
        """Nothing is known, and the random numbers begin again."""
        self.frame = 0
        self._clearing.run()
        self._forgetting.run()

    def forget_motion(self, gap: float) -> None:
        """After a long gap nobody knows where movers are: dynamic mass becomes unknown, the rest fades."""
        kept = (math.exp(-gap / memory) for memory in (self.model.static_memory, self.model.free_memory))
        arguments = (self._buffers.layers, *(np.float32(share) for share in kept), np.int32(self.size))
        launch = Launch("fade", self._over(self.size), self._group, arguments)
        self._fading = self.backend.graph(self.program, [launch])  # kept while it may be under way
        self._fading.run()
        self._forgetting.run()

    @cached_property
    def parts(self) -> tuple[CommandGraph, ...]:
        """An iteration in three: particles moved and sorted, for which no observation is needed; what can be said of
        velocities after it; and the rest."""
        launches = list(self.launches())
        chosen = [[one for one in launches if one.phase in phases] for phases in _PARTS]
        return tuple(self.backend.graph(self.program, part) for part in chosen)

    def prefetch(self, dt: float, layered: bool = True) -> None:
        """Compute the rules of a step of `dt` seconds ahead of it; `layered` as in `Hsbof.step`."""
        if (dt, layered) != self._known_rules:
            cell = CellRules.of(self.model, dt, self.cells.spacing, layered)
            self._motion_rules = (*MotionRule.of(self.model, dt), *cell)
            self._known_rules = dt, layered

    def describe(
        self, dt: float, motion: GridMotion | None, ego_velocity: tuple[float, float], layered: bool = True
    ) -> None:
        """Tell the kernels of the next iteration, whose `parts` the caller runs."""
        motion = motion or GridMotion()
        self.frame += 1
        (rows, columns, spacing), cells = self.cells, motion.cells
        self.prefetch(dt, layered)
        (xx, xy), (yx, yy) = motion.rotation.tolist()
        birth = self._birth_rule._replace(ego_x=ego_velocity[0], ego_y=ego_velocity[1])
        between_centres = motion.between_centres(spacing)[1] if cells is None else cells
        self._arguments.write(
            0, xx, xy, yx, yy, *motion.shift, *between_centres, spacing,
            *self._motion_rules, *self.model.moving, *birth,
            rows, columns, self.size, cells is None, *(cells or (0, 0)), self.seed, self.frame,
        )  # fmt: skip
        self.backend.enqueue(self._arguments.array, self._buffers.step)

    def launches(self) -> Iterator[Launch]:
        """One step, in the paper's order; each phase is named as the CPU's."""
        b, g, step = self._buffers, self._given, self._buffers.step
        capacity, births, size = np.int32(self.capacity), np.int32(self.births), self.size
        sorting, sorted_cells, order = b.sort.launches(b.cells, b.order, self.capacity)

        def phase(name: str, *launches: tuple[Any, ...]) -> Iterator[Launch]:
            for kernel, count, *arguments in launches:
                yield Launch(kernel, self._over(count), self._group, tuple(arguments), phase=name)

        def draw(name: str, mass: Any, reached: Any, sums: Any, state: Any, count: int, draws: int) -> Iterator[Launch]:
            tiles = tiles_of(count, self._group)
            yield Launch("sum_tiles", tiles, self._group, (mass, reached, sums, np.int32(count)), phase=name)
            which = np.uint32(state is b.draw)
            arguments = (step, sums, state, np.int32(tiles), np.int32(draws), which)
            yield Launch("start_draw", 1, self._group, arguments, phase=name)

        yield from phase("propagate_particles", ("propagate", capacity, step, b.particles, b.cells, capacity))
        yield from (replace(one, phase="reorder_particles", program=self._primitives) for one in sorting)
        gather = ("gather", capacity, step, order, sorted_cells, b.particles, b.sorted, b.runs, capacity)
        yield from phase("reorder_particles", gather)
        yield from phase("propagate_priors", ("propagate_priors", size, step, b.layers, b.prior))
        seen = (g.probability, g.observedness, g.surface, g.label, g.velocity)
        weights = b.particles  # this memory is free until particles are drawn again
        weigh = (step, b.prior, *seen, sorted_cells, b.sorted, weights, capacity)
        update = (step, b.prior, *seen, b.runs, sorted_cells, weights, b.sorted, b.layers, b.birth, b.drawn)
        yield from phase(
            "update_measurement", ("weigh_particles", capacity, *weigh), ("update_measurement", size, *update)
        )
        registered = (g.label, g.velocity, g.component_cells)
        estimated = (b.particle_mass, b.mean, b.covariance, b.moving_alone)
        velocities = (step, b.runs, b.sorted, b.layers, *registered, *estimated)
        yield from phase(
            "estimate_velocities",
            ("estimate_velocities", size, *velocities),
            ("drop_lone_cells", size, step, b.moving_alone, b.mean, g.probability, g.label, g.velocity, b.moving),
        )
        yield from draw("give_birth", b.birth, b.birth_reached, b.birth_sums, b.birth_draw, size, self.births)
        born = (
            step,
            b.birth_draw,
            b.birth_reached,
            b.birth_sums,
            b.birth,
            b.particle_mass,
            b.mean,
            g.label,
            g.velocity,
        )
        yield from phase("give_birth", ("give_birth", births, *born, b.born, b.born_cells, births))
        both, newborn = (step, b.sorted, sorted_cells), (b.born, b.born_cells)
        merge = ("merge", capacity + births, *both, *newborn, b.merged_mass, b.merged_origin, capacity, births)
        yield from phase("resample", merge)
        merged = self.capacity + self.births
        yield from draw("resample", b.merged_mass, b.merged_reached, b.merged_sums, b.draw, merged, self.capacity)
        drawn = (step, b.draw, b.merged_reached, b.merged_sums, b.merged_origin, sorted_cells, b.born_cells)
        yield from phase(
            "resample",
            ("resample", capacity, *drawn, b.source, b.cells, capacity, births),
            ("note_drawn", capacity, step, b.cells, b.drawn, capacity),
        )
        lost = (step, b.layers, b.drawn, b.runs, b.lost)
        yield Launch("drop_mass_without_particles", b.sum_groups, self._group, lost, phase="normalise")
        copied = (step, b.source, b.cells, b.drawn, b.layers, b.sorted, b.born, b.particles, capacity)
        yield from phase("normalise", ("normalise", capacity, *copied))

    def _forget_launches(self) -> Iterator[Launch]:
        b, size = self._buffers, self.size
        yield primitives.fill(b.cells, size, self.capacity)
        for runs in (b.runs, b.drawn):
            yield primitives.fill(runs, 0, 2 * size)
        yield primitives.fill(b.mean, _NAN_BITS, 2 * size)
        yield primitives.fill(b.covariance, _NAN_BITS, 3 * size)
        for values, count in ((b.particle_mass, size), (b.moving, -(-size // 4)), (b.lost, 2 * b.sum_groups)):
            yield primitives.fill(values, 0, count)

    def _over(self, count: int) -> int:
        """Work-groups over so many items; on a CPU device each work-item takes a run of them."""
        device, all_of_them = self.backend.device, max(1, -(-int(count) // self._group))
        return all_of_them if device.lanes > 1 else min(all_of_them, 16 * device.units)

    @property
    def layers(self) -> Float32:
        """The masses (5, rows, columns)."""
        return self.backend.download(self._buffers.layers, 0, 5 * self.size).reshape(5, *self.cells[:2])

    @staticmethod
    def share_of(lost: Float32) -> float:
        """Of the masses without particles, and all of them, per work-group."""
        without, total = lost.sum(axis=0, dtype=np.float64).tolist()
        return without / total if total > 0 else 0.0
