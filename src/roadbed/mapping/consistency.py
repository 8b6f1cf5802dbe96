# SPDX-License-Identifier: Apache-2.0
"""Consistency of map nodes with their neighbours, as in the ground filter: rejects tree crowns and small components."""

import math

import numpy as np
from numpy.typing import NDArray

from roadbed.mapping.information import POINT_NOISE, Planes, SurfaceParameters

_NEIGHBOURS = [(rows, columns) for rows in (-1, 0, 1) for columns in (-1, 0, 1) if rows or columns]


def consistent_planes(planes: Planes, spacing: float, rules: SurfaceParameters) -> Planes:
    """Planes with a variance from their neighbours; unknown where they contradict these, and in small components.

    The outermost two nodes of each side lack neighbours: their result is not valid.
    """
    elevation, variance = planes.elevation, planes.variance
    unknown = ~planes.known
    if rules.disagreement:
        bump = _bumps(planes, spacing)
        unknown |= ~(variance + rules.disagreement * bump <= rules.known_variance)
        # The points come from many scans: unlike in one frame, neighbours do not share points.
        point = POINT_NOISE + _mean_around(bump, planes.known)
        variance = np.minimum(variance / rules.point_variance * point + bump, rules.known_variance)
    if rules.islands:
        unknown |= _small_components(~unknown, rules.islands)
    layers = elevation, planes.slope_x, planes.slope_y, variance
    return Planes(*(np.where(unknown, np.nan, layer) for layer in layers))


def _bumps(planes: Planes, spacing: float) -> NDArray:
    """m^2, mean squared difference between each height and the planes of its known neighbours."""
    total, beside = np.zeros(planes.elevation.shape), np.zeros(planes.elevation.shape)
    for rows, columns in _NEIGHBOURS:
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


def _small_components(known: NDArray[np.bool_], fewest: float) -> NDArray[np.bool_]:
    """Nodes of components with fewer than `fewest` nodes; those at the border may continue beyond it."""
    large = known.copy()
    large[1:-1, 1:-1] = False
    side = math.ceil(math.sqrt(fewest))  # a full block of known nodes is large enough: few nodes are left to check
    rows, columns = (n // side for n in known.shape)
    whole = known[: rows * side, : columns * side].reshape(rows, side, columns, side).all(axis=(1, 3))
    large[: rows * side, : columns * side] |= whole.repeat(side, 0).repeat(side, 1)
    left, small = known & ~_component(large, known), np.zeros_like(known)
    while left.any():
        first = np.zeros_like(known)
        first.flat[left.argmax()] = True
        one = _component(first, left)
        left &= ~one
        if np.count_nonzero(one) < fewest:
            small |= one
    return small


def _component(start: NDArray[np.bool_], inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The nodes `inside` that are 8-connected to the start nodes."""
    reached, grown = np.zeros_like(start), start
    while (grown != reached).any():
        reached = grown
        wide = np.pad(reached, 1)
        wide = wide[:-2] | wide[1:-1] | wide[2:]
        grown = inside & (wide[:, :-2] | wide[:, 1:-1] | wide[:, 2:])
    return reached
