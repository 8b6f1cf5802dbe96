# SPDX-License-Identifier: Apache-2.0
"""The filter's device program, and the records that its kernels share with the host."""

from typing import Any

import numpy as np

from roadbed.occupancy.hsbof import model
from roadbed.occupancy.hsbof.model import BirthRule, CellRules, MotionRule, MovingRule
from roadbed.occupancy.programs import GROUP, definitions, members_of
from roadbed.runtime import philox
from roadbed.runtime.program import Program

TILE_STRIP = 8  # masses that a work-item of a draw's tile sums up
_FILES = ("resample", "particles", "priors", "segmented_sum", "cells", "velocities", "birth")
_LAYERS = {"STATIC": 0, "DYNAMIC": 1, "FREE": 2, "MATURITY": 3, "KNOWN_FREE": 4, "LAYERS": 5}

# `cell` is kept apart, so that sorting reads nothing else. 32 bytes, as the weights of a particle take its place.
PARTICLE = np.dtype(
    [(name, np.float32) for name in ("x", "y", "vx", "vy", "mass", "tested")]
    + [(name, np.int32) for name in ("origin", "padding")]
)
SYSTEMATIC_DRAW = np.dtype([(name, np.uint64) for name in ("total", "stride", "rest", "offset")])
_RULES: dict[str, Any] = {"motion": MotionRule, "cell": CellRules, "moving": MovingRule, "birth": BirthRule}
_RECORDS = {name: np.dtype(members_of(rule), align=True) for name, rule in _RULES.items()}

# Everything that the kernels of one step need from the host.
STEP = np.dtype(
    [
        ("turn", np.float64, 4),  # row by row: p_old = turn p_new + shift
        ("shift", np.float64, 2),  # m
        ("centre_shift", np.float64, 2),  # between indices of cells
        ("spacing", np.float64),  # m
        *_RECORDS.items(),
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


def filter_program(group: int = GROUP) -> Program:
    """The filter's kernels for work-groups of so many work-items."""
    structs = {rule.__name__: _RECORDS[name] for name, rule in _RULES.items()}
    return Program(
        ("runtime/philox.cl", *(f"occupancy/hsbof/{name}.cl" for name in _FILES)),
        {**definitions(model), **philox.DEFINITIONS, **_LAYERS, "GROUP": group, "TILE_STRIP": TILE_STRIP},
        {"Particle": PARTICLE, "SystematicDraw": SYSTEMATIC_DRAW, **structs, "Step": STEP},
        exact=True,
    )
