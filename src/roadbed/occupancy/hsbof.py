# SPDX-License-Identifier: Apache-2.0
"""The hybrid sampling Bayesian occupancy filter (HSBOF): static mass on the grid, moving mass on particles.

The steps follow Rakotovao et al. 2015, section 2; docs/occupancy.md says where and why the default goes further.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from roadbed.config.occupancy import FilterConfig
from roadbed.geometry import Float32, Float64
from roadbed.occupancy import birth_cpu, cells_cpu, particles_cpu, priors_cpu, velocities_cpu
from roadbed.occupancy.fuse import FusedGrid
from roadbed.occupancy.model import NORMALISE, ODDS, RATE_STEP, STATIC_FIRST, SUBCELLS

_COMPOSE = {"odds": ODDS, "static-first": STATIC_FIRST, "normalise": NORMALISE}


class Particles:
    """Arrays of equal length; `count` of them are in use."""

    def __init__(self, capacity: int) -> None:
        self.count = 0
        self.x, self.y = np.zeros(capacity, np.float32), np.zeros(capacity, np.float32)  # m from the grid's corner
        self.vx, self.vy = np.zeros(capacity, np.float32), np.zeros(capacity, np.float32)  # m/s
        self.mass = np.zeros(capacity, np.float32)
        self.age = np.zeros(capacity, np.int32)  # resamplings survived
        self.tested = np.zeros(capacity, np.float32)  # 1: its motion just stood a test, fading to 0
        self.cell = np.zeros(capacity, np.int32)
        self.origin = np.zeros(capacity, np.int32)  # the cell it came from in this step


@dataclass(frozen=True, eq=False)
class GridMotion:
    """How the grid moved since the last step: `p_old = rotation p_new + shift`, metres from the grid's corner."""

    rotation: Float64 = field(default_factory=lambda: np.eye(2))
    shift: Float64 = field(default_factory=lambda: np.zeros(2))
    cells: tuple[int, int] | None = (0, 0)  # the shift in whole columns and rows; None: interpolate


class Hsbof:
    """State and steps of the filter on a grid of `shape` (rows, columns)."""

    def __init__(
        self, shape: tuple[int, int], resolution: float, config: FilterConfig | None = None, seed: int = 0
    ) -> None:
        self.config = config or FilterConfig()
        self.resolution = resolution
        self.shape = shape
        self.seed = seed
        self.frame = 0
        self.timings: dict[str, float] = {}
        self.uncarried = 0.0  # share of the dynamic mass that found no particle in the last step

        count = self.config.particles
        births = max(1, int(count * self.config.birth.share))
        self.static, self.dynamic, self.free, self.maturity = (np.zeros(shape, np.float32) for _ in range(4))
        self._prior = [np.zeros(shape, np.float32) for _ in range(4)]
        self._birth = np.zeros(shape, np.float32)
        self.particles, self._sorted, self._born = Particles(count), Particles(count), Particles(births)
        self._start = np.zeros(shape[0] * shape[1] + 1, np.int32)
        self._order = np.zeros(count, np.int32)
        self._source = np.zeros(count, np.int32)
        self._per_cell = np.zeros(shape[0] * shape[1], np.int32)
        self._old_mass = np.zeros(shape, np.float32)
        self.velocity = np.full((*shape, 2), np.nan, np.float32)
        self.velocity_covariance = np.full((*shape, 3), np.nan, np.float32)
        self.moving, self._moving_alone = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)

    @staticmethod
    def bytes_needed(cells: int, particles: int) -> int:
        """Memory of the filter's arrays."""
        return cells * (9 * 4 + 2 * 4 + 5 * 4 + 4 + 2) + particles * (3 * 9 * 4 + 8)

    @property
    def unknown(self) -> Float32:
        return np.maximum(1 - self.static - self.dynamic - self.free, 0, dtype=np.float32)

    @property
    def occupancy(self) -> Float32:
        return self.static + self.dynamic + np.float32(0.5) * self.unknown

    def step(
        self,
        observation: FusedGrid,
        dt: float,
        motion: GridMotion | None = None,
        own_velocity: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """One iteration: predict by `dt` seconds, update with the observation grid, resample."""
        motion = motion or GridMotion()
        self.timings = {}
        self.frame += 1
        with self._timed("propagate_particles"):
            self._propagate_particles(dt, motion)
        with self._timed("reorder_particles"):
            self._reorder_particles()
        with self._timed("propagate_priors"):
            self._propagate_priors(motion)
        with self._timed("update_measurement"):
            self._update_measurement(observation, dt)
        with self._timed("estimate_velocities"):
            self._estimate_velocities()
        with self._timed("give_birth"):
            self._give_birth(own_velocity)
        with self._timed("resample"):
            self._resample()
        with self._timed("normalise"):
            self._normalise()

    def forget_motion(self, gap: float) -> None:
        """After a long gap nobody knows where movers are: dynamic mass becomes unknown, the rest fades."""
        self.dynamic[:] = 0
        self.static *= np.float32(math.exp(-gap / self.config.static_memory))
        self.free *= np.float32(math.exp(-gap / self.config.free_memory))
        self.particles.count = 0
        self.moving[:] = False
        self.velocity[:] = np.nan
        self.velocity_covariance[:] = np.nan

    def _propagate_particles(self, dt: float, motion: GridMotion) -> None:
        p, config = self.particles, self.config
        diffusion = config.diffusion * math.sqrt(dt / RATE_STEP)
        acceleration = config.acceleration * math.sqrt(RATE_STEP / dt) if dt > 0 else 0.0
        particles_cpu.propagate(
            p.count, p.x, p.y, p.vx, p.vy, dt, acceleration, diffusion, motion.rotation, motion.shift,
            self.resolution, self.shape[1], self.shape[0], self.seed, self.frame, p.cell, p.origin,
        )  # fmt: skip

    def _reorder_particles(self) -> None:
        p, s = self.particles, self._sorted
        s.count = particles_cpu.reorder(p.count, p.cell, self._start, self._order)
        particles_cpu.gather(
            s.count, self._order, p.x, p.y, p.vx, p.vy, p.mass, p.age, p.tested, p.cell, p.origin,
            s.x, s.y, s.vx, s.vy, s.mass, s.age, s.tested, s.cell, s.origin,
        )  # fmt: skip

    def _propagate_priors(self, motion: GridMotion) -> None:
        state = (self.static, self.dynamic, self.free, self.maturity)
        if motion.cells is not None:
            priors_cpu.roll_priors(*state, *motion.cells, *self._prior)
            return
        # From metres at the corner to indices of cell centres.
        half = np.full(2, 0.5)
        shift = motion.rotation @ half + motion.shift / self.resolution - half
        priors_cpu.interpolate_priors(*state, motion.rotation, shift, *self._prior)

    def _update_measurement(self, observation: FusedGrid, dt: float) -> None:
        static, dynamic, free, maturity = self._prior
        s = self._sorted
        memory = math.exp(-dt / self.config.moving.test_memory)
        cells_cpu.test_particles(
            s.count, s.cell, s.origin, s.tested, free, observation.probability, observation.observedness, memory
        )
        radius = round(self.config.maturity.radius / self.resolution)
        cells_cpu.update_measurement(
            _COMPOSE[self.config.compose], static, dynamic, free, maturity,
            observation.probability, observation.observedness, observation.surface, radius,
            self._rates(dt), SUBCELLS / self.resolution, self._start, s.x, s.y, s.vx, s.vy, s.mass,
            self.static, self.dynamic, self.free, self.maturity, self._birth,
        )  # fmt: skip

    def _estimate_velocities(self) -> None:
        s, rule = self._sorted, self.config.moving
        velocities_cpu.velocities(
            self._start, s.vx, s.vy, s.mass, s.age, s.tested, self.static, self.dynamic, self.free,
            velocities_cpu.MovingRule(**rule.model_dump(exclude={"test_memory", "neighbours"})),
            self._old_mass, self.velocity, self.velocity_covariance, self._moving_alone,
        )  # fmt: skip
        velocities_cpu.drop_lone_cells(self._moving_alone, self.velocity, rule.neighbours, self.moving)

    def _give_birth(self, own_velocity: tuple[float, float]) -> None:
        b, config = self._born, self.config.birth
        self._per_cell[:] = 0
        b.count = birth_cpu.choose_birth_cells(
            self._birth.reshape(-1), len(b.x), self.seed, self.frame, b.cell, self._per_cell
        )
        seed_cells = max(1, round(config.seed_radius / self.resolution))
        rule = birth_cpu.BirthRule(
            config.speed, config.traffic, config.traffic_spread, *own_velocity, config.fast, config.fast_speed,
            config.seeded, seed_cells, config.seed_spread,
        )  # fmt: skip
        birth_cpu.give_birth(
            b.count, b.cell, self._per_cell, self._birth, self._old_mass, self.velocity, rule, self.resolution,
            self.seed, self.frame, b.x, b.y, b.vx, b.vy, b.mass, b.age,
        )  # fmt: skip

    def _resample(self) -> None:
        p, s, b = self.particles, self._sorted, self._born
        self._per_cell[:] = 0
        p.count = particles_cpu.resample(
            s.count, s.cell, s.mass, b.count, b.cell, b.mass, len(p.x), self.seed, self.frame,
            self._source, p.cell, self._per_cell,
        )  # fmt: skip

    def _normalise(self) -> None:
        p, s, b = self.particles, self._sorted, self._born
        dynamic = self.dynamic.reshape(-1)
        lost, total = particles_cpu.drop_uncarried(dynamic, self._per_cell)
        self.uncarried = lost / total if total > 0 else 0.0
        particles_cpu.normalise(
            p.count, self._source, p.cell, self._per_cell, dynamic, s.x, s.y, s.vx, s.vy, s.age, s.tested,
            b.x, b.y, b.vx, b.vy, p.x, p.y, p.vx, p.vy, p.mass, p.age, p.tested,
        )  # fmt: skip

    def _rates(self, dt: float) -> cells_cpu.CellRates:
        config, steps = self.config, dt / RATE_STEP

        def over(rate: float) -> float:
            """A rate per 0.1 s over this time step."""
            return 1 - (1 - rate) ** steps

        mature = config.maturity
        return cells_cpu.CellRates(
            keep_static=math.exp(-dt / config.static_memory),
            keep_free=math.exp(-dt / config.free_memory),
            vacated=float(config.vacated_is_free),
            empty_to_static=over(config.empty_to_static),
            empty_to_dynamic=over(config.empty_to_dynamic),
            static_to_dynamic=over(config.static_to_dynamic),
            dynamic_to_static=over(config.dynamic_to_static),
            inverse_stop_speed=1 / (2 * config.stop_speed**2),
            survival=config.survival**steps,
            unobserved_loss=over(1 - config.unobserved_survival),
            hit_static=config.unknown_hit.static,
            hit_dynamic=config.unknown_hit.dynamic,
            free_static=config.unknown_free.static,
            free_dynamic=config.unknown_free.dynamic,
            maturity_begin=mature.begin if mature.enabled else math.inf,
            maturity_span=mature.full - mature.begin,
            maturity_static=over(mature.static_rate),
            maturity_decay=mature.decay**steps,
            time_step=dt,
            surface_precision=0.5 * (self.resolution / SUBCELLS / config.surface_sigma) ** 2 if config.surface else 0.0,
            surface_floor=config.surface_floor,
        )

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begin = perf_counter()
        yield
        self.timings[name] = perf_counter() - begin
