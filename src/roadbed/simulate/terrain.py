# SPDX-License-Identifier: Apache-2.0
"""The ground as a sum of layers around a road: each layer has a closed-form height and gradient."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.geometry import Float64
from roadbed.kernels.parallel import parallel_for
from roadbed.simulate import heightfield
from roadbed.simulate.ground_ray import Bounds, bound_squares
from roadbed.simulate.layers import Bend, Layer, Plane, Strip

_GRAIN = 1000  # points per task: fewer are not worth another thread
ROAD, PARKING, SIDEWALK, TERRAIN = 40, 44, 48, 72  # SemanticKITTI class ids


@dataclass(frozen=True)
class Terrain:
    """A height field z = h(x, y) with exact gradient, and the class of the surface."""

    layers: tuple[Layer, ...] = (Plane(),)
    bends: tuple[Bend, ...] = ()
    strips: tuple[Strip, ...] = ()  # the first strip that contains a point gives its class
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
        values = np.empty((x.size, 3))
        parallel_for(heightfield.evaluate, x.size, self.compiled, x.ravel(), y.ravel(), values, grain=_GRAIN)
        return values[:, 0].reshape(x.shape), values[:, 1:].reshape(*x.shape, 2)

    def from_road(self, x: ArrayLike, y: ArrayLike) -> Float64:
        """Lateral distance from the road's centreline, left positive, m."""
        values = heightfield.road_coordinate(self.compiled, *(np.atleast_1d(np.asarray(v, np.float64)) for v in (x, y)))
        return values.reshape(np.shape(x))

    def centreline(self, x: ArrayLike) -> tuple[Float64, Float64, Float64]:
        """y of the road's middle with its first and second derivative."""
        x = np.asarray(x, np.float64)
        return self._centreline(x, np.zeros_like(x), np.sin, np.cos)

    def centreline_at(self, x: float) -> tuple[float, float, float]:
        """As `centreline` for one x, without the cost of arrays."""
        return self._centreline(x, 0.0, math.sin, math.cos)

    def _centreline(self, x: Any, zero: Any, sin: Callable, cos: Callable) -> tuple[Any, Any, Any]:
        y = slope = curve = zero
        for bend in self.bends:
            k = 2 * math.pi / bend.wavelength
            angle = k * x + bend.phase
            y = y + bend.amplitude * sin(angle)
            slope = slope + bend.amplitude * k * cos(angle)
            curve = curve - bend.amplitude * k * k * sin(angle)
        return y, slope, curve

    def semantic(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.uint16]:
        """SemanticKITTI class of the surface at (x, y)."""
        x = np.asarray(x, np.float64)
        across = self.from_road(x, y)
        result = np.full(x.shape, self.elsewhere, np.uint16)
        for strip in reversed(self.strips):
            distance = np.abs(across) if strip.side == 0 else strip.side * across
            result[(distance >= strip.start) & (distance < strip.end)] = strip.semantic
        period, half_width, offset = self.crossing
        if period > 0:
            along = (x - offset + period / 2) % period - period / 2
            result[np.abs(along) < half_width] = ROAD
        return result

    def bounds(self, x_min: float, x_max: float, y_min: float, y_max: float) -> Bounds:
        """Bounds over an area, in squares that start at whole metres."""
        column_0, row_0 = int(np.floor(x_min)), int(np.floor(y_min))
        columns, rows = int(np.ceil(x_max)) - column_0, int(np.ceil(y_max)) - row_0
        return bound_squares(self.compiled, column_0, row_0, columns, rows)
