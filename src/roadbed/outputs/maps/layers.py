# SPDX-License-Identifier: Apache-2.0
"""The layers of a map, a tile at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.core.traversability import TraversabilityLimits, traversability
from roadbed.mapping.cache import SIDE, Key
from roadbed.mapping.reader import MapReader

# name of a layer and its file -> what the pixels are
LAYERS = {
    "elevation": "elevation of the ground, m",
    "slope": "steepness of the ground, tangent",
    "variance": "variance of the elevation, m^2",
    "count": "returns from the ground",
    "traversability": "0 impassable to 1 free",
    "traversability-reason": "0 unknown, 1 none, 2 slope, 3 step, 4 roughness, 5 variance",
}
_BORDER = 1  # nodes of the neighbours that a step or roughness at the edge needs


def tile_layers(stored: MapReader, key: Key, limits: TraversabilityLimits | None = None) -> dict[str, NDArray]:
    """Every layer of one tile, (64, 64) each; NaN, or 0 for the reason, where nothing is known."""
    wide = stored.planes(key, _BORDER)
    inner = (slice(_BORDER, _BORDER + SIDE),) * 2
    slope = np.stack([wide.slope_x, wide.slope_y], axis=-1)
    drivable = traversability(wide.elevation, slope, wide.variance, stored.spacing, limits)
    layers: dict[str, NDArray] = {
        "elevation": wide.elevation[inner],
        "slope": wide.slope[inner],
        "variance": wide.variance[inner],
        "traversability": drivable.score[inner],
        "traversability-reason": drivable.reason[inner],
    }
    if stored.layers is not None:
        layers["count"] = stored.count(key)
    return layers
