# SPDX-License-Identifier: Apache-2.0
"""The inverse sensor model: its constants, and its parameters in the form the kernels take."""

import math
from typing import Any, NamedTuple, Self

import numpy as np

from roadbed.config import Config
from roadbed.config.occupancy import ObservationConfig, OccupancyRule

# Shared with the device kernels.
NO_BEAM = np.float32(1e9)  # slope in the polar table where no beam passed
FAR_ABOVE = 50.0  # m; a beam this high over a cell says nothing
SOFT_SIGMAS = 3.0  # standard deviations below the obstacle height from which a return has a weight
SURE_SIGMAS = 12.0  # above it from where a return weighs WEIGHT_ONE, as exp(-12) < 0.5 / WEIGHT_ONE
WEIGHT_ONE = 1 << 15  # weights of returns are integers, so that their sum does not depend on their order
MARKING_WEIGHT = WEIGHT_ONE // 2  # from which a return marks its subcell as surface
MOST_WEIGHT = 128 * WEIGHT_ONE  # of a cell from which nothing is added: evidence saturates at 100 returns at most
MIXED_HITS = 0.5  # weight of the returns in a cell from which beams that pass it count less
LEAST_ODDS, LEAST_SEEN = 1e-6, 1e-6  # lower bounds of the odds of a passing beam and of the observedness
RAYS_BESIDE = 2  # rays on each side of a cell's own, of which the first with a beam must have passed the cell, too
NO_SENSOR = 255  # sensor index of a point that is left out

_SPARSE_RETURNS = 8.0  # returns per ray under which a sensor is sparse
_HIT, _FALSE_ALARM = 0.8, 0.2  # P(return | occupied), P(return | empty)
_UNKNOWN_GROUND = 0.5  # weight of passing beams over unknown ground
_FACE = 0.12  # m of height in one polar bin that are a vertical face
_LAYERS_APART = 0.01  # slope, 0.6 degrees: neighbouring layers of a sensor of 16 layers are 2 degrees apart
_LAYERS_WITHIN = 0.8  # m around a return: half of the width of a car, whose faces are inclined
_UNDERSIDE_REACH = 3.0  # m behind a low obstacle in which a beam may have passed beneath it
_NO_PASSAGE = 1e3  # m; no beam passes so far beneath a return
_OFF: dict[OccupancyRule, dict[str, Any]] = {
    "obstacle_heights": {"sure_height": 10.0},
    "underpass": {"underside": 0.0, "underpass": 1.0},
    "mixed_cells": {"mixed_free": 1.0},
    "unknown_ground": {"unknown_ground": 1.0},
    "vertical_faces": {"face": 0.0},
    "whole_cells": {"whole_cells": False},
    "layered_surfaces": {"layers_apart": 0.0},
    "hanging_returns": {"passage": _NO_PASSAGE},
}


class SensorModel(NamedTuple):
    """Of one sensor."""

    azimuth_bins: int
    range_bins: int
    min_range: float  # m
    obstacle_height: float  # m, tau_up
    clearance: float  # m; higher returns are overhang
    log_hit_ratio: float  # log of P(return | occupied) / P(return | empty)
    underside_bins: int  # range bins behind a low obstacle
    neighbour_rays: (
        int  # on each side whose low obstacles count: returns of a sparse sensor are further apart than rays
    )
    face: float  # m of height in a polar bin that are a vertical face; 0: none are looked for
    layers_apart: float  # slope from its lowest return to its highest above `mover_height`; 0: any return is one
    layers_within: int  # cells in which they are looked for
    whole_cells: bool  # beams of neighbouring rays must have passed a cell, too
    unknown_ground: float  # weight of passing beams over unknown ground
    range_margin: float = 0.06  # m a beam must pass a cell before its end to count
    obstacle_height_sigma: float = 0.05  # m, softness of the obstacle height
    low_outlier: float = 1.0  # m below ground from which a return is ignored
    sure_height: float = 0.3  # m, a_0: every obstacle is at least this high
    height_spread: float = 0.5  # m, h_0: standard deviation of obstacle heights above that
    detection: float = 0.9  # p_d: an obstacle in a beam's way stops it
    ground_detection: float = 0.95  # p_d in a cell whose ground was seen
    hits: float = 3.0  # returns after which a cell's evidence saturates
    mixed_free: float = 0.3  # kappa: weight of passing beams in cells with obstacle returns
    clip: float = 0.05  # probabilities stay within [clip, 1 - clip]
    ground_sigma: float = 0.25  # m; a ground less certain than this is unknown
    underside: float = 1.3  # m; beams may pass beneath obstacles that start lower
    underpass: float = 0.0  # weight of beams that passed beneath something
    mover_height: float = 0.5  # m over the ground that what moves reaches
    passage: float = 1.2  # m beneath the lowest return of a cell from which a passing beam shows that it hangs
    standing: float = 0.6  # m; beams pass less far beneath what stands low, as a car

    @classmethod
    def of(cls, whole: Config, spacing: float, reach: float, points: int) -> Self:
        """Of a sensor `reach` metres from the farthest cell that returned `points` beams; with few it is sparse."""
        config, without = whole.occupancy.observation, whole.occupancy.without
        range_bins, few = cls.kind(config, spacing, reach, points)
        sparse = few and "sparse_sensors" not in without
        model = cls(
            azimuth_bins=round(360 / config.azimuth_step),
            range_bins=range_bins,
            min_range=config.min_range,
            obstacle_height=config.obstacle_height,
            clearance=whole.vehicle.clearance,
            log_hit_ratio=math.log(_HIT / _FALSE_ALARM),
            underside_bins=round(_UNDERSIDE_REACH / spacing),
            neighbour_rays=1 if sparse else 0,
            face=_FACE if sparse else 0.0,
            # A sparse sensor has no second layer on most objects, and its columns are further apart than rays.
            layers_apart=0.0 if sparse else _LAYERS_APART,
            layers_within=round(_LAYERS_WITHIN / spacing),
            whole_cells=True,
            unknown_ground=1.0 if sparse else _UNKNOWN_GROUND,  # a sparse sensor sees little ground
        )
        changes = {name: value for rule in without for name, value in _OFF.get(rule, {}).items()}
        return model._replace(**changes)

    @staticmethod
    def kind(config: ObservationConfig, spacing: float, reach: float, points: int) -> tuple[int, bool]:
        """What distinguishes the models of one configuration: range bins, and whether returns are few."""
        return math.ceil(reach / spacing) + 1, points < _SPARSE_RETURNS * round(360 / config.azimuth_step)
