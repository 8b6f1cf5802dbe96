# SPDX-License-Identifier: Apache-2.0
"""Nodes of a map judged by those around them, as the ground filter judges its own: crowns are not the ground."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.compute.components_cpu import label_components
from roadbed.mapping.information import POINT_NOISE, Planes, SurfaceRules

_BESIDE = [(rows, columns) for rows in (-1, 0, 1) for columns in (-1, 0, 1) if rows or columns]


def judged(planes: Planes, spacing: float, rules: SurfaceRules) -> Planes:
    """Planes with the variance that those beside them tell; unknown where they contradict these, and on islands.

    The outermost two nodes of each side lack neighbours: what is said of them is not to be used.
    """
    elevation, variance = planes.elevation, planes.variance
    unknown = ~planes.known
    if rules.disagreement:
        bump = _bumps(planes, spacing)
        unknown |= ~(variance + rules.disagreement * bump <= rules.known_variance)
        # Its points come from many scans: unlike in one frame, neighbours do not count the same ones again.
        point = POINT_NOISE + _mean_around(bump, planes.known)
        variance = np.minimum(variance / rules.point_variance * point + bump, rules.known_variance)
    if rules.islands:
        unknown |= _islands(~unknown, rules.islands)
    layers = elevation, planes.slope_x, planes.slope_y, variance
    return Planes(*(np.where(unknown, np.nan, layer) for layer in layers))


def _bumps(planes: Planes, spacing: float) -> NDArray:
    """m^2, mean squared difference between each height and the planes of the known nodes beside it."""
    total, beside = np.zeros(planes.elevation.shape), np.zeros(planes.elevation.shape)
    for rows, columns in _BESIDE:
        height, slope_x, slope_y = (
            np.roll(layer, (rows, columns), (0, 1)) for layer in (planes.elevation, planes.slope_x, planes.slope_y)
        )
        apart = height + spacing * (columns * slope_x + rows * slope_y) - planes.elevation
        total += np.nan_to_num(apart) ** 2
        beside += np.isfinite(apart)
    return total / np.maximum(beside, 1)


def _mean_around(values: NDArray, known: NDArray[np.bool_]) -> NDArray:
    """Mean of the 3 x 3 known values around each node."""
    total, count = np.where(known, values, 0.0), known.astype(float)
    for axis in (0, 1):
        total, count = (np.roll(a, 1, axis) + a + np.roll(a, -1, axis) for a in (total, count))
    return total / np.maximum(count, 1)


def _islands(known: NDArray[np.bool_], fewest: float) -> NDArray[np.bool_]:
    """Nodes of components of fewer nodes; one that reaches the edge may go on beyond it."""
    label = np.empty(known.shape, np.int32)
    count = label_components(known, label)
    size = np.bincount(label[known], minlength=count)
    edges = np.concatenate([label[0], label[-1], label[:, 0], label[:, -1]])
    size[edges[edges >= 0]] = known.size
    return known & (size[label] < fewest) if count else np.zeros_like(known)
