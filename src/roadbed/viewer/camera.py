# SPDX-License-Identifier: Apache-2.0
"""Keeps the eye above the ground: from below, a surface looks like a road that is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from roadbed.core.geometry import Float64

CLEARANCE = 0.5  # m
_SLACK = 0.02  # m; what the page sends back differs by rounding


def keep_above(camera: Any, ground: Callable[[float, float], float]) -> None:
    """Bring a viser camera back over `ground(x, y)` if it has sunk below."""
    moved = lifted(camera.position, camera.look_at, ground(*camera.position[:2]) + CLEARANCE)
    if moved is not None:
        with camera.client.atomic():
            camera.position, camera.look_at = moved


def lifted(position: Float64, target: Float64, floor: float) -> tuple[Float64, Float64] | None:
    """Eye and target with the eye at `floor`, None if it is above.

    The eye goes back on its orbit around the target, so that a drag ends at the ground as at a stop; where the orbit
    does not reach the floor, both rise.
    """
    if position[2] > floor - _SLACK:
        return None
    away = position - target
    distance, rise = float(np.linalg.norm(away)), floor - target[2]
    aside = float(np.hypot(*away[:2]))
    if abs(rise) >= 0.99 * distance or aside < 1e-6:
        up = np.array([0.0, 0.0, floor - position[2]])
        return position + up, target + up
    return target + np.array([*away[:2] * (np.sqrt(distance**2 - rise**2) / aside), rise]), target
