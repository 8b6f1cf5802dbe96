# SPDX-License-Identifier: Apache-2.0
"""The filter: its constants, and its parameters in the form the kernels take. Rates are per RATE_STEP seconds."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from roadbed.config.occupancy import OccupancyConfig, OccupancyRule
from roadbed.occupancy.model import SUBCELLS
from roadbed.occupancy.registration.model import RegistrationModel

# Shared with the device kernels. Streams of random numbers keep the draws of different steps apart.
PROPAGATE, BIRTH_PLACE, BIRTH_VELOCITY, BIRTH_TRAFFIC, BIRTH_SEED, BIRTH_SEED_SPREAD, SYSTEMATIC = np.arange(7)
CEILING = 0.999  # no mass becomes absorbing
ARRIVAL_CEILING = 0.98
NOTHING_LEFT = 1e-12
PROBABLY_FREE = 0.55  # free mass of a cell that was free and is not seen: its occupancy is above 0.2
WAS_EMPTY = 0.5  # free mass above which a cell was empty
MATURING = 0.6  # static mass above which a cell that is hit grows older
OLDEST = 10.0  # s
LONGEST_FREE = 10.0  # s
REPLACED = 2.0  # of the mass that comes into a hit cell, as much may have left it; what is more becomes unknown
BESIDE_REACH, BESIDE_CELLS, BESIDE_MASS = 2, 3, 0.5  # cells around one, of which so many have so much dynamic mass
SURFACE_REACH = 2  # subcells around a particle in which a return is looked for
NO_SURFACE = 1e9  # squared distance to a return where there is none
LEAST_MASS = 1e-3  # below it a cell has no velocity
LEAST_VARIANCE = 1e-4  # m^2/s^2
REGISTERED_VARIANCE = 0.1  # m^2/s^2, of the registered velocity of a cell without particles
STANDSTILL_VARIANCE = 0.01  # m^2/s^2 added before a velocity is compared with zero
ALIKE_REACH = 2  # cells around one in which others must move the same way
ALIKE = 0.5  # square of the share by which velocities of neighbours may differ
SEED_MASS = 0.2  # a neighbour with at least this much persistent mass passes its velocity on
SEED_ATTEMPTS = 4
MASS_UNIT = 2.0**38  # integer units of a mass of 1 in systematic draws; 2^25 full cells still fit in 63 bits
OFFSET_BITS = 25  # of the random offset of the first draw
OFFSET_SPLIT = 20  # bits of the stride that are multiplied by it apart, so that no product overflows

RATE_STEP = 0.1  # s
_SEED_RADIUS = 0.6  # m in which a moving neighbour is looked for
_BIRTHS = 0.3  # share of the particles born per step: more than cells are hit by most scans
_SURE_MEMORY = 0.2  # s in which unseen space is no longer surely free
_ACCELERATION_AT_REST = 2.0  # m/s^2, q_a of a particle at rest
_OFF: dict[OccupancyRule, dict[str, Any]] = {
    "exclusive_masses": {"exclusive": False},
    "births_in_hit_cells": {"hits_only": False},
    "unseen_stays_unknown": {"keep_unknown": False},
    "vacated_is_free": {"vacated": 0.0},
    "unknown_by_evidence": {"hit_static": 0.25, "hit_dynamic": 0.25, "free_static": 0.25, "free_dynamic": 0.25},
    "unseen_is_static": {"claimed": 0.0},
    "births_beside_movers": {"beside": 0.0},
    "layered_surfaces": {"surface_births": False},
    "maturity": {"maturity_begin": math.inf},
    "surface_weights": {"surface_sigma": math.inf},
    "unobserved_decay": {"unobserved_survival": 1.0},
    "registered_release": {"released": 0.0},
    "registered_weights": {"registered_floor": 1.0},
    "free_time_tests": {"test_free": 0.0},
}
_OFF_MOVING: dict[OccupancyRule, dict[str, Any]] = {
    "tested_particles": {"untested": 1.0, "one_particle": 0.0},
    "moving_share": {"alike": 0.0},
    "registered_motion": {"agreement": -1.0, "trusted_cells": np.iinfo(np.int32).max},
}
_OFF_BIRTH: dict[OccupancyRule, dict[str, Any]] = {
    "traffic_births": {"traffic": 0.0},
    "neighbour_births": {"seeded": 0.0},
    "registered_births": {"registered": 0.0},
}


class MovingRule(NamedTuple):
    """When a cell counts as moving."""

    speed: float  # m/s, at least
    mahalanobis: float  # of the velocity from zero, squared, at least
    occupancy: float = 0.6  # at least
    dynamic_share: float = 0.5  # dynamic / (static + dynamic), at least
    alike: float = 0.3  # of the cells hit within two cells that move alike, at least
    untested: float = 0.02  # weight of particles whose motion was not tested lately, against 1
    one_particle: float = 1.0  # m^2/s^2, variance of the velocity of one particle; several agree by chance less often
    agreement: float = 0.25  # square of the share by which the particles of a cell may differ from what is registered
    trusted_cells: int = 40  # of a component whose registered velocity its cells take at once


class BirthRule(NamedTuple):
    """Where new particles get their velocities from."""

    speed: float  # m/s, radius of the disc of velocities
    traffic: float = 0.05  # chance to take the ego vehicle's velocity, or its opposite
    traffic_spread: float = 5.0  # m/s, standard deviation added to that velocity
    seeded: float = 0.9  # chance to take a moving neighbour's velocity
    seed_spread: float = 1.0  # m/s, standard deviation added to it
    registered: float = 0.7  # chance to take the registered velocity
    registered_spread: float = 0.5  # m/s, standard deviation added to it
    seed_cells: int = 1  # in which a moving neighbour is looked for
    ego_x: float = 0.0  # m/s, velocity of the ego vehicle
    ego_y: float = 0.0

    def on_grid(self, spacing: float) -> Self:
        return self._replace(seed_cells=max(1, round(_SEED_RADIUS / spacing)))


@dataclass(frozen=True)
class FilterModel:
    particles: int
    empty_to_static: float  # e_ES in hit cells
    acceleration: float  # m/s^2, q_a at most
    acceleration_at_rest: float  # m/s^2, q_a of a particle at rest
    static_memory: float  # s, tau_S
    free_memory: float  # s, tau_E
    sure_memory: float  # s, tau_E of what is surely free
    moving: MovingRule
    registration: RegistrationModel
    birth: BirthRule
    exclusive: bool = True  # static and arriving dynamic mass exclude each other; else they are normalised
    hits_only: bool = True  # mass is born, or starts to move, in hit cells alone
    keep_unknown: bool = True  # unknown mass is resolved by evidence; else in every step
    vacated: float = 1.0  # share of the dynamic mass that moved out of a visible cell that becomes free there
    empty_to_dynamic: float = 0.02  # e_ED in hit cells: births
    static_to_dynamic: float = 0.005  # e_SD in hit cells: starting
    dynamic_to_static: float = 0.3  # e_DS of particles at rest: stopping
    stop_speed: float = 0.4  # m/s, v_s: how slow a stopping particle is
    acceleration_per_speed2: float = 0.5  # 1/m, growth of q_a with the square of the speed
    diffusion: float = 0.03  # m, q_x: random displacement of particles
    survival: float = 0.99  # p_S
    unobserved_survival: float = 0.9  # extra factor where nothing is seen
    hit_static: float = 0.2  # k_S, k_D: what observed unknown mass becomes in hit cells; the rest becomes free
    hit_dynamic: float = 0.05
    free_static: float = 0.25  # k_S, k_D elsewhere
    free_dynamic: float = 0.0
    claimed: float = 0.3  # of hit unknown mass, static before what is untested arrives
    beside: float = 0.4  # e_ED in cells hit beside several that moved; 0: as elsewhere
    surface_births: bool = True  # hits without a surface are static, but for those beside several that moved
    maturity_begin: float = 0.5  # s of static life at which a cell begins to be mature
    maturity_span: float = 0.5  # s later it is fully
    maturity_radius: float = 0.6  # m around a hit in which mature cells count
    maturity_static: float = 0.2  # e_ES beside mature cells
    maturity_decay: float = 0.8  # what remains of a maturity each time the cell is seen free
    free_decay: float = 0.7  # what remains, when a cell is hit, of the time in which it was seen free
    test_memory: float = 0.3  # s in which a test of a particle's motion fades
    test_free: float = 0.15  # s that a cell must have been seen free to test a motion; 0: its free mass decides
    surface_sigma: float = 0.05  # m from the nearest return, standard deviation; infinite: all particles weigh the same
    surface_floor: float = 0.1  # weight of a particle far from any return, against 1 on one
    released: float = 0.4  # static mass of a registered component that starts to move
    registered_sigma: float = 0.7  # m/s, particles further from the registered velocity lose weight
    registered_floor: float = 0.1  # weight of a particle far from it, against 1 on it

    @classmethod
    def of(cls, config: OccupancyConfig) -> Self:
        """The configuration without the rules that are switched off."""
        own, off = config.filter, config.without

        def changes(table: dict[OccupancyRule, dict[str, Any]]) -> dict[str, Any]:
            return {name: value for rule in off for name, value in table.get(rule, {}).items()}

        memory, steady = own.free_memory, "steady_slow_particles" not in off
        model = cls(
            particles=own.particles,
            empty_to_static=own.empty_to_static,
            acceleration=own.acceleration,
            acceleration_at_rest=_ACCELERATION_AT_REST if steady else own.acceleration,
            static_memory=own.static_memory,
            free_memory=memory,
            sure_memory=memory if "free_space_decay" in off else min(_SURE_MEMORY, memory),
            moving=MovingRule(own.moving.speed, own.moving.mahalanobis, **changes(_OFF_MOVING)),
            registration=RegistrationModel.of(config),
            birth=BirthRule(own.birth_speed, **changes(_OFF_BIRTH)),
        )
        return replace(model, **changes(_OFF))

    @property
    def births(self) -> int:
        """Particles born per step, at most."""
        return max(1, int(self.particles * _BIRTHS))


class MotionRule(NamedTuple):
    """How particles move in one time step."""

    dt: float  # s
    acceleration: float  # m/s^2, q_a at most
    at_rest: float  # m/s^2, q_a of a particle at rest
    per_speed2: float  # 1/m, what the square of its speed adds
    diffusion: float  # m, q_x

    @classmethod
    def of(cls, model: FilterModel, dt: float) -> Self:
        scale = math.sqrt(RATE_STEP / dt) if dt > 0 else 0.0
        acceleration, at_rest = model.acceleration * scale, model.acceleration_at_rest * scale
        per_speed2 = model.acceleration_per_speed2 * scale
        return cls(dt, acceleration, at_rest, per_speed2, model.diffusion * math.sqrt(dt / RATE_STEP))


class CellRules(NamedTuple):
    """How the masses of a cell change in one time step."""

    exclusive: bool
    hits_only: bool
    keep_unknown: bool
    vacated: float
    keep_static: float  # exp(-dt / tau_S)
    keep_free: float  # exp(-dt / tau_E)
    keep_sure: float  # the same for what is surely free
    empty_to_static: float  # e_ES
    empty_to_dynamic: float  # e_ED
    static_to_dynamic: float  # e_SD
    dynamic_to_static: float  # e_DS
    inverse_stop_speed: float  # 1 / (2 v_s^2)
    survival: float  # p_S
    unobserved_loss: float
    hit_static: float  # k_S, k_D in hit cells
    hit_dynamic: float
    free_static: float  # k_S, k_D elsewhere
    free_dynamic: float
    claimed: float
    beside: float  # e_ED beside several cells that moved; 0: the rule is off
    surface_births: bool
    maturity_begin: float  # s; infinite: the rule is off
    maturity_span: float  # s
    maturity_static: float  # e_ES beside mature cells
    maturity_decay: float
    maturity_radius: int  # cells
    free_decay: float
    time_step: float  # s
    test_memory: float  # what remains of a particle's test
    test_free: float  # s; 0: free mass decides
    surface_precision: float  # 1 / (2 sigma^2) in subcells; 0: the rule is off
    surface_floor: float
    subcells_per_metre: float
    released: float
    registered_precision: float  # 1 / (2 sigma^2) of velocities around a registered one
    registered_floor: float

    @classmethod
    def of(cls, model: FilterModel, dt: float, spacing: float, layered: bool = True) -> Self:
        """Shares and times are taken over as they are; rates are scaled to the time step."""
        steps = dt / RATE_STEP

        def over(rate: float) -> float:
            return 1 - (1 - rate) ** steps

        rates = ("empty_to_static", "empty_to_dynamic", "static_to_dynamic", "dynamic_to_static", "beside", "released")
        values: dict[str, Any] = {name: value for name, value in vars(model).items() if name in cls._fields}
        values |= {name: over(getattr(model, name)) for name in (*rates, "maturity_static")}
        values |= {
            "surface_births": model.surface_births and layered,
            "keep_static": math.exp(-dt / model.static_memory),
            "keep_free": math.exp(-dt / model.free_memory),
            "keep_sure": math.exp(-dt / model.sure_memory),
            "inverse_stop_speed": 1 / (2 * model.stop_speed**2),
            "survival": model.survival**steps,
            "unobserved_loss": over(1 - model.unobserved_survival),
            "maturity_decay": model.maturity_decay**steps,
            "maturity_radius": round(model.maturity_radius / spacing),
            "free_decay": model.free_decay**steps,
            "time_step": dt,
            "test_memory": math.exp(-dt / model.test_memory),
            "surface_precision": 0.5 * (spacing / SUBCELLS / model.surface_sigma) ** 2,
            "subcells_per_metre": SUBCELLS / spacing,
            "registered_precision": 0.5 / model.registered_sigma**2,
        }
        return cls(**values)
