# SPDX-License-Identifier: Apache-2.0
"""Ground that several scenes share."""

from __future__ import annotations

from math import pi

from roadbed.simulate.layers import Wave
from roadbed.simulate.rng import RandomStream


def rough(
    seed: int,
    amplitude: float,
    *,
    shortest: float = 1.2,
    longest: float = 7.0,
    waves: int = 6,
    fade: tuple[float, float] = (-1.0, -1.0),
) -> list[Wave]:
    """Band-limited noise: sines in random directions, wavelengths spread evenly in octaves, long ones higher."""
    rng = RandomStream(seed, 99)
    found = []
    for index in range(waves):
        wavelength = shortest * (longest / shortest) ** (index / (waves - 1))
        height = amplitude * (wavelength / longest) ** 0.7
        found.append(Wave(height, wavelength, rng.uniform(0.0, pi), rng.uniform(0.0, 2 * pi), fade))
    return found
