# SPDX-License-Identifier: Apache-2.0
"""The labelling rules of the configuration in the form the kernels take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roadbed.config.ground import LabelConfig


class LabelRules(NamedTuple):
    """See LabelConfig for the meaning; heights in m above the surface, as float32."""

    around: bool  # whether any rule looks beyond the point's own height
    low_outlier: np.float32
    foot: np.float32
    foot_around: np.float32
    threshold: np.float32
    clear_threshold: np.float32
    highest: np.float32
    top: np.float32
    standing: np.float32
    clearance: np.float32
    smooth_threshold: np.float32
    columns: bool
    ratio: int
    columns_around: bool
    ratio_around: int
    smooth: bool
    foot_by_ratio: bool
    support_ratio: np.float32
    foot_by_support: bool
    support_even: np.float32
    banks: bool
    steep_banks: bool
    firm: np.float32
    open_ground: bool
    vote: bool

    @classmethod
    def of(cls, config: LabelConfig) -> LabelRules:
        f = np.float32
        looks_around = (
            config.columns, config.columns_around, config.clear, config.smooth, config.foot_by_ratio,
            config.foot_by_support, config.vote,
        )  # fmt: skip
        return cls(
            around=any(looks_around),
            low_outlier=f(config.low_outlier),
            foot=f(config.foot),
            foot_around=f(config.foot_around),
            threshold=f(config.threshold),
            clear_threshold=f(config.clear_threshold),
            highest=f(config.highest if config.clear else config.threshold),
            top=f(config.top),
            standing=f(config.standing),
            clearance=f(config.clearance),
            smooth_threshold=f(config.smooth_threshold),
            columns=config.columns,
            ratio=config.ratio,
            columns_around=config.columns_around,
            ratio_around=config.ratio_around,
            smooth=config.smooth,
            foot_by_ratio=config.foot_by_ratio,
            support_ratio=f(config.support_ratio),
            foot_by_support=config.foot_by_support,
            support_even=f(config.support_even),
            banks=config.banks,
            steep_banks=config.steep_banks,
            firm=f(config.firm),
            open_ground=config.open_ground,
            vote=config.vote,
        )
