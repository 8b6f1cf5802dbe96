# SPDX-License-Identifier: Apache-2.0
"""The device programs of the STCRF: their kernel files and compile-time definitions."""

import math
from typing import NamedTuple, Self

from roadbed.config import Config
from roadbed.core.errors import ConfigError
from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.rules import LabelRules
from roadbed.ground.stcrf.sizes import height_weight, isolated_reach, lattice_of, low_side_of, ratio_of, side_of
from roadbed.runtime.device import Device
from roadbed.runtime.program import Program

_PARTS = (
    "frame", "points/sort", "motion/align", "points/node_classes", "points/isolated", "points/select",
    "points/select_runs", "start/start", "em/em", "em/em_rows", "motion/motion", "surface/surface",
    "surface/small_components", "labels/labels",
)  # fmt: skip
_COARSE_PARTS = ("frame", "em/em", "em/em_rows", "start/slope_start", "start/first_surface")
GROUP = 256
FEW, SOME, MANY = 4, 64, 512  # points up to which 1, 8 and 32 work-items share a node; beyond, a whole work-group
TEAM = 512  # work-items of a work-group of the coarse start as one launch
# Counters of a slot: {next free index; nodes with some, many and more points; nodes unknown and known to the prior;
# strays and returns of a sample; low returns listed; rays below ground}
CURSORS = 10
SPARE = 7  # padding points behind the last one: CPU devices read eight at a time
BAND_WORDS = 3  # words per pillar: five bands of 16 bits each, then the mark of a wall
_MOST_SQUARES = 64  # pillars per node that fit in local memory


class EmLayout(NamedTuple):
    """Work-groups of an EM iteration: for nodes of a whole group each, for each other size class, and in total."""

    whole_node: int
    per_class: int
    groups: int
    size: int = GROUP

    @classmethod
    def of(cls, device: Device, rows: int, columns: int, limit: int) -> Self:
        """`limit`: the largest number of points per node, or 0. Two groups per compute unit run at a time; groups for
        nodes of few points may exceed that, because they end soon."""
        if device.lanes > 1:
            few, whole_node = -(-rows * columns // GROUP), max(device.units // (3 if 0 < limit <= MANY else 2), 1)
            per_class = max((2 * device.units - few - whole_node) // 2, 2 * device.units // 5, 1)
            return cls(whole_node, per_class, whole_node + 2 * per_class + few)
        return cls(0, 0, min(8 * device.units, -(-rows // 4)), 1)  # work-items of a CPU take some rows each


def exponent(sigma: float) -> float:
    """The factor of dz^2 in the exponent of exp(-dz^2 / (2 sigma^2)) as a power of two."""
    return -0.5 * math.log2(math.e) / sigma**2


def selects(config: Config) -> bool:
    """Whether points are selected: some do not shape the surface, or pillars are counted."""
    ground = config.ground
    some_points = (
        ground.uses("wall_pillars")
        or ground.uses("isolated_returns")
        or ground.stcrf.points_per_node > 0
        or ground.uses("coarse_start")
    )
    return some_points or LabelRules.of(config).around


def tally_words(config: Config) -> int:
    """Words per slot of the label counters: pillars, nodes and vote cells; a multiple of four."""
    if not LabelRules.of(config).around:
        return 4
    lattice, side = lattice_of(config.ground), side_of(config.ground)
    cells = [-(-along * side // model.VOTE_PILLARS) for along in lattice.shape]
    words = lattice.size * (side**2 * BAND_WORDS + model.COUNTERS) + cells[0] * cells[1] * model.VOTE_LAYERS
    return -(-words // 4) * 4


def fine_program(config: Config) -> Program:
    """All kernels except those of the coarse lattice."""
    return _program(_PARTS, _definitions(config))


def coarse_program(config: Config) -> Program:
    """The EM on the coarse lattice."""
    stcrf, ratio = config.ground.stcrf, ratio_of(config.ground)
    fine = _definitions(config)
    coarse = {
        "COLUMNS": fine["COARSE_COLUMNS"],
        "ROWS": fine["COARSE_ROWS"],
        "NODES": fine["COARSE_NODES"],
        "SPACING": stcrf.spacing * ratio,
        "HEIGHT_INFORMATION": model.HEIGHT_WEIGHT,
        # A coarse node has a longer lever arm, with which the information of its slope grows.
        "SLOPE_INFORMATION": model.SLOPE_WEIGHT * (ratio**2 / 4 if ratio > 1 else 1),
        "TEAM": TEAM,
        "COARSE_UP": exponent(model.COARSE_SIGMA_UP),
        "SLOPE_UP": exponent(model.SLOPE_SIGMA_UP),
        "PULL": model.PULL_WEIGHT if config.ground.uses("pull_to_drops") else 0.0,
        "PULL_REACH": stcrf.sigma_down**-2,
        "PER_NODE": ratio**2 * low_side_of(config.ground) ** 2,  # places for a node's lowest points
        "FEW": 0,  # every coarse node is listed
        "COARSE_START": False,
        "SEEN_ONLY": False,  # a rule of the fine lattice
    }
    return _program(_COARSE_PARTS, fine | coarse, "runtime/group_messages.cl")


def _program(parts: tuple[str, ...], definitions: dict[str, int | float], *shared: str) -> Program:
    files = tuple(f"ground/stcrf/{part}.cl" for part in parts)
    sources = "runtime/components.cl", *shared, *files
    return Program(sources, {**model.CONSTANTS, **definitions}, {"Frame": model.FRAME})


def _definitions(config: Config) -> dict[str, int | float]:
    ground, stcrf = config.ground, config.ground.stcrf
    side, ratio, low_side = side_of(ground), ratio_of(ground), low_side_of(ground)
    if max(side, low_side) ** 2 > _MOST_SQUARES:
        raise ConfigError(
            f"stcrf.pillar = {stcrf.pillar:g}, parts of {model.COARSE_CELL:g} m: accelerators take at most "
            f"{_MOST_SQUARES} pillars per node, expected at least {stcrf.spacing / math.isqrt(_MOST_SQUARES):g}"
        )
    rows, columns = lattice_of(ground).shape
    coarse_columns, coarse_rows = -(-columns // ratio), -(-rows // ratio)
    limit, walls = stcrf.points_per_node, ground.uses("wall_pillars")
    rules, drops_components = LabelRules.of(config), ground.uses("seen_only") and ground.uses("small_components")
    return {
        "GROUP": GROUP,
        # Nodes that are thinned out are in the class above MANY.
        **{name: min(points, limit or points) for name, points in (("FEW", FEW), ("SOME", SOME), ("MANY", MANY))},
        "COLUMNS": columns,
        "ROWS": rows,
        "NODES": rows * columns,
        "SPACING": stcrf.spacing,
        "ALPHA": stcrf.alpha,
        "BETA": stcrf.beta,
        "NEIGHBOURS": stcrf.neighbours,
        "HEIGHT_INFORMATION": height_weight(ground),
        "WEAK_HEIGHT_INFORMATION": model.HEIGHT_WEIGHT,
        "SLOPE_INFORMATION": model.SLOPE_WEIGHT,
        "SLOPE_LIMIT": stcrf.slope_limit,
        "UP": exponent(stcrf.sigma_up),
        "DOWN": exponent(stcrf.sigma_down),
        "VARIANCE_SCALE": stcrf.sigma_up**2,
        "DISAGREEMENT": model.DISAGREEMENT_WEIGHT if ground.uses("neighbour_disagreement") else 0.0,
        "KNOWN_VARIANCE": stcrf.known_sigma**2,
        "SEEN_ONLY": ground.uses("seen_only"),
        "SMALL_COMPONENTS": model.SMALL_COMPONENT if drops_components else 0,
        "CURSORS": CURSORS,
        "SIDE": side,
        "WALLS": walls,
        "LIMIT": limit,
        "COARSE_START": ground.uses("coarse_start"),
        "LOW_SIDE": low_side,
        "RATIO": ratio,
        "COARSE_COLUMNS": coarse_columns,
        "COARSE_ROWS": coarse_rows,
        "COARSE_NODES": coarse_columns * coarse_rows,
        "FIND_WALLS": walls or rules.around,
        "ISOLATED_REACH": isolated_reach(stcrf.spacing),
        "BAND_WORDS": BAND_WORDS,
        "TALLY_WORDS": tally_words(config),
        **{f"RULE_{name.upper()}": value for name, value in rules._asdict().items()},
    }
