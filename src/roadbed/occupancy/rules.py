# SPDX-License-Identifier: Apache-2.0
"""The configuration as plain numbers, in the form the kernels take. See the configuration for their meaning."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

from roadbed.config import Config
from roadbed.config.occupancy import FilterConfig, RegistrationConfig
from roadbed.occupancy.model import (
    FEWEST_POINTS,
    LEAST_WEIGHT,
    NORMALISE,
    ODDS,
    PARTNER_GROWTH,
    RATE_STEP,
    REACH_LEAST,
    REACH_PER_EXTENT,
    STATIC_FIRST,
    SUBCELLS,
)

_COMPOSE = {"odds": ODDS, "static-first": STATIC_FIRST, "normalise": NORMALISE}


class SensorModel(NamedTuple):
    """ObservationConfig for a sensor whose farthest cell is `reach` metres away."""

    azimuth_bins: int
    range_bins: int
    min_range: float
    range_margin: float
    obstacle_height: float
    obstacle_height_sigma: float
    clearance: float
    low_outlier: float
    sure_height: float
    height_spread: float
    detection: float
    ground_detection: float
    log_hit_ratio: float
    hits: float
    mixed_free: float
    clip: float
    ground_sigma: float
    unknown_ground: float
    underside: float
    underside_bins: int
    beneath: float
    rays_beside: int  # whose low obstacles count: returns of a sparse sensor lie further apart than rays
    face: float  # m; 0: the sensor needs no faces

    @classmethod
    def of(cls, whole: Config, spacing: float, reach: float, points: int) -> SensorModel:
        """Of a sensor that returned `points` beams: few of them in each direction make it a sparse one."""
        config = whole.occupancy.observation
        azimuth_bins = round(360 / config.azimuth_step)
        sparse = points < config.sparse * azimuth_bins
        hit, false_alarm = (config.sparse_hit, 1 - config.sparse_hit) if sparse else (config.hit, config.false_alarm)
        return cls(
            azimuth_bins=azimuth_bins,
            range_bins=math.ceil(reach / spacing) + 1,
            min_range=config.min_range,
            range_margin=config.range_margin,
            obstacle_height=config.obstacle_height,
            obstacle_height_sigma=config.obstacle_height_sigma,
            clearance=whole.vehicle.clearance,
            low_outlier=config.low_outlier,
            sure_height=config.sure_height,
            height_spread=config.height_spread,
            detection=config.detection,
            ground_detection=config.ground_detection,
            log_hit_ratio=math.log(hit / false_alarm),
            hits=config.hits,
            mixed_free=config.mixed_free,
            clip=config.clip,
            ground_sigma=config.ground_sigma,
            unknown_ground=config.unknown_ground,
            underside=config.underside,
            underside_bins=round(config.underside_reach / spacing),
            beneath=config.beneath,
            rays_beside=1 if sparse else 0,
            face=config.face if sparse else 0.0,
        )


class MotionRule(NamedTuple):
    """How particles move in one time step."""

    dt: float  # s
    acceleration: float  # m/s^2, q_a at most
    at_rest: float  # m/s^2, q_a of a particle that stands
    per_speed2: float  # 1/m, what the square of its speed adds
    diffusion: float  # m, q_x

    @classmethod
    def of(cls, config: FilterConfig, dt: float) -> MotionRule:
        scale = math.sqrt(RATE_STEP / dt) if dt > 0 else 0.0
        acceleration, at_rest = config.acceleration * scale, config.acceleration_at_rest * scale
        per_speed2 = config.acceleration_per_speed2 * scale
        return cls(dt, acceleration, at_rest, per_speed2, config.diffusion * math.sqrt(dt / RATE_STEP))


class Laid(IntEnum):
    """How a scan is laid over one that is stored: all its components over an old one, what was found once more over a
    younger one, and what was not found and may be fast over a young one."""

    OLD, REFINED, FAST = range(3)


class RegistrationRule(NamedTuple):
    """RegistrationConfig for a scan `age` seconds old, lengths in cells or subcells."""

    age: float  # s
    fewest_cells: int
    most_cells: int
    extent: float  # cells
    least_extent: float  # cells
    partner_extent: float  # cells
    points: int
    fewest_points: int
    reach: float  # subcells
    reach_per_extent: float  # subcells per cell
    reach_least: float  # subcells
    same: float
    good: float
    gain: float
    small: float  # cells
    small_same: float
    small_gain: float
    standing_time: float  # s; infinite: nothing stands
    standing_freed: float
    standing_same: float
    standing_gain: float
    slack: float
    least: float  # subcells
    refined_speed: float  # m/s
    around: int  # subcells around the expected shift
    nearly: float
    subcell: float  # m

    @classmethod
    def of(cls, config: RegistrationConfig, age: float, spacing: float, laid: Laid) -> RegistrationRule:
        subcell, fast = spacing / SUBCELLS, laid is Laid.FAST
        reach, least = cls.shifts(config, age, spacing, laid)
        return cls(
            age=age,
            fewest_cells=config.fewest_cells,
            most_cells=config.most_cells,
            extent=config.extent / spacing,
            least_extent=config.fast_extent / spacing if fast else 0.0,
            partner_extent=PARTNER_GROWTH * config.extent / spacing,
            points=config.points,
            fewest_points=FEWEST_POINTS,
            reach=reach,
            reach_per_extent=REACH_PER_EXTENT * SUBCELLS,
            reach_least=REACH_LEAST / subcell,
            same=config.same,
            good=config.good,
            gain=config.gain,
            small=config.small / spacing,
            small_same=config.small_same,
            small_gain=config.small_gain,
            standing_time=config.standing_time if config.standing_time > 0 and not fast else math.inf,
            standing_freed=config.standing_freed,
            standing_same=config.standing_same,
            standing_gain=config.standing_gain,
            slack=config.slack,
            least=least,
            refined_speed=config.refined_speed,
            around=round(config.refined_reach / subcell),
            nearly=config.refined_slack,
            subcell=subcell,
        )

    @staticmethod
    def shifts(config: RegistrationConfig, age: float, spacing: float, laid: Laid) -> tuple[float, float]:
        """`reach` and `least`, which with the age are all that differs from scan to scan."""
        fast, subcell = laid is Laid.FAST, spacing / SUBCELLS
        speed, least = (config.fast_speed, config.fast_least * age) if fast else (config.speed, config.least)
        return speed * age / subcell, least / subcell


class CellRules(NamedTuple):
    """FilterConfig for the masses of a cell over one time step."""

    compose: int  # ODDS, STATIC_FIRST or NORMALISE
    keep_static: float  # exp(-dt / tau_S)
    keep_free: float  # exp(-dt / tau_E)
    keep_sure: float  # the same for what is surely free
    vacated: float  # 1: vacated mass becomes empty, 0: unknown
    hits_only: bool
    keep_unknown: bool
    empty_to_static: float  # e_ES
    empty_to_dynamic: float  # e_ED
    static_to_dynamic: float  # e_SD
    dynamic_to_static: float  # e_DS
    inverse_stop_speed: float  # 1 / (2 v_s^2)
    survival: float  # p_S
    unobserved_loss: float
    hit_static: float  # k_S, k_D in hit cells
    hit_dynamic: float
    claimed: float  # share of the unknown mass of a hit cell that is static before anything untested arrives
    beside: float  # e_ED beside several cells that moved; 0: the rule is off
    free_static: float  # k_S, k_D elsewhere
    free_dynamic: float
    maturity_begin: float  # s; infinite when the rule is off
    maturity_span: float  # s
    maturity_static: float  # e_ES beside mature cells
    maturity_decay: float
    maturity_radius: int  # cells
    touching_radius: int  # cells that count where it was free for long
    inverse_free_time: float  # 1/s; 0: the rule is off
    free_decay: float
    time_step: float  # s
    test_memory: float  # what remains of a particle's test
    test_free: float  # s; 0: free mass is asked
    surface_precision: float  # 1 / (2 sigma^2) in subcells; 0: particles of a cell are not told apart
    surface_floor: float
    subcells_per_metre: float
    released: float  # share of the static mass that a registered motion turns into newborn mass
    registered_precision: float  # 1 / (2 sigma^2) of velocities around a registered one
    registered_floor: float

    @classmethod
    def of(cls, config: FilterConfig, dt: float, spacing: float) -> CellRules:
        steps, mature = dt / RATE_STEP, config.maturity
        subcell = spacing / SUBCELLS

        def over(rate: float) -> float:
            """A rate per RATE_STEP over this time step."""
            return 1 - (1 - rate) ** steps

        return cls(
            compose=_COMPOSE[config.compose],
            keep_static=math.exp(-dt / config.static_memory),
            keep_free=math.exp(-dt / config.free_memory),
            keep_sure=math.exp(-dt / min(config.sure_memory, config.free_memory)),
            vacated=float(config.vacated_is_free),
            hits_only=config.hits_only,
            keep_unknown=config.keep_unknown,
            empty_to_static=over(config.empty_to_static),
            empty_to_dynamic=over(config.empty_to_dynamic),
            static_to_dynamic=over(config.static_to_dynamic),
            dynamic_to_static=over(config.dynamic_to_static),
            inverse_stop_speed=1 / (2 * config.stop_speed**2),
            survival=config.survival**steps,
            unobserved_loss=over(1 - config.unobserved_survival),
            hit_static=config.unknown_hit.static,
            hit_dynamic=config.unknown_hit.dynamic,
            claimed=config.unknown_claim,
            beside=over(config.beside_moving),
            free_static=config.unknown_free.static,
            free_dynamic=config.unknown_free.dynamic,
            maturity_begin=mature.begin if mature.enabled else math.inf,
            maturity_span=mature.full - mature.begin,
            maturity_static=over(mature.static_rate),
            maturity_decay=mature.decay**steps,
            maturity_radius=round(mature.radius / spacing),
            touching_radius=round(mature.free_radius / spacing),
            inverse_free_time=1 / mature.free_time if mature.free_time > 0 else 0.0,
            free_decay=mature.free_decay**steps,
            time_step=dt,
            test_memory=math.exp(-dt / config.moving.test_memory),
            test_free=config.moving.test_free,
            surface_precision=0.5 * (subcell / config.surface_sigma) ** 2 if config.surface else 0.0,
            surface_floor=max(config.surface_floor, LEAST_WEIGHT),
            subcells_per_metre=SUBCELLS / spacing,
            released=over(config.registration.static_rate),
            registered_precision=0.5 / config.registration.sigma**2,
            registered_floor=max(config.registration.floor, LEAST_WEIGHT),
        )


class MovingRule(NamedTuple):
    """MovingConfig: when a cell counts as moving."""

    occupancy: float
    dynamic_share: float
    speed: float
    mahalanobis: float
    old_share: float
    neighbours: int
    alike: float
    age: int
    untested: float

    @classmethod
    def of(cls, config: FilterConfig) -> MovingRule:
        moving = config.moving
        return cls(
            occupancy=moving.occupancy,
            dynamic_share=moving.dynamic_share,
            speed=moving.speed,
            mahalanobis=moving.mahalanobis,
            old_share=moving.old_share,
            neighbours=moving.neighbours,
            alike=moving.alike,
            age=moving.age,
            untested=max(moving.untested, LEAST_WEIGHT),
        )


class BirthRule(NamedTuple):
    """BirthConfig: where new particles get their velocities from."""

    speed: float
    traffic: float
    traffic_spread: float
    own_x: float  # m/s, the own vehicle
    own_y: float
    fast: float
    fast_speed: float
    seeded: float
    seed_cells: int
    seed_spread: float
    registered: float
    registered_spread: float
    registered_age: int  # resamplings that such newborns need not survive

    @classmethod
    def of(cls, config: FilterConfig, own_velocity: tuple[float, float], spacing: float) -> BirthRule:
        birth = config.birth
        return cls(
            speed=birth.speed,
            traffic=birth.traffic,
            traffic_spread=birth.traffic_spread,
            own_x=own_velocity[0],
            own_y=own_velocity[1],
            fast=birth.fast,
            fast_speed=birth.fast_speed,
            seeded=birth.seeded,
            seed_cells=max(1, round(birth.seed_radius / spacing)),
            seed_spread=birth.seed_spread,
            registered=config.registration.share,
            registered_spread=config.registration.spread,
            registered_age=config.registration.trusted,
        )
