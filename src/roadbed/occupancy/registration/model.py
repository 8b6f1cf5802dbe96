# SPDX-License-Identifier: Apache-2.0
"""Registration of hit components between scans: its constants, and its parameters in the form the kernels take.

A bitmap of a scan holds per cell which subcells returned a beam, which are within one subcell of these, and whether
the cell is free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

from roadbed.config.occupancy import OccupancyConfig, OccupancyRule
from roadbed.occupancy.model import SUBCELLS

# Shared with the device kernels.
NEAR_SHIFT = 16  # from a subcell's bit to the bit that says that it or a neighbour returned a beam
FREE_BIT = 32  # of a cell that was observed and is free
COARSE_LOSS = 0.25  # agreement that a shift may lack on the coarse grid of every second subcell
FAR = 1 << 30  # squared subcells, beyond every product of a place and a shift
LINE_RATIO = 4.0  # length of a line over its width, at least
STATIC_SHARE = 0.25  # of a component's cells that have been static for long: it is static, or has just started

_FEWEST_POINTS = 5  # hit subcells that a component needs
_PARTNER_GROWTH = 1.3  # its partner in the older scan may be longer by this factor
_PIECE = 0.5  # `piece` of the second registration
_REACH_PER_EXTENT, _REACH_LEAST = 1.5, 0.4  # shifts are tried up to so many times its extent and so many metres more
_OFF: dict[OccupancyRule, dict[str, Any]] = {
    "registration": {"enabled": False},
    "fast_registration": {"fast_span": 0.0},
    "refined_registration": {"refined": False},
    "second_registration": {"second": False},
    "confirmed_registration": {"confirmed": 0.0},
    "static_background": {"background_time": math.inf},
    "starting_objects": {"standing_time": 0.0},
    "small_components": {"small": 0.0},
}


@dataclass(frozen=True)
class RegistrationModel:
    """Components of hits are registered against an older scan: where one shift explains both, they move by it."""

    enabled: bool = True
    span: float = 0.4  # s, least age of the older scan
    first_span: float = 0.2  # s, the same while no scan is that old yet
    speed: float = 30.0  # m/s, shifts are tried up to it
    usual_speed: float = 12.0  # m/s; only what is wide and still overlaps its former place is faster
    across: float = 1.0  # m across its motion, to be wide: a front or a rear is, a piece of a guard rail is not
    fewest_cells: int = 3  # of a component
    most_cells: int = 500
    extent: float = 8.0  # m; what is longer is no single mover,
    background_time: float = 0.5  # s of static life from which its cells are background; infinite: none are
    points: int = 80  # hit subcells compared, about
    freed: float = 0.2  # share of the points that free space contradicts, to have moved
    same: float = 0.25  # agreement without a shift above which nothing moved
    good: float = 0.75  # agreement that a shift must reach
    gain: float = 0.5  # by which it must exceed the one without a shift
    small: float = 1.0  # m; what is no longer has no side along which it could slide
    small_same: float = 0.45  # `same` of small components
    small_gain: float = 0.4  # `gain` of small components
    standing_time: float = 1.0  # s of static life from which a component may be a starting object; 0: none is
    standing_freed: float = 0.08  # share of its points that free space contradicts, to have started
    standing_same: float = 0.65  # `same` of a starting object that is not small
    standing_gain: float = 0.3  # `gain` of a starting object that is not small
    line: float = 0.4  # m across its motion; a narrower line beside the background is a part of it
    slack: float = 0.1  # by which a smaller shift may be worse and still be chosen
    least: float = 0.3  # m, smallest shift that is a motion
    fast_span: float = 0.08  # s, `span` for fast objects; 0: none are looked for
    fast_speed: float = 60.0  # m/s, `speed` for fast objects
    fast_least: float = 10.0  # m/s, the slowest that is fast
    middle_span: float = 0.2  # s, least age of the scan between
    second: bool = True  # what is not found otherwise is looked for in that scan
    refined: bool = True  # that scan refines velocities
    refined_speed: float = 1.5  # m/s, the slowest that is refined if small, and that must be confirmed
    refined_reach: float = 0.25  # m around the expected shift that are tried
    refined_slack: float = 0.05  # by which a shift may be worse than the best and still count
    confirmed: float = 0.4  # by which that scan must agree better with motion than with rest; 0: not asked

    @classmethod
    def of(cls, config: OccupancyConfig) -> RegistrationModel:
        """Without the rules that are switched off."""
        return replace(cls(), **{k: v for rule in config.without for k, v in _OFF.get(rule, {}).items()})


class Pass(IntEnum):
    """How a scan is registered: all components against an old scan, those found again against one between, those not
    found, which may be fast, against a young one, and those still not found, which may be new, against the one between.
    """

    OLD, REFINED, FAST, SECOND = range(4)


class RegistrationRule(NamedTuple):
    """`RegistrationModel` for an older scan `age` seconds old, lengths in cells or subcells."""

    age: float  # s
    fewest_cells: int
    most_cells: int
    extent: float  # cells
    background_time: float  # s
    partner_extent: float  # cells
    across: float  # subcells
    short_shift: float  # subcells; beyond, only what is wide and overlaps its former place moves; 0: what does either
    line: float  # subcells
    piece: float  # share of a component's cells below which what it overlaps with may be another piece of its object
    points: int
    fewest_points: int
    reach: float  # subcells
    reach_per_extent: float  # subcells per cell
    reach_least: float  # subcells
    freed: float
    same: float
    good: float
    gain: float
    small: float  # cells
    small_same: float
    small_gain: float
    standing_time: float  # s; infinite: no component is a starting object
    standing_freed: float
    standing_same: float
    standing_gain: float
    slack: float
    least: float  # subcells
    refined_speed: float  # m/s
    refined_reach: int  # subcells
    refined_slack: float
    confirmed: float
    subcell: float  # m

    @classmethod
    def of(cls, model: RegistrationModel, age: float, spacing: float, kind: Pass) -> RegistrationRule:
        """Values without a unit are taken over as they are."""
        subcell, fast = spacing / SUBCELLS, kind is Pass.FAST
        reach, least, short_shift = cls.shifts(model, age, spacing, kind)
        values: dict[str, Any] = {name: value for name, value in vars(model).items() if name in cls._fields}
        values |= {
            "age": age,
            "extent": model.extent / spacing,
            "partner_extent": _PARTNER_GROWTH * model.extent / spacing,
            "across": model.across / subcell,
            "short_shift": short_shift,
            "line": model.line / subcell,
            "piece": _PIECE if kind is Pass.SECOND else 0.0,
            "fewest_points": _FEWEST_POINTS,
            "reach": reach,
            "reach_per_extent": _REACH_PER_EXTENT * SUBCELLS,
            "reach_least": _REACH_LEAST / subcell,
            "small": model.small / spacing,
            "standing_time": model.standing_time if model.standing_time > 0 and not fast else math.inf,
            "least": least,
            "refined_reach": round(model.refined_reach / subcell),
            "subcell": subcell,
        }
        return cls(**values)

    @staticmethod
    def shifts(model: RegistrationModel, age: float, spacing: float, kind: Pass) -> tuple[float, float, float]:
        """`reach`, `least` and `short_shift`, which with the age are all that differs from scan to scan."""
        fast, subcell = kind is Pass.FAST, spacing / SUBCELLS
        speed, least = (model.fast_speed, model.fast_least * age) if fast else (model.speed, model.least)
        short_shift = 0.0 if fast else model.usual_speed * age
        return speed * age / subcell, least / subcell, short_shift / subcell
