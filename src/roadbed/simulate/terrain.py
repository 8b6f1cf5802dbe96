# SPDX-License-Identifier: Apache-2.0
"""The ground as a sum of layers around a road: each layer has a closed-form height and gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.errors import ConfigError
from roadbed.frames import Float64
from roadbed.simulate import heightfield

ROAD, PARKING, SIDEWALK, TERRAIN = 40, 44, 48, 72  # SemanticKITTI class ids


@dataclass(frozen=True)
class Bend:
    """One sine of the road's centreline y(x)."""

    amplitude: float  # m
    wavelength: float  # m
    phase: float = 0.0  # rad

    def __post_init__(self) -> None:
        _require(self.wavelength > 0, "Bend.wavelength", self.wavelength, "above 0 m")


class Layer:
    """A summand of the height. `row()` is its form for the compiled evaluator."""

    def row(self) -> tuple[float, ...]:
        raise NotImplementedError


@dataclass(frozen=True)
class Plane(Layer):
    """Constant level and slope."""

    level: float = 0.0
    slope_x: float = 0.0
    slope_y: float = 0.0

    def row(self) -> tuple[float, ...]:
        return heightfield.PLANE, self.level, self.slope_x, self.slope_y


@dataclass(frozen=True)
class Wave(Layer):
    """A sine. With `fade`, it starts at `fade[0]` metres from the centreline and is full at `fade[1]`."""

    amplitude: float
    wavelength: float
    direction: float = 0.0  # rad from the x axis
    phase: float = 0.0
    fade: tuple[float, float] = (-1.0, -1.0)

    def row(self) -> tuple[float, ...]:
        _require(self.wavelength >= 1, "Wave.wavelength", self.wavelength, "1 m or more")
        k = 2 * np.pi / self.wavelength
        k_x, k_y = k * np.cos(self.direction), k * np.sin(self.direction)
        return heightfield.WAVE, self.amplitude, k_x, k_y, self.phase, *self.fade


@dataclass(frozen=True)
class Ramp(Layer):
    """A smooth rise along x between two places; its steepest slope is 1.5 rise / length."""

    start: float
    end: float
    rise: float

    def row(self) -> tuple[float, ...]:
        _require(self.end >= self.start + 1, "Ramp.end", self.end, f"1 m or more beyond the start at {self.start} m")
        return heightfield.RAMP, self.start, self.end, self.rise


@dataclass(frozen=True)
class Crown(Layer):
    """The road's middle is higher than its edges, so that rain runs off: a parabola."""

    height: float
    half_width: float

    def row(self) -> tuple[float, ...]:
        _require(self.half_width > 0, "Crown.half_width", self.half_width, "above 0 m")
        return heightfield.CROWN, self.height, self.half_width


@dataclass(frozen=True)
class Banking(Layer):
    """Bends tilt inwards: cross slope = gain (m) times the second derivative of the centreline."""

    gain: float
    half_width: float

    def row(self) -> tuple[float, ...]:
        _require(self.half_width > 0, "Banking.half_width", self.half_width, "above 0 m")
        return heightfield.BANKING, self.gain, self.half_width


@dataclass(frozen=True)
class Shoulder(Layer):
    """A rise (or with a negative value a drop) on one side of the road: +1 left, -1 right, 0 both."""

    side: int
    start: float  # m from the centreline
    end: float
    rise: float

    def row(self) -> tuple[float, ...]:
        _require(
            self.end >= self.start + 1, "Shoulder.end", self.end, f"1 m or more beyond the start at {self.start} m"
        )
        return heightfield.SHOULDER, self.side, self.start, self.end, self.rise


@dataclass(frozen=True)
class Ditch(Layer):
    """A trough along the road: +1 left, -1 right, 0 both sides."""

    side: int
    distance: float  # m from the centreline to its middle
    half_width: float
    depth: float

    def row(self) -> tuple[float, ...]:
        _require(self.half_width >= 0.5, "Ditch.half_width", self.half_width, "0.5 m or more")
        return heightfield.DITCH, self.side, self.distance, self.half_width, self.depth


@dataclass(frozen=True)
class Kerb(Layer):
    """A step up beside the road; side streets of half width `crossing` cut it every `period` m of x."""

    half_width: float
    height: float = 0.12
    face: float = 0.04  # m, horizontal extent of the step
    period: float = 0.0  # 0: no side streets
    crossing: float = 0.0
    offset: float = 0.0  # x of one side street
    side: int = 0  # +1 left, -1 right, 0 both

    def row(self) -> tuple[float, ...]:
        _require(0.02 <= self.face <= 0.2, "Kerb.face", self.face, "0.02 to 0.2 m")
        side_streets = self.period, self.crossing, self.offset
        return heightfield.KERB, self.half_width, self.height, self.face, *side_streets, self.side


@dataclass(frozen=True)
class SpeedBump(Layer):
    """A hump across the road."""

    x: float
    half_length: float
    height: float

    def row(self) -> tuple[float, ...]:
        _require(self.half_length >= 0.4, "SpeedBump.half_length", self.half_length, "0.4 m or more")
        return heightfield.BUMP, self.x, self.half_length, self.height


@dataclass(frozen=True)
class Band:
    """A strip along the road with its own class; +1 left, -1 right, 0 both sides."""

    semantic: int
    start: float  # m from the centreline
    end: float
    side: int = 0


class Bounds(NamedTuple):
    """Conservative bounds of the height in squares of 1 m, which let the ray caster skip and stride."""

    column_0: int  # x of the first square's edge, whole metres
    row_0: int
    low: NDArray[np.float64]  # (rows, columns) m
    high: NDArray[np.float64]
    steepest: NDArray[np.float64]  # upper bound of the gradient's length


@dataclass(frozen=True)
class Terrain:
    """A height field z = h(x, y) with exact gradient, and what the surface is made of."""

    layers: tuple[Layer, ...] = (Plane(),)
    bends: tuple[Bend, ...] = ()
    bands: tuple[Band, ...] = ()  # the first that holds a place names its class
    elsewhere: int = TERRAIN
    crossing: tuple[float, float, float] = (0.0, 0.0, 0.0)  # side streets as in Kerb: period, half width, offset
    compiled: heightfield.Field = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows = [layer.row() for layer in self.layers]
        packed = np.zeros((len(rows), heightfield.ROW))
        for index, row in enumerate(rows):
            packed[index, : len(row)] = row
        bends = [(bend.amplitude, 2 * np.pi / bend.wavelength, bend.phase) for bend in self.bends]
        object.__setattr__(self, "compiled", heightfield.Field(packed, np.array(bends, np.float64).reshape(-1, 3)))

    def height(self, x: ArrayLike, y: ArrayLike) -> Float64:
        """Height in metres, same shape as x and y."""
        return self.height_and_slope(x, y)[0]

    def slope(self, x: ArrayLike, y: ArrayLike) -> Float64:
        """dz/dx and dz/dy on a last axis of 2."""
        return self.height_and_slope(x, y)[1]

    def height_and_slope(self, x: ArrayLike, y: ArrayLike) -> tuple[Float64, Float64]:
        x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
        evaluate = heightfield.evaluate if x.size > 1000 else heightfield.evaluate_few
        values = evaluate(self.compiled, x.ravel(), y.ravel())
        return values[:, 0].reshape(x.shape), values[:, 1:].reshape(*x.shape, 2)

    def normal(self, x: ArrayLike, y: ArrayLike) -> Float64:
        """Unit normals, on a last axis of 3."""
        slope = self.slope(x, y)
        normal = np.concatenate([-slope, np.ones((*slope.shape[:-1], 1))], axis=-1)
        return normal / np.linalg.norm(normal, axis=-1, keepdims=True)

    def from_road(self, x: ArrayLike, y: ArrayLike) -> Float64:
        """Lateral distance from the road's centreline, left positive, m."""
        values = heightfield.road_coordinate(self.compiled, *(np.atleast_1d(np.asarray(v, np.float64)) for v in (x, y)))
        return values.reshape(np.shape(x))

    def centreline(self, x: ArrayLike) -> tuple[Float64, Float64, Float64]:
        """y of the road's middle with its first and second derivative."""
        x = np.asarray(x, np.float64)
        y, slope, curve = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        for bend in self.bends:
            k = 2 * np.pi / bend.wavelength
            angle = k * x + bend.phase
            y = y + bend.amplitude * np.sin(angle)
            slope = slope + bend.amplitude * k * np.cos(angle)
            curve = curve - bend.amplitude * k * k * np.sin(angle)
        return y, slope, curve

    def centreline_at(self, x: float) -> tuple[float, float, float]:
        """As `centreline` for one place, without the cost of arrays."""
        y = slope = curve = 0.0
        for bend in self.bends:
            k = 2 * math.pi / bend.wavelength
            angle = k * x + bend.phase
            y += bend.amplitude * math.sin(angle)
            slope += bend.amplitude * k * math.cos(angle)
            curve -= bend.amplitude * k * k * math.sin(angle)
        return y, slope, curve

    def semantic(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.uint16]:
        """SemanticKITTI class of the surface at (x, y)."""
        x = np.asarray(x, np.float64)
        across = self.from_road(x, y)
        result = np.full(x.shape, self.elsewhere, np.uint16)
        for band in reversed(self.bands):
            distance = np.abs(across) if band.side == 0 else band.side * across
            result[(distance >= band.start) & (distance < band.end)] = band.semantic
        period, half_width, offset = self.crossing
        if period > 0:
            along = (x - offset + period / 2) % period - period / 2
            result[np.abs(along) < half_width] = ROAD
        return result

    def bounds(self, x_min: float, x_max: float, y_min: float, y_max: float) -> Bounds:
        """Bounds over an area, in squares that start at whole metres."""
        column_0, row_0 = int(np.floor(x_min)), int(np.floor(y_min))
        columns, rows = int(np.ceil(x_max)) - column_0, int(np.ceil(y_max)) - row_0
        return Bounds(column_0, row_0, *heightfield.bound_squares(self.compiled, column_0, row_0, columns, rows))


def _require(good: bool, name: str, found: float, expected: str) -> None:
    if not good:
        raise ConfigError(f"{name} = {found}: expected {expected}")
