# SPDX-License-Identifier: Apache-2.0
"""The labelling rules of a configuration, for kernels."""

from typing import NamedTuple, Self

import numpy as np

from roadbed.config import Config
from roadbed.config.ground import GroundRule
from roadbed.ground.stcrf.model import LOW_ISOLATED_DEPTH, LOW_OUTLIER_DEPTH

_USE_SURROUNDINGS: tuple[GroundRule, ...] = (
    "pillars", "pillars_around", "clear", "smooth", "foot_by_ratio", "foot_by_support", "vote",
)  # fmt: skip
_SWITCHES: tuple[GroundRule, ...] = (
    "pillars", "pillars_around", "smooth", "foot_by_ratio", "foot_by_support", "banks", "steep_banks", "open_ground",
    "vote",
)  # fmt: skip
_NO_OUTLIER = 100.0  # m, deeper than any point


class LabelRules(NamedTuple):
    """Switches, and heights above the surface, m. Device kernels get them as RULE_NAME definitions."""

    around: bool  # some rule uses more than the height of the point itself
    sigma_up: np.float32  # of the E-step, for the ground probability
    sigma_down: np.float32
    low_outlier: np.float32  # m below the surface
    low_isolated: np.float32  # the same for isolated returns
    threshold: np.float32
    clear_threshold: np.float32
    highest: np.float32
    clearance: np.float32
    smooth_threshold: np.float32
    pillars: bool
    pillars_around: bool
    smooth: bool
    foot_by_ratio: bool
    foot_by_support: bool
    banks: bool
    steep_banks: bool
    open_ground: bool
    vote: bool

    @classmethod
    def of(cls, config: Config) -> Self:
        ground, labels, f = config.ground, config.ground.labels, np.float32
        return cls(
            around=any(ground.uses(rule) for rule in _USE_SURROUNDINGS),
            sigma_up=f(ground.stcrf.sigma_up),
            sigma_down=f(ground.stcrf.sigma_down),
            low_outlier=f(LOW_OUTLIER_DEPTH if ground.uses("low_outliers") else _NO_OUTLIER),
            low_isolated=f(LOW_ISOLATED_DEPTH if ground.uses("low_outliers") else _NO_OUTLIER),
            threshold=f(labels.threshold),
            clear_threshold=f(labels.clear_threshold),
            highest=f(labels.highest if ground.uses("clear") else labels.threshold),
            clearance=f(config.vehicle.clearance),
            smooth_threshold=f(labels.smooth_threshold),
            **{rule: ground.uses(rule) for rule in _SWITCHES},
        )
