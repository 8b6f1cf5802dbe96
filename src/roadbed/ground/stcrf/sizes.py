# SPDX-License-Identifier: Apache-2.0
"""Sizes that follow from a configuration (nodes, pillars, cells), the same for every engine."""

import math

from roadbed.config.ground import GroundConfig
from roadbed.core.geometry import Grid
from roadbed.core.memory import check_memory
from roadbed.ground.stcrf import model


def lattice_of(config: GroundConfig) -> Grid:
    """The lattice of nodes, with the vehicle at the origin."""
    return Grid.centred(config.stcrf.length, config.stcrf.width, config.stcrf.spacing)


def ratio_of(config: GroundConfig) -> int:
    """Fine nodes along a coarse node."""
    return max(1, round(model.COARSE_SPACING / config.stcrf.spacing))


def side_of(config: GroundConfig) -> int:
    """Pillars along a node."""
    return max(1, round(config.stcrf.spacing / config.stcrf.pillar))


def low_side_of(config: GroundConfig) -> int:
    """Cells along a node whose lowest points enter the coarse start."""
    return max(1, round(config.stcrf.spacing / model.COARSE_CELL))


def height_weight(config: GroundConfig) -> float:
    """Weight of the expected height of a fine node, in effective points."""
    return model.COARSE_HEIGHT_WEIGHT if config.uses("coarse_start") else model.HEIGHT_WEIGHT


def reach_of(config: GroundConfig) -> int:
    """Number of nodes around the data that are computed too."""
    return model.REACH if config.uses("seen_only") else model.REACH_OF_ALL


def isolated_reach(spacing: float) -> int:
    """Nodes to each side among whose points an isolated return is looked for."""
    return math.ceil(float(model.ISOLATED_RADIUS) / spacing)


def check_memory_for(config: GroundConfig) -> None:
    """Raise before anything is allocated if the lattice does not fit in host memory."""
    lattice, stcrf, pillars = lattice_of(config), config.stcrf, side_of(config) ** 2
    # Bytes: information, planes and counters; bands and votes of pillars; lowest points; one returned frame.
    per_node = 330 + pillars * 24 + 24 * low_side_of(config) ** 2 + 20
    size = f"{stcrf.length:g} x {stcrf.width:g} m at {stcrf.spacing:g} m"
    check_memory(f"ground.stcrf: {size} ({lattice.size:,} nodes)", lattice.size * per_node)


def alignment_stride(points: int) -> int:
    """The alignment compares every stride-th point of a scan with the prior surface."""
    stride = max(4, points // model.ALIGNMENT_POINTS)
    return stride if points >= 4 * stride else 1
