# SPDX-License-Identifier: Apache-2.0
"""The labelling rules of the configuration in the form the kernels take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.config import Config


class LabelRules(NamedTuple):
    """See LabelConfig for the meaning; heights in m above the surface, as float32. Devices get them as RULE_NAME."""

    around: bool  # whether any rule looks beyond the point's own height
    sigma_up: np.float32  # of the E-step, for the ground probability
    sigma_down: np.float32
    low_outlier: np.float32
    foot: np.float32
    foot_around: np.float32
    threshold: np.float32
    clear_threshold: np.float32
    highest: np.float32
    top: np.float32
    clearance: np.float32
    smooth_threshold: np.float32
    pillars: bool
    pillars_around: bool
    ratio_around: int
    smooth: bool
    foot_by_ratio: bool
    support_ratio: np.float32
    banks: bool
    firm: np.float32
    open_ground: bool
    vote: bool

    @classmethod
    def of(cls, whole: Config) -> LabelRules:
        f = np.float32
        config = whole.ground.labels
        looks_around = (
            config.pillars, config.pillars_around, config.clear, config.smooth, config.foot_by_ratio,
            config.vote,
        )  # fmt: skip
        return cls(
            around=any(looks_around),
            sigma_up=f(whole.ground.stcrf.sigma_up),
            sigma_down=f(whole.ground.stcrf.sigma_down),
            low_outlier=f(config.low_outlier),
            foot=f(config.foot),
            foot_around=f(config.foot_around),
            threshold=f(config.threshold),
            clear_threshold=f(config.clear_threshold),
            highest=f(config.highest if config.clear else config.threshold),
            top=f(config.top),
            clearance=f(whole.vehicle.clearance),
            smooth_threshold=f(config.smooth_threshold),
            pillars=config.pillars,
            pillars_around=config.pillars_around,
            ratio_around=config.ratio_around,
            smooth=config.smooth,
            foot_by_ratio=config.foot_by_ratio,
            support_ratio=f(config.support_ratio),
            banks=config.banks,
            firm=f(config.firm),
            open_ground=config.open_ground,
            vote=config.vote,
        )
