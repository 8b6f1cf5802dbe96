# SPDX-License-Identifier: Apache-2.0
"""The hybrid sampling Bayesian occupancy filter (HSBOF): static mass S, free mass E on the grid, dynamic mass D on
particles, and U = 1 - S - D - E unknown.

The steps follow Rakotovao et al. 2015, section 2; docs/occupancy.md says where and why the default goes further.
"""

import math

import numpy as np

from roadbed.config.occupancy import OccupancyConfig
from roadbed.core.timing import timed
from roadbed.kernels.parallel import parallel_begin, parallel_for
from roadbed.occupancy.arrays import CHUNK, Cells, Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.hsbof.arrays import Draw, Masses, Particles, Velocities
from roadbed.occupancy.hsbof.birth_cpu import choose_birth_cells, give_birth
from roadbed.occupancy.hsbof.cells_cpu import test_particles, update_measurement
from roadbed.occupancy.hsbof.model import CellRules, FilterModel, MotionRule
from roadbed.occupancy.hsbof.particles_cpu import (
    drop_mass_without_particles,
    gather,
    normalise,
    propagate,
    reorder,
    resample,
)
from roadbed.occupancy.hsbof.priors_cpu import interpolate_layers, roll_layers
from roadbed.occupancy.hsbof.velocities_cpu import drop_lone_cells, estimate_velocities
from roadbed.occupancy.registration.arrays import Registered
from roadbed.occupancy.registration.register import Registration

_STEPS = (
    "propagate_particles", "reorder_particles", "propagate_priors", "register_hits", "update_measurement",
    "estimate_velocities", "give_birth", "resample", "normalise",
)  # fmt: skip


class ParticleSet:
    """Particles of which the first `count` are in use."""

    def __init__(self, capacity: int) -> None:
        self.count = 0
        self.arrays = Particles.zeros(capacity)

    @property
    def capacity(self) -> int:
        return len(self.arrays.x)


class Hsbof:
    """State and steps of the filter on a grid of `shape` (rows, columns) with cells of `spacing` metres."""

    def __init__(self, shape: tuple[int, int], spacing: float, model: FilterModel | None = None, seed: int = 0) -> None:
        self.model = model or FilterModel.of(OccupancyConfig())
        self.cells = Cells(*shape, spacing)
        self.seed = seed
        self._births = self.model.birth.on_grid(spacing)
        self._registration = Registration(self.cells, self.model.registration)
        self.timings: dict[str, float] = {}  # s per step of the last iteration
        self.mass_without_particles = 0.0  # share of the dynamic mass that got no particle in the last iteration

        count, size = self.model.particles, shape[0] * shape[1]
        self.layers, self._prior = (np.zeros((5, *shape), np.float32) for _ in range(2))
        self.masses = Masses.of(self.layers)
        self.particles, self._sorted = ParticleSet(count), ParticleSet(count)
        self._born = ParticleSet(self.model.births)
        self._start = np.zeros(size + 1, np.int32)  # of each cell's particles in `_sorted`
        self._order, self._source = np.zeros(count, np.int32), np.zeros(count, np.int32)
        self._birth = np.zeros(shape, np.float32)  # newborn part of the dynamic mass
        self._per_cell = np.zeros(size, np.int32)  # particles born in a cell, then drawn in it
        self.forget()

    @staticmethod
    def bytes_needed(cells: int, particles: int) -> int:
        """Memory of the filter's arrays."""
        own = cells * (11 * 4 + 2 * 4 + 5 * 4 + 4 + 2) + particles * (3 * 9 * 4 + 8)
        return own + Registration.bytes_needed(cells)

    def forget(self) -> None:
        """Everything becomes unknown, and the random numbers begin again."""
        self.frame = 0
        self.layers[:] = 0
        self._forget_velocities()

    def forget_motion(self, gap: float) -> None:
        """After a gap of `gap` seconds dynamic mass becomes unknown, the rest fades."""
        self.masses.dynamic[:] = 0
        self.masses.static[:] *= np.float32(math.exp(-gap / self.model.static_memory))
        self.masses.free[:] *= np.float32(math.exp(-gap / self.model.free_memory))
        self._forget_velocities()

    def _forget_velocities(self) -> None:
        self._registration.forget()
        self.particles.count = 0
        shape = self.cells.rows, self.cells.columns
        self.velocities, self.moving = Velocities.unknown(shape), np.zeros(shape, np.bool_)

    def step(
        self,
        observation: Observation,
        dt: float,
        motion: GridMotion | None = None,
        ego_velocity: tuple[float, float] = (0.0, 0.0),
        layered: bool = True,
    ) -> None:
        """One iteration: predict by `dt` seconds, update with the observation grid (p_z, lambda), resample.

        `layered`: a sensor's surfaces have several layers, so that a hit without a surface starts no motion.
        """
        motion = motion or GridMotion()
        self.frame += 1
        self.timings = timings = dict.fromkeys(_STEPS, 0.0)
        draw = Draw(self.seed, self.frame)
        rules = CellRules.of(self.model, dt, self.cells.spacing, layered)
        # What `parallel_begin` gets does not depend on what follows it: another thread does it meanwhile.
        particles = parallel_begin(self._move_particles, dt, motion, draw, timings)
        with timed(timings, "propagate_priors"):
            self._propagate_priors(motion)
        with timed(timings, "register_hits"):
            registered = self._registration(observation, dt, motion, self.masses.maturity)
        particles()
        with timed(timings, "update_measurement"):
            self._update_measurement(observation, registered, rules)
        births = parallel_begin(self._choose_births, draw, timings)
        with timed(timings, "estimate_velocities"):
            self._estimate_velocities(registered)
        births()
        with timed(timings, "give_birth"):
            self._give_birth(registered, ego_velocity, draw)
        moving = parallel_begin(self._drop_lone_cells, observation, registered, timings)
        with timed(timings, "resample"):
            self._resample(draw)
        moving()
        with timed(timings, "normalise"):
            self._normalise()

    def _move_particles(self, dt: float, motion: GridMotion, draw: Draw, timings: dict[str, float]) -> None:
        """P2: each particle moves on by its velocity with random acceleration q_a, into the present grid. Then they are
        sorted by cell; those that left the grid are dropped."""
        p, s, rule = self.particles, self._sorted, MotionRule.of(self.model, dt)
        rotation, shift = np.array(motion.rotation), np.array(motion.shift)  # of the kind the kernel is compiled for
        with timed(timings, "propagate_particles"):
            parallel_for(propagate, p.count, p.arrays, rule, rotation, shift, self.cells, draw, grain=CHUNK)
        with timed(timings, "reorder_particles"):
            s.count = reorder(p.count, p.arrays.cell, self._start, self._order)
            parallel_for(gather, s.count, self._order, p.arrays, s.arrays, grain=CHUNK)

    def _propagate_priors(self, motion: GridMotion) -> None:
        """P6: the masses of the last iteration on the present grid."""
        if motion.cells is not None:
            parallel_for(roll_layers, self.cells.rows, self.layers, *motion.cells, self._prior)
        else:
            moved = motion.between_centres(self.cells.spacing)
            parallel_for(interpolate_layers, self.cells.rows, self.layers, *moved, self._prior)

    def _update_measurement(self, observation: Observation, registered: Registered, rules: CellRules) -> None:
        """P3-P5, P7-P10 and U1-U3: masses of cells and of their particles, given p_z and lambda."""
        prior, s = Masses.of(self._prior), self._sorted
        parallel_for(test_particles, s.count, s.arrays, prior, observation, rules, grain=CHUNK)
        given = (prior, observation, registered, self._start, s.arrays, rules)
        parallel_for(update_measurement, self._birth.size, *given, self.masses, self._birth, grain=CHUNK)

    def _estimate_velocities(self, registered: Registered) -> None:
        """Mean and covariance per cell, and which cells move; in new arrays, which are given out."""
        shape = self.moving.shape
        self.velocities, self.moving = Velocities.empty(shape), np.empty(shape, np.bool_)
        particles = (self._start, self._sorted.arrays, self.masses, registered, self.model.moving)
        parallel_for(estimate_velocities, self.moving.size, *particles, self.velocities, grain=CHUNK)

    def _drop_lone_cells(self, observation: Observation, registered: Registered, timings: dict[str, float]) -> None:
        given = (self.velocities, observation.probability, registered, self.model.moving)
        with timed(timings, "estimate_velocities"):
            parallel_for(drop_lone_cells, self.cells.rows, *given, self.moving)

    def _choose_births(self, draw: Draw, timings: dict[str, float]) -> None:
        b = self._born
        with timed(timings, "give_birth"):
            b.count = choose_birth_cells(self._birth.reshape(-1), b.capacity, draw, b.arrays.cell, self._per_cell)

    def _give_birth(self, registered: Registered, ego_velocity: tuple[float, float], draw: Draw) -> None:
        """New particles for the newborn mass e_ED E + e_SD S."""
        b, newborn = self._born, self._birth
        rule = self._births._replace(ego_x=ego_velocity[0], ego_y=ego_velocity[1])
        given = (self._per_cell, newborn, self.velocities, registered, rule, self.cells, draw)
        parallel_for(give_birth, b.count, b.arrays, *given, grain=CHUNK)

    def _resample(self, draw: Draw) -> None:
        """Draw as many particles as before by mass, from persistent and newborn ones."""
        p, s, b = self.particles, self._sorted, self._born
        p.count = resample(
            s.count, s.arrays, b.count, b.arrays, p.capacity, draw, self._source, p.arrays.cell, self._per_cell
        )

    def _normalise(self) -> None:
        """The particles of a cell get equal masses that sum to D."""
        p, dynamic = self.particles, self.masses.dynamic.reshape(-1)
        lost, total = drop_mass_without_particles(dynamic, self._per_cell)
        self.mass_without_particles = lost / total if total > 0 else 0.0
        given = (self._source, self._per_cell, dynamic, self._sorted.arrays, self._born.arrays)
        parallel_for(normalise, p.count, *given, p.arrays, grain=CHUNK)
