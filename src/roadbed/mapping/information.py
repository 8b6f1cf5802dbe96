# SPDX-License-Identifier: Apache-2.0
"""Planes in information form: nine layers per node, P = (p00 p01 p02 p11 p12 p22) and X = P (h, sx, sy)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadbed.core.errors import InputError
from roadbed.core.geometry import Float32, Float64

POINT_NOISE = 2.2e-6  # m^2 of one effective point on a perfect plane: 1.5 mm
_LEAST = 1e-6  # least information on a slope, so that planes with only a height can be solved


@dataclass(frozen=True)
class SurfaceParameters:
    """How information becomes a surface: the settings of the ground filter that collected it."""

    height_information: float = 2e-4  # effective points of the weak prior of the solve
    slope_information: float = 0.06
    point_variance: float = 0.0025  # m^2 of one effective point
    known_variance: float = 0.0625  # m^2, the surface is unknown above it
    disagreement: float = 1.5  # added variance per squared difference from neighbouring planes; 0: off
    islands: float = 60  # smallest component of connected nodes; 0: any

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (0 < value < np.inf or (name in ("disagreement", "islands") and value == 0)):
                raise InputError(f"surface: {name} = {value:g}: expected a positive number")


@dataclass(frozen=True, eq=False)
class Planes:
    """The surface at the nodes, arrays (rows, columns); NaN where unknown."""

    elevation: Float64  # m, in the frame of the base
    slope_x: Float64  # dz/dx
    slope_y: Float64
    variance: Float64  # m^2 of the elevation

    @property
    def known(self) -> np.ndarray:
        return np.isfinite(self.elevation)

    @property
    def slope(self) -> Float64:
        """(rows, columns) steepness, a tangent."""
        return np.hypot(self.slope_x, self.slope_y)


def raise_base(information: Float32, by: float) -> None:
    """Make heights relative to a base `by` metres higher: X - P (by, 0, 0), in place on (rows, 9, columns)."""
    for x, p in ((6, 0), (7, 1), (8, 2)):
        information[:, x] -= np.float32(by) * information[:, p]


def information_of(precision: Float64, height: ArrayLike, slope_x: ArrayLike, slope_y: ArrayLike) -> Float64:
    """P (6, N) with X = P (h, sx, sy): (9, N)."""
    p00, p01, p02, p11, p12, p22 = precision
    h, sx, sy = (np.asarray(values, np.float64) for values in (height, slope_x, slope_y))
    x = (p00 * h + p01 * sx + p02 * sy, p01 * h + p11 * sx + p12 * sy, p02 * h + p12 * sx + p22 * sy)
    return np.stack([*precision, *x])


def planes_of(information: Float32, base: float, rules: SurfaceParameters) -> Planes:
    """P^-1 X of information (9, rows, columns), by L D L^T as the filter solves it, in float64."""
    p00, p01, p02, p11, p12, p22, x0, x1, x2 = information.astype(np.float64)
    seen = p00 > 0
    p00 = np.where(seen, p00, 1.0)
    l1, l2 = p01 / p00, p02 / p00
    d1 = np.maximum(p11 - l1 * p01, _LEAST)
    t = p12 - l1 * p02
    l3 = t / d1
    d2 = np.maximum(p22 - l2 * p02 - l3 * t, _LEAST)
    b1 = x1 - l1 * x0
    slope_y = (x2 - l2 * x0 - l3 * b1) / d2
    slope_x = b1 / d1 - l3 * slope_y
    height = x0 / p00 - l1 * slope_x - l2 * slope_y
    lever = l1 * l3 - l2
    variance = rules.point_variance * (1 / p00 + l1 * l1 / d1 + lever * lever / d2)
    unknown = ~(seen & (variance <= rules.known_variance))
    for layer in (height, slope_x, slope_y, variance):
        layer[unknown] = np.nan
    return Planes(height + base, slope_x, slope_y, variance)


def translated(information: Float64, dx: Float64, dy: Float64) -> Float64:
    """F^T (P, X) F: the same planes with their reference points moved by (dx, dy) metres; (9, N)."""
    p00, p01, p02, p11, p12, p22, x0, x1, x2 = information
    a, b = -dx, -dy
    return np.stack(
        [
            p00,
            p01 + a * p00,
            p02 + b * p00,
            p11 + 2 * a * p01 + a * a * p00,
            p12 + a * p02 + b * p01 + a * b * p00,
            p22 + 2 * b * p02 + b * b * p00,
            x0,
            x1 + a * x0,
            x2 + b * x0,
        ]
    )


def rotated(information: Float64, yaw: float) -> Float64:
    """The same planes in axes in which the old axes have the angle `yaw`; (9, N)."""
    c, s = np.cos(yaw), np.sin(yaw)
    p00, p01, p02, p11, p12, p22, x0, x1, x2 = information
    return np.stack(
        [
            p00,
            c * p01 - s * p02,
            s * p01 + c * p02,
            c * c * p11 - 2 * c * s * p12 + s * s * p22,
            c * s * (p11 - p22) + (c * c - s * s) * p12,
            s * s * p11 + 2 * c * s * p12 + c * c * p22,
            x0,
            c * x1 - s * x2,
            s * x1 + c * x2,
        ]
    )


def tilted(information: Float64, slope_x: float, slope_y: float, lift: Float64) -> Float64:
    """Heights raised by `lift` (N,) at each node and by a plane of these slopes around it: X + P (lift, sx, sy)."""
    p00, p01, p02, p11, p12, p22 = information[:6]
    out = information.copy()
    out[6] += p00 * lift + p01 * slope_x + p02 * slope_y
    out[7] += p01 * lift + p11 * slope_x + p12 * slope_y
    out[8] += p02 * lift + p12 * slope_x + p22 * slope_y
    return out
