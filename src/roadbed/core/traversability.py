# SPDX-License-Identifier: Apache-2.0
"""Where a vehicle can drive: a score per ground cell, 0 to 1, and the property that limits it."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.device_arrays import to_host
from roadbed.core.geometry import Float32, Float64


@dataclass(frozen=True, kw_only=True)
class TraversabilityLimits:
    """Up to the first value of each pair a cell is free to drive on; from the second on it is impassable."""

    slope_free: float = 0.15  # tangent of the steepest inclination
    slope_most: float = 0.50
    step_free: float = 0.05  # m between the planes of two neighbours where they meet
    step_most: float = 0.25
    roughness_free: float = 0.03  # m, rms of the 3 x 3 cells around their plane
    roughness_most: float = 0.15
    sigma_free: float = 0.10  # m, standard deviation of the elevation
    sigma_most: float = 0.25


class Reason(IntEnum):
    """The property that limits the score of a cell."""

    UNKNOWN = 0  # no ground is known there
    NONE = 1  # none: the cell is free
    SLOPE = 2
    STEP = 3
    ROUGHNESS = 4
    VARIANCE = 5


@dataclass(frozen=True, eq=False)
class Traversability:
    """Layers of shape (rows, columns)."""

    score: Float32  # 0: impassable, 1: free, NaN: unknown
    reason: NDArray[np.uint8]  # `Reason`: the property with the lowest score


def traversability(
    elevation: ArrayLike,
    slope: ArrayLike,
    variance: ArrayLike,
    spacing: float,
    limits: TraversabilityLimits | None = None,
) -> Traversability:
    """From elevation (rows, columns) in m, slope (rows, columns, 2) and variance in m^2; NaN where unknown."""
    limits = limits or TraversabilityLimits()
    height, inclination = to_host(elevation).astype(np.float64), to_host(slope).astype(np.float64)
    known = np.isfinite(height)
    measured = {
        "slope": np.hypot(inclination[..., 0], inclination[..., 1]),
        "step": _steps(height, inclination, spacing),
        "roughness": _roughness(height),
        "sigma": np.sqrt(np.maximum(to_host(variance), 0)),
    }
    scores = np.stack([_score(values, limits, name) for name, values in measured.items()])
    worst = scores.min(axis=0)
    reason = np.where(worst < 1, scores.argmin(axis=0) + int(Reason.SLOPE), int(Reason.NONE))
    return Traversability(
        np.where(known, worst, np.nan).astype(np.float32),
        np.where(known, reason, int(Reason.UNKNOWN)).astype(np.uint8),
    )


def _score(values: Float64, limits: TraversabilityLimits, name: str) -> Float64:
    """A straight line from 1 to 0; a property that cannot be computed, e.g. without neighbours, does not count."""
    free, most = getattr(limits, f"{name}_free"), getattr(limits, f"{name}_most")
    return np.nan_to_num(np.clip((most - values) / (most - free), 0, 1), nan=1.0)


def _steps(height: Float64, slope: Float64, spacing: float) -> Float64:
    """The largest step to one of the four neighbours: how far the two planes are apart halfway between the cells."""
    steps = np.zeros(height.shape)
    half = spacing / 2
    for axis, along in ((1, 0), (0, 1)):
        first = [slice(None), slice(None)]
        second = [slice(None), slice(None)]
        first[axis], second[axis] = slice(None, -1), slice(1, None)
        low, high = tuple(first), tuple(second)
        gap = np.abs((height[low] + half * slope[low][..., along]) - (height[high] - half * slope[high][..., along]))
        gap = np.nan_to_num(gap)
        steps[low] = np.maximum(steps[low], gap)
        steps[high] = np.maximum(steps[high], gap)
    return steps


def _roughness(height: Float64) -> Float64:
    """Root mean square of the 3 x 3 cells around a cell about their own plane; NaN unless all nine are known."""
    padded = np.pad(height, 1, constant_values=np.nan)
    rows, columns = height.shape
    around = np.stack([padded[r : r + rows, c : c + columns] for r in range(3) for c in range(3)])
    across = np.tile([-1.0, 0.0, 1.0], 3)[:, None, None]
    along = np.repeat([-1.0, 0.0, 1.0], 3)[:, None, None]
    mean = around.mean(axis=0)
    slope_x, slope_y = (around * across).mean(axis=0) * 1.5, (around * along).mean(axis=0) * 1.5
    return np.sqrt(((around - mean - slope_x * across - slope_y * along) ** 2).mean(axis=0))
