# SPDX-License-Identifier: Apache-2.0
"""The filter's program for accelerators, and the records that its kernels share with the host."""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

import numpy as np

from roadbed.compute import philox
from roadbed.compute.program import Program
from roadbed.occupancy.model import CONSTANTS
from roadbed.occupancy.rules import BirthRule, CellRules, MotionRule, MovingRule

GROUP = 256  # work-items of a work-group
TILE_STRIP = 8  # masses that a work-item of a draw's tile sums up
_FILES = ("draw", "particles", "priors", "cells", "velocities", "birth")
_LAYERS = {"STATIC": 0, "DYNAMIC": 1, "FREE": 2, "MATURITY": 3, "KNOWN_FREE": 4, "LAYERS": 5}

# `cell` is kept apart, so that sorting reads nothing else.
PARTICLE = np.dtype(
    [(name, np.float32) for name in ("x", "y", "vx", "vy", "mass", "tested")]
    + [(name, np.int32) for name in ("age", "origin")]
)
COMB = np.dtype([(name, np.uint64) for name in ("total", "stride", "rest", "offset")])


def step_record(real: type[np.floating]) -> np.dtype:
    """All that a step is told: where it is, how the grid moved, and every rule. `real`: np.float64 or np.float32."""
    return np.dtype(
        [
            ("turn", real, 4),  # row by row: p_old = turn p_new + shift
            ("shift", real, 2),  # m
            ("centre_shift", real, 2),  # between indices of cells
            ("spacing", real),  # m
            *((name, _record(rule, real)) for name, rule in _RULES.items()),
            ("rows", np.int32),
            ("columns", np.int32),
            ("size", np.int32),  # cells
            ("interpolates", np.int32),  # 0: the grid rolled by whole cells
            ("roll", np.int32, 2),  # columns, rows
            ("seed", np.uint32),
            ("frame", np.uint32),
        ],
        align=True,
    )


_RULES: dict[str, Any] = {"motion": MotionRule, "cell": CellRules, "moving": MovingRule, "birth": BirthRule}


def _record(rule: type[NamedTuple], real: type[np.floating]) -> np.dtype:
    """A rule's fields as a record."""
    kinds = {float: real, int: np.int32, bool: np.int32}
    return np.dtype([(name, kinds[kind]) for name, kind in get_type_hints(rule).items()], align=True)


def program(real: type[np.floating]) -> Program:
    """The filter's kernels with arithmetic in `real`: in doubles they give the bits of the CPU's."""
    numbers = {
        **CONSTANTS,
        **philox.DEFINITIONS,
        **_LAYERS,
        "GROUP": GROUP,
        "TILE_STRIP": TILE_STRIP,
    }
    definitions = {name: real(value) if isinstance(value, float) else value for name, value in numbers.items()}
    if real is np.float64:
        definitions["REAL_IS_DOUBLE"] = 1
    structs = {"Particle": PARTICLE, "Comb": COMB}
    structs |= {rule.__name__: _record(rule, real) for rule in _RULES.values()}
    files = ("compute/philox.cl", *(f"occupancy/{name}.cl" for name in _FILES))
    return Program(files, definitions, {**structs, "Step": step_record(real)}, exact=True)
