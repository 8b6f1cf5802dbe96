# SPDX-License-Identifier: Apache-2.0
"""Layers of a terrain: each adds a height with a closed form around the road's centreline."""

from dataclasses import astuple, dataclass
from typing import ClassVar

import numpy as np

from roadbed.core.errors import ConfigError
from roadbed.simulate import heightfield
from roadbed.simulate.rng import RandomStream


@dataclass(frozen=True)
class Bend:
    """One sine of the road's centreline y(x)."""

    amplitude: float  # m
    wavelength: float  # m
    phase: float = 0.0  # rad

    def __post_init__(self) -> None:
        _require(self.wavelength > 0, "Bend.wavelength", self.wavelength, "above 0 m")


@dataclass(frozen=True)
class Layer:
    """A summand of the height. The compiled evaluator takes its KIND and its fields in this order."""

    KIND: ClassVar[int]

    def row(self) -> tuple[float, ...]:
        """Kind and parameters for the compiled evaluator."""
        return self.KIND, *astuple(self)


@dataclass(frozen=True)
class Plane(Layer):
    """Constant level and slope."""

    KIND: ClassVar[int] = heightfield.PLANE
    level: float = 0.0
    slope_x: float = 0.0
    slope_y: float = 0.0


@dataclass(frozen=True)
class Wave(Layer):
    """A sine. With `fade`, it starts at `fade[0]` metres from the centreline and is full at `fade[1]`."""

    amplitude: float
    wavelength: float
    direction: float = 0.0  # rad from the x axis
    phase: float = 0.0
    fade: tuple[float, float] = (-1.0, -1.0)

    def __post_init__(self) -> None:
        _require(self.wavelength >= 1, "Wave.wavelength", self.wavelength, "1 m or more")

    def row(self) -> tuple[float, ...]:
        k = 2 * np.pi / self.wavelength
        k_x, k_y = k * np.cos(self.direction), k * np.sin(self.direction)
        return heightfield.WAVE, self.amplitude, k_x, k_y, self.phase, *self.fade


@dataclass(frozen=True)
class Ramp(Layer):
    """A smooth rise along x between two positions; its steepest slope is 1.5 rise / length."""

    KIND: ClassVar[int] = heightfield.RAMP
    start: float
    end: float
    rise: float

    def __post_init__(self) -> None:
        _require(self.end >= self.start + 1, "Ramp.end", self.end, f"1 m or more beyond the start at {self.start} m")


@dataclass(frozen=True)
class Crown(Layer):
    """The middle of the road is higher than its edges: a parabola."""

    KIND: ClassVar[int] = heightfield.CROWN
    height: float
    half_width: float

    def __post_init__(self) -> None:
        _require(self.half_width > 0, "Crown.half_width", self.half_width, "above 0 m")


@dataclass(frozen=True)
class Banking(Layer):
    """Bends tilt inwards: cross slope = gain (m) times the second derivative of the centreline."""

    KIND: ClassVar[int] = heightfield.BANKING
    gain: float
    half_width: float

    def __post_init__(self) -> None:
        _require(self.half_width > 0, "Banking.half_width", self.half_width, "above 0 m")


@dataclass(frozen=True)
class Shoulder(Layer):
    """A rise (or with a negative value a drop) on one side of the road: +1 left, -1 right, 0 both."""

    KIND: ClassVar[int] = heightfield.SHOULDER
    side: int
    start: float  # m from the centreline
    end: float
    rise: float

    def __post_init__(self) -> None:
        expected = f"1 m or more beyond the start at {self.start} m"
        _require(self.end >= self.start + 1, "Shoulder.end", self.end, expected)


@dataclass(frozen=True)
class Ditch(Layer):
    """A trough along the road: +1 left, -1 right, 0 both sides."""

    KIND: ClassVar[int] = heightfield.DITCH
    side: int
    distance: float  # m from the centreline to its middle
    half_width: float
    depth: float

    def __post_init__(self) -> None:
        _require(self.half_width >= 0.5, "Ditch.half_width", self.half_width, "0.5 m or more")


@dataclass(frozen=True)
class Kerb(Layer):
    """A step up at the edge of the road; side streets of half width `crossing` cut it every `period` m of x."""

    KIND: ClassVar[int] = heightfield.KERB
    half_width: float
    height: float = 0.12
    face: float = 0.04  # m, horizontal extent of the step
    period: float = 0.0  # 0: no side streets
    crossing: float = 0.0
    offset: float = 0.0  # x of one side street
    side: int = 0  # +1 left, -1 right, 0 both

    def __post_init__(self) -> None:
        _require(0.02 <= self.face <= 0.2, "Kerb.face", self.face, "0.02 to 0.2 m")


@dataclass(frozen=True)
class SpeedBump(Layer):
    """A hump across the road."""

    KIND: ClassVar[int] = heightfield.BUMP
    x: float
    half_length: float
    height: float

    def __post_init__(self) -> None:
        _require(self.half_length >= 0.4, "SpeedBump.half_length", self.half_length, "0.4 m or more")


@dataclass(frozen=True)
class Strip:
    """A strip along the road with its own semantic class; +1 left, -1 right, 0 both sides."""

    semantic: int
    start: float  # m from the centreline
    end: float
    side: int = 0


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
        found.append(Wave(height, wavelength, rng.uniform(0.0, np.pi), rng.uniform(0.0, 2 * np.pi), fade))
    return found


def _require(good: bool, name: str, found: float, expected: str) -> None:
    if not good:
        raise ConfigError(f"{name} = {found}: expected {expected}")
