# SPDX-License-Identifier: Apache-2.0
"""The configuration as numbers for the CPU kernels of the EM and of the reported surface."""

import numpy as np

from roadbed.config.ground import GroundConfig
from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.em.em_cpu import EmRules, em_rules
from roadbed.ground.stcrf.sizes import height_weight
from roadbed.ground.stcrf.surface.surface_cpu import SurfaceRules

F = np.float32


def make_em_rules(config: GroundConfig, warm: bool, iterations: int) -> EmRules:
    """Of the fine lattice, with a prior or without."""
    stcrf, early = config.stcrf, config.uses("early_tolerance") and not warm
    return em_rules(
        stcrf,
        iterations=iterations,
        from_prior=warm,
        gamma=F(stcrf.gamma if warm else 0),
        sigma_up_early=F(model.EARLY_SIGMA_UP if early else stcrf.sigma_up),
        sigma_up=F(stcrf.sigma_up),
        pull=F(0),
        height_information=F(height_weight(config)),
        slope_information=F(model.SLOPE_WEIGHT),
    )


def make_surface_rules(config: GroundConfig, warm: bool, base: float) -> SurfaceRules:
    """With a prior or without; heights count from the base."""
    stcrf = config.stcrf
    return SurfaceRules(
        seen_only=config.uses("seen_only"),
        height_information=F(height_weight(config)),
        slope_information=F(model.SLOPE_WEIGHT),
        scale=F(stcrf.sigma_up**2),
        disagreement=F(model.DISAGREEMENT_WEIGHT if config.uses("neighbour_disagreement") else 0),
        gamma=F(stcrf.gamma if warm else 0),
        spacing=F(stcrf.spacing),
        largest_variance=F(stcrf.known_sigma**2),
        base=F(base),
    )
