# SPDX-License-Identifier: Apache-2.0
"""The STCRF's device programs: which kernel files they have and what the kernels know when they are compiled."""

from __future__ import annotations

import math

from roadbed.compute.backend import Device
from roadbed.config.ground import GroundConfig
from roadbed.errors import ConfigError
from roadbed.ground.stcrf.rules import LabelRules

_PARTS = ("frame", "motion", "align", "places", "select", "start", "em", "labels")
FILES = tuple(f"ground/stcrf/{part}.cl" for part in _PARTS)
COARSE_FILES = ("ground/stcrf/frame.cl", "ground/stcrf/em.cl")
GROUP = 256
FEW, SOME, MANY = 4, 64, 512  # points up to which one, eight and 32 work-items share a node; beyond, a work-group
_LOG2E = math.log2(math.e)
_ANCHORS = 4  # points per node under the vehicle
_FOOTPRINT = (2.49, 1.49)  # m, half length and half width of the area under the vehicle, as in stcrf.py
_KNOWN_PRIOR = 0.05  # effective points from which a prior knows a node
_BAND_WORDS, _COUNTERS, _VOTE_LAYERS = 3, 6, 13  # as in stcrf_places.cl and stcrf_labels.cl
_MOST_SQUARES = 64  # fine columns per node that local memory holds


def groups_over_nodes(device: Device, nodes: int) -> tuple[int, int, int]:
    """Work-groups of the EM: for nodes that take a whole one, for each other kind of listed nodes, and in all."""
    whole, per_kind = (0, 0) if device.lanes == 1 else (2 * device.units, device.units)
    return whole, per_kind, whole + 2 * per_kind + -(-nodes // GROUP)


def exponent(sigma: float) -> float:
    """exp(-dz^2 / (2 sigma^2)) as a power of two: the factor of dz^2."""
    return -0.5 * _LOG2E / sigma**2


def ratio_of(config: GroundConfig) -> int:
    return max(1, round(config.stcrf.coarse.spacing / config.stcrf.spacing))


def low_side_of(config: GroundConfig) -> int:
    return max(1, round(config.stcrf.spacing / config.stcrf.coarse.cell))


def side_of(config: GroundConfig) -> int:
    return max(1, round(config.stcrf.spacing / config.stcrf.column))


def selects(config: GroundConfig) -> bool:
    """Whether some points are kept from shaping the surface, or some are added."""
    stcrf = config.stcrf
    if looks_around(config):
        return True
    return stcrf.walls.enabled or stcrf.points_per_node > 0 or stcrf.footprint or stcrf.start == "coarse"


def looks_around(config: GroundConfig) -> bool:
    """Whether labels look beyond a point's own height."""
    return LabelRules.of(config.labels).around


def tally_words(config: GroundConfig, rows: int, columns: int) -> int:
    """Words per slot that the labels count in: fine columns, nodes, cells of the vote; a multiple of four."""
    if not looks_around(config):
        return 4
    side = side_of(config)
    votes = -(-rows * side // 2) * -(-columns * side // 2) * _VOTE_LAYERS
    return -(-(rows * columns * (side**2 * _BAND_WORDS + _COUNTERS) + votes) // 4) * 4


def room_for_anchors(config: GroundConfig) -> int:
    """Points that may be added under the vehicle."""
    if not config.stcrf.footprint:
        return 0
    across = [math.ceil(2 * math.hypot(*_FOOTPRINT) / config.stcrf.spacing) + 1 for _ in range(2)]
    return _ANCHORS * across[0] * across[1]


def definitions(config: GroundConfig, rows: int, columns: int) -> dict[str, int | float]:
    """What the kernels know when they are compiled."""
    stcrf = config.stcrf
    side, ratio, low_side = side_of(config), ratio_of(config), low_side_of(config)
    if max(side, low_side) ** 2 > _MOST_SQUARES:
        raise ConfigError(
            f"stcrf.column = {stcrf.column:g}, stcrf.coarse.cell = {stcrf.coarse.cell:g}: accelerators take at most "
            f"{_MOST_SQUARES} columns per node, expected at least {stcrf.spacing / math.isqrt(_MOST_SQUARES):g}"
        )
    limit = stcrf.points_per_node
    from_coarse = stcrf.start == "coarse"
    coarse_columns, coarse_rows = -(-columns // ratio), -(-rows // ratio)
    return {
        "GROUP": GROUP,
        "FEW": FEW,
        "SOME": SOME,
        "MANY": min(MANY, limit) if limit else MANY,  # nodes that are thinned out are listed beyond it
        "COLUMNS": columns,
        "ROWS": rows,
        "NODES": rows * columns,
        "SPACING": stcrf.spacing,
        "ALPHA": stcrf.alpha,
        "BETA": stcrf.beta,
        "NEIGHBOURS": stcrf.neighbours,
        "HEIGHT_INFORMATION": stcrf.coarse_height_information if from_coarse else stcrf.height_information,
        "WEAK_HEIGHT_INFORMATION": stcrf.height_information,
        "SLOPE_INFORMATION": stcrf.slope_information,
        "SLOPE_LIMIT": stcrf.slope_limit,
        "UP": exponent(stcrf.sigma_up),
        "DOWN": exponent(stcrf.sigma_down),
        "VARIANCE_SCALE": stcrf.sigma_up**2 * stcrf.variance_factor,
        "KNOWN_VARIANCE": stcrf.known_sigma**2,
        "SEEN_ONLY": stcrf.seen_only,
        "ANCHORS": _ANCHORS if stcrf.footprint else 0,
        "EXTRA": room_for_anchors(config),
        "FOOTPRINT_X": _FOOTPRINT[0],
        "FOOTPRINT_Y": _FOOTPRINT[1],
        "SIDE": side,
        "WALLS": stcrf.walls.enabled,
        "WALL_LOW": stcrf.walls.low,
        "WALL_HIGH": stcrf.walls.high,
        "LIMIT": limit,
        "COARSE_START": from_coarse,
        "LOW_SIDE": low_side,
        "RATIO": ratio,
        "COARSE_COLUMNS": coarse_columns,
        "COARSE_ROWS": coarse_rows,
        "COARSE_NODES": coarse_columns * coarse_rows,
        "MOST_INFORMATION": stcrf.coarse.most_information,
        "KNOWN_PRIOR": _KNOWN_PRIOR,
        "FIND_WALLS": stcrf.walls.enabled or looks_around(config),
        "TALLY_WORDS": tally_words(config, rows, columns),
        **_label_definitions(config),
    }


def _label_definitions(config: GroundConfig) -> dict[str, int | float]:
    labels, rules = config.labels, LabelRules.of(config.labels)
    return {
        "LOOK_AROUND": rules.around,
        "LOW_OUTLIER_DEPTH": labels.low_outlier,
        "FOOT": labels.foot,
        "FOOT_AROUND": labels.foot_around,
        "THRESHOLD": labels.threshold,
        "CLEAR_THRESHOLD": labels.clear_threshold,
        "HIGHEST": float(rules.highest),
        "TOP": labels.top,
        "STANDING": labels.standing,
        "CLEARANCE": labels.clearance,
        "SMOOTH_THRESHOLD": labels.smooth_threshold,
        "USE_SMOOTH": labels.smooth,
        "OWN_COLUMN": labels.columns,
        "OWN_RATIO": labels.ratio,
        "COLUMNS_AROUND": labels.columns_around,
        "AROUND_RATIO": labels.ratio_around,
        "BY_RATIO": labels.foot_by_ratio,
        "SUPPORT_RATIO": labels.support_ratio,
        "BY_SUPPORT": labels.foot_by_support,
        "SUPPORT_EVEN": labels.support_even,
        "BANKS": labels.banks,
        "STEEP_BANKS": labels.steep_banks,
        "FIRM_SUPPORT": labels.firm,
        "OPEN_GROUND": labels.open_ground,
        "USE_VOTE": labels.vote,
    }


def coarse_definitions(config: GroundConfig, rows: int, columns: int) -> dict[str, int | float]:
    """The same for the wide lattice's program."""
    fine, ratio = definitions(config, rows, columns), ratio_of(config)
    return {
        **fine,
        "COLUMNS": fine["COARSE_COLUMNS"],
        "ROWS": fine["COARSE_ROWS"],
        "NODES": fine["COARSE_NODES"],
        "SPACING": config.stcrf.spacing * ratio,
        "HEIGHT_INFORMATION": config.stcrf.height_information,
        # Over a wide node a slope matters more: its information grows with the lever arm.
        "SLOPE_INFORMATION": config.stcrf.slope_information * (ratio**2 / 4 if ratio > 1 else 1),
        "PULL": config.stcrf.coarse.pull,
        "PULL_REACH": config.stcrf.sigma_down**-2,
        "FEW": 0,  # every coarse node is listed
        "ANCHORS": 0,
        "COARSE_START": False,
        "SEEN_ONLY": False,  # asked of the fine lattice alone
    }
