# SPDX-License-Identifier: Apache-2.0
"""Level surfaces around a sensor (floor, table, ceiling), and whether a plane among them can be the ground."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32, Float64

_RADIUS, _COLUMN, _LAYER = 15.0, 0.25, 0.05  # m around the sensor, and size of the boxes that are counted
_FEWEST_COLUMNS = 20  # of a surface
_ABOVE_AVERAGE = 2.0  # a surface fills so many times the columns of an average layer: a wall fills all layers alike
_APART = 6  # layers between two surfaces
_MOST = 4  # surfaces
_POINTS = 30_000  # looked at
_ON = 0.1  # m from a plane
_ABOVE = (0.15, 0.6)  # m over it, where a structure stands on it
_BELOW = 0.2  # m under it
_LARGEST_SHARE = 0.5  # of the columns on the plane


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


def why_not_ground(points: Float64) -> str:
    """Why the plane z = 0 of these points is hardly the ground; empty where nothing speaks against it.

    Ground is seen between structures, and little lies below it. Walls and furniture alone imitate a plane too, by the
    lowest ring of beams on them; so does a table top with the floor below it.
    """
    chosen = points[:: max(1, len(points) // _POINTS)]
    near = chosen[np.hypot(chosen[:, 0], chosen[:, 1]) < _RADIUS]
    column, row = np.floor((near[:, :2] + _RADIUS) / _COLUMN).astype(np.int64).T
    height, side = near[:, 2], int(2 * _RADIUS / _COLUMN)

    def columns(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.bincount(column[chosen] * side + row[chosen], minlength=side * side) > 0

    on = columns(np.abs(height) < _ON)
    limit = _LARGEST_SHARE * np.count_nonzero(on)
    if np.count_nonzero(on & columns((height > _ABOVE[0]) & (height < _ABOVE[1]))) > limit:
        return "structures rise from most of that plane"
    if np.count_nonzero(columns(height < -_BELOW)) > limit:
        return "many returns lie below that plane"
    return ""


def in_words(heights: list[float]) -> str:
    """For a message: 0.75 m below, 2.40 m above."""
    return ", ".join(f"{abs(height):.2f} m {'below' if height < 0 else 'above'}" for height in heights) or "none"
