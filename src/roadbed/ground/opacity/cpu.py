# SPDX-License-Identifier: Apache-2.0
"""Which points of a scan that is not dense cannot be ground, on the CPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.compute.threads import spread
from roadbed.config.ground import OpacityConfig
from roadbed.geometry import Float32
from roadbed.ground.engine import Views
from roadbed.ground.opacity.beside_cpu import grow_standing, level_places, release_feet
from roadbed.ground.opacity.directions_cpu import find_directions, mark_standing, sort_by_direction
from roadbed.ground.opacity.model import MOST, SQUARES, borders, directions_of

_POINTS = 8192  # that are worth waking a thread


def standing_points(points: Float32, views: Views, config: OpacityConfig) -> NDArray[np.bool_] | None:
    """(N,) points that a beam passed beneath or that stand above each other; None where the scan is dense."""
    count, directions, rotation = len(points), directions_of(config), views.rotation
    cells = directions * len(views.origins)
    sensor = np.zeros(count, np.uint16) if views.sensor is None else views.sensor
    cell, order, place = np.empty(count, np.int32), np.empty(count, np.int32), np.empty((count, 2))
    seen = points, rotation, views.origins, sensor, borders(directions)
    spread(find_directions, count, *seen, cell, place, grain=_POINTS)
    start, standing = np.zeros(cells + 1, np.int32), np.zeros(count, np.bool_)
    used = sort_by_direction(cell, order, start)
    mean = int(start[-1]) / max(used, 1)
    if mean > config.layered:
        return None
    sparse = mean <= config.densest
    most = MOST * (config.densest if sparse else config.layered)
    directions_of_grain = cells * _POINTS // count
    spread(mark_standing, cells, order, start, place, most, sparse, standing, grain=max(directions_of_grain, 1))
    if sparse:
        level, following = np.empty((count, 3)), np.empty(count, np.int32)
        level_places(points, rotation, level)
        release_feet(level, order, start, place, np.zeros(SQUARES**2, np.int32), following, standing)
        grow_standing(level, np.zeros(SQUARES**2, np.int32), following, standing)
    return standing
