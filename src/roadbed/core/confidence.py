# SPDX-License-Identifier: Apache-2.0
"""The mounting of a sensor, and how sure a ground frame is of it and of its surface."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32, Grid, Pose

RADIUS, COLUMN = 15.0, 0.25  # m around the sensor, in columns of this size
ON, ABOVE, BELOW = 0.1, (0.15, 0.6), 0.2  # m from the surface: on it, where a structure stands on it, and under it
LARGEST_SIGMA = 0.1  # m of a surface that is known
UNDER_VEHICLE, STEP = 3.0, 0.3  # m around the sensor, where the surface is no farther from the plane of the mounting
SURE_SURFACE = 0.45  # share from which a surface is not doubtful
_FEWEST_BESIDE = 20  # ground points next to the vehicle that tell a step
_AROUND, _FEWEST_AROUND, _WRONG_HEIGHT = 8.0, 100, 0.5  # m, points, m: a given mounting (off by 0.15 m off the road)
_WRONG_TILT = 8.0  # degrees (6 off the road)
_ROUGH, _POOR = 0.058, 0.62  # m, rms of cells beside a curved surface, and confidence: wheels may stand 5 degrees off
_BENEATH = 0.35  # times a cell's error, of ground continued under the vehicle: 0.28 if seen all around, 0.6 of rings
_FEWEST_COLUMNS = 32  # with low returns (2 m2): fewer tell nothing, as where a wall's foot is all that is in view
_POINTS = 60_000  # looked at
_STEP_BESIDE = f"surface: within {UNDER_VEHICLE:g} m it is not at the height of the mounting: an edge, or no ground"


@dataclass(frozen=True, kw_only=True, eq=False)
class Mounting:
    """Pose of a sensor on the vehicle, and how reliable it is."""

    T_vehicle_sensor: Pose  # m
    estimated: bool  # False: given by the user
    quality: float = 1.0  # its confidence, 0 (nothing found) to 1: `GroundFrame.confidence.mounting`
    table: float = 0.0  # m over the ground: level of the table or shelf that the sensor stands on; 0: it does not
    doubt: str = ""  # why the mounting is doubtful; empty: it is not

    @property
    def height(self) -> float:
        """m over the road."""
        return self.T_vehicle_sensor.xyz[2]

    def __repr__(self) -> str:
        pitch, roll = math.degrees(self.T_vehicle_sensor.pitch), math.degrees(self.T_vehicle_sensor.roll)
        how = f"estimated, confidence {self.quality:.2f}" if self.estimated else "given"
        return f"Mounting(height {self.height:.2f} m, pitch {pitch:.1f}, roll {roll:.1f} degrees, {how})"


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """Confidence of one frame in its mounting and its surface, and what speaks against them."""

    mounting: float  # 0 (not found) to 1: share of the lowest returns around that lie on the plane; 1: given
    surface: float  # 0 to 1: share of the columns of 0.25 m with low returns that show free ground
    doubts: tuple[str, ...] = ()  # why mounting or surface are doubtful

    @property
    def is_sure(self) -> bool:
        """Whether neither is doubtful."""
        return not self.doubts


class SurfaceLayers(NamedTuple):
    """The surface of a frame, as in `GroundFrame`."""

    grid: Grid
    elevation: Float32
    slope: Float32
    variance: Float32


def surface_confidence(points: Float32, over_plane: Float32, near: NDArray[np.bool_], layers: SurfaceLayers) -> float:
    """Share (0 to 1) of the columns around the sensor with returns lower than 0.6 m over the surface in which the
    surface is known to 0.1 m (one sigma), returns lie on it, and none stands on it or lies below it.

    `points` (N, 3) lie along the axes of the grid, `over_plane` (N,) are their heights over the plane of the mounting
    (m), which serve where no surface is known; `near` (N,) those next to the vehicle, which stands on the surface.
    """
    if not len(points):
        return 0.0
    grid, elevation, slope, variance = layers
    column = np.clip(np.floor((points[:, 0] - grid.x0) / grid.spacing + 0.5), 0, grid.columns - 1).astype(np.int64)
    row = np.clip(np.floor((points[:, 1] - grid.y0) / grid.spacing + 0.5), 0, grid.rows - 1).astype(np.int64)
    x, y = points[:, 0] - (grid.x0 + column * grid.spacing), points[:, 1] - (grid.y0 + row * grid.spacing)
    tilt = slope[row, column]
    over = points[:, 2] - (elevation[row, column] + tilt[:, 0] * x + tilt[:, 1] * y)
    is_known = np.isfinite(over) & (variance[row, column] < LARGEST_SIGMA**2)
    over = np.where(is_known, over, over_plane)
    place = np.floor(points[:, :2] / COLUMN).astype(np.int64)
    place -= place.min(axis=0)
    columns_across = int(place[:, 1].max()) + 1
    number = place[:, 0] * columns_across + place[:, 1]

    def columns(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.bincount(number[chosen], minlength=int(number.max()) + 1) > 0

    low = columns(over < ABOVE[1])
    if np.count_nonzero(low) < _FEWEST_COLUMNS:
        return 0.0
    structure, below = columns((over > ABOVE[0]) & (over < ABOVE[1])), columns(over < -BELOW)
    is_on = is_known & (np.abs(over) < ON) & ~(near & (np.abs(over_plane) > STEP))
    free = columns(is_on) & ~structure & ~below
    return float(np.count_nonzero(free)) / float(np.count_nonzero(low))


def _doubt_about_height(over_plane: Float32) -> str:
    """Where ground around the sensor (N,) is not at the height that a given mounting says; empty where it is."""
    offset = float(np.median(over_plane)) if len(over_plane) > _FEWEST_AROUND else 0.0
    if abs(offset) < _WRONG_HEIGHT:
        return ""
    where = f"{abs(offset):.1f} m {'below' if offset < 0 else 'above'}"
    return f"mounting: ground within {_AROUND:g} m lies {where} the road of the given mounting: is its height right?"


def _doubt_about_plane(ground: Float32, mounting: Mounting, is_alone: bool) -> str:
    """Where ground (N, 3) in level axes is tilted, if enough is seen around the sensor to tell, or rough, if the
    mounting is from a scan that `is_alone`; empty where it is neither.

    A curved surface through the ground tells both, so that hills are no roughness. Wheels on rough ground stand several
    degrees off the plane through all of it, and the ground beneath them is not seen. Over a sequence that evens out.
    """
    if not len(ground):
        return ""
    side = int(2 * _AROUND)
    cell = np.floor(ground[:, 0] + _AROUND).astype(np.int64) * side + np.floor(ground[:, 1] + _AROUND).astype(np.int64)
    count = np.bincount(cell, minlength=side * side)
    x, y, z = (np.bincount(cell, axis, side * side)[count > 0] / count[count > 0] for axis in ground.T)
    terms = np.column_stack([np.ones(len(x)), x, y, x * x, x * y, y * y])
    covariance = np.linalg.inv(terms.T @ terms + 1e-6 * np.eye(6))  # of cells with an error of 1
    is_known = math.sqrt(covariance.diagonal()[:3] @ np.array([1, UNDER_VEHICLE**2, UNDER_VEHICLE**2])) < _BENEATH
    surface = covariance @ (terms.T @ z)
    tilt, rough = math.degrees(math.atan(math.hypot(*surface[1:3]))), math.sqrt(np.mean((z - terms @ surface) ** 2))
    if is_known and tilt >= _WRONG_TILT:
        where = f"mounting: ground within {_AROUND:g} m"
        return f"{where} is tilted by {tilt:.0f} degrees against it: are its angles right?"
    if is_alone and mounting.estimated and mounting.quality < _POOR and rough > _ROUGH:
        return f"mounting: on ground so rough ({rough:.2f} m) one scan does not tell how the vehicle stands: give poses"
    return ""


def frame_confidence(
    points: Float32,
    is_ground: NDArray[np.bool_],
    ego_mask: NDArray[np.bool_] | None,
    T_grid_sensor: Pose,
    mounting: Mounting,
    layers: SurfaceLayers,
    is_alone: bool = True,
) -> Confidence:
    """Confidence of a frame from its scan (points in the sensor frame), labels, mounting and layers; `is_alone`: its
    mounting is from this scan, as it has no odometry."""
    distance = np.hypot(points[:, 0], points[:, 1])
    is_seen = (distance < RADIUS) & (points != 0).any(axis=1) & np.isfinite(points[:, 2])
    chosen = np.flatnonzero(is_seen if ego_mask is None else is_seen & ~ego_mask)
    chosen = chosen[:: max(1, len(chosen) // _POINTS)]
    points, near = points[chosen], distance[chosen] < UNDER_VEHICLE
    over_plane = (mounting.T_vehicle_sensor @ points)[:, 2]
    surface = surface_confidence(T_grid_sensor @ points, over_plane, near, layers)
    doubt = f"surface: free ground in {100 * surface:.0f} % of the area around the sensor"
    beside = np.abs(over_plane[near & is_ground[chosen]]) > STEP
    has_step = np.count_nonzero(beside) > max(len(beside) / 2, _FEWEST_BESIDE)
    around = (is_ground[chosen] & (distance[chosen] < _AROUND)).nonzero()[0]
    height = "" if mounting.estimated else _doubt_about_height(over_plane[around])
    level = Pose(mounting.T_vehicle_sensor.rotation, (0, 0, 0)) @ points[around]
    level = level[np.abs(level[:, :2]).max(axis=1, initial=0) < _AROUND]
    plane = "" if mounting.doubt else _doubt_about_plane(level, mounting, is_alone)
    doubts = mounting.doubt, height, plane, doubt if surface < SURE_SURFACE else "", _STEP_BESIDE if has_step else ""
    return Confidence(mounting=mounting.quality, surface=surface, doubts=tuple(filter(None, doubts)))
