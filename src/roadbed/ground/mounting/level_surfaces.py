# SPDX-License-Identifier: Apache-2.0
"""Level surfaces around a sensor: floor, table, ceiling. They are named where the mounting is doubtful."""

from __future__ import annotations

import numpy as np

from roadbed.core.geometry import Float32

_RADIUS, _COLUMN, _LAYER = 15.0, 0.25, 0.05  # m around the sensor, and size of the boxes that are counted
_FEWEST_COLUMNS = 20  # of a surface
_ABOVE_AVERAGE = 2.0  # a surface fills so many times the columns of an average layer: a wall fills all layers alike
_APART = 6  # layers between two surfaces
_MOST = 4  # surfaces


def level_surfaces(points: Float32) -> list[float]:
    """Heights (m, up is positive) of level surfaces in a sensor frame that is nearly level, the lowest first."""
    near = points[np.hypot(points[:, 0], points[:, 1]) < _RADIUS]
    near = near[(near != 0).any(axis=1)]
    boxes = np.floor(near / np.array([_COLUMN, _COLUMN, _LAYER], np.float32)).astype(np.int64)
    boxes = np.unique(boxes[np.abs(boxes[:, 2]) < _RADIUS / _LAYER], axis=0)
    if not len(boxes):
        return []
    lowest = boxes[:, 2].min()
    filled = np.bincount(boxes[:, 2] - lowest)  # columns per layer
    enough = max(_FEWEST_COLUMNS, _ABOVE_AVERAGE * filled[filled > 0].mean())
    found: list[int] = []
    for layer in np.argsort(-filled, kind="stable"):
        if filled[layer] < enough or len(found) == _MOST:
            break
        if all(abs(layer - other) >= _APART for other in found):
            found.append(int(layer))
    return [(layer + int(lowest) + 0.5) * _LAYER for layer in sorted(found)]


def in_words(heights: list[float]) -> str:
    """For a message: 0.75 m below, 2.40 m above."""
    return ", ".join(f"{abs(height):.2f} m {'below' if height < 0 else 'above'}" for height in heights) or "none"
