# SPDX-License-Identifier: Apache-2.0
"""Whether a sensor was at the origin of the points: by where the ground is, by density, and by hidden points.

Only clouds that a scan's start would get wrong are looked at: the ground below the origin was not convincing, lies far
away, or much of the cloud lies beyond the lattice.
"""

from __future__ import annotations

import math

import numpy as np

from roadbed.config.ground import GroundConfig
from roadbed.core.device_arrays import to_host
from roadbed.core.frames import Mounting, Scan
from roadbed.core.geometry import Float32, Float64
from roadbed.ground.mounting.estimator import MountingEstimate
from roadbed.ground.mounting.level_surfaces import thinned

_POINTS = 20_000  # sampled for the density; `_RAYS` of them for hidden points
_RAYS = 500_000
_NEAREST, _FARTHEST = 1e-6, 1e15  # m, of a return: its square fits single precision
_SURE = 0.8  # quality of a mounting that is believed
_HIGHEST = 15.0  # m of a sensor over the ground
_APART = 3.0  # distance of the middle of the points from the origin, in median distances from the middle
_BEYOND = 0.25  # share of the points beyond the lattice: a scan has few so far away
_SMALLEST = 10.0  # m, extent of a cloud of which anything is said: rooms look alike from any point
# A sensor spreads its rays over angles: a surface of some size holds points in proportion to 1 / range^2.
_BOX, _FEWEST_BOXES = 0.1, 50  # of the median range: side of the boxes in which points are counted; boxes that tell
_FARTHEST_BOX = 10**6  # boxes from the origin, so that the number of a box fits 64 bits
_LEAST_FALL = 0.5  # exponent of the fall of points per box with the range; scans 0.6 to 2
_SPREAD = 2.5  # of the ranges, 90th to 10th percentile: in a small room all are alike and tell nothing
# A ray ends at one surface: few points lie behind others in the same direction.
_DIRECTION, _NEARER = 0.25, 0.5  # degrees; share of the range at which the nearer point lies
_MOST_HIDDEN = 0.15  # share of the points; scans 0 to 0.1


def why_no_origin(scan: Scan, estimate: MountingEstimate, config: GroundConfig) -> str:
    """Why no sensor was at the origin of a scan with this mounting; empty where one is plausible.

    Scans with odometry, a given mounting or a given origin have one; points in other units or axes are not tested.
    """
    mounting = estimate.mounting
    alone = scan.has_origin is None and scan.T_world_sensor is None and mounting.estimated
    if not alone or config.mounting.height is not None or estimate.other_axes:
        return ""
    points, half_width = _usable(to_host(scan.points)), max(config.stcrf.length, config.stcrf.width) / 2
    sample = thinned(points, _POINTS).astype(np.float64)
    too_small = len(sample) < _FEWEST_BOXES or np.ptp(sample[:, :2], axis=0).max() < _SMALLEST
    if _ground_is_far(mounting) or (not too_small and not mounting.quality and _points_are_far(sample)):
        return "the points lie far from their origin"
    if too_small:
        return ""
    beyond = float((np.abs(sample[:, :2]).max(axis=1) > half_width).mean())
    if beyond > _BEYOND:
        return f"{100 * beyond:.0f} % of the points lie beyond {half_width:g} m"
    if mounting.quality >= _SURE:
        return ""
    fall = density_fall(sample)
    if fall is not None and fall < _LEAST_FALL:
        return "the density does not fall with the range"
    if hidden_share(thinned(points, _RAYS)) > _MOST_HIDDEN:
        return "points lie behind others"
    return ""


def _ground_is_far(mounting: Mounting) -> bool:
    x, y, z = mounting.T_vehicle_sensor.xyz
    return mounting.quality > 0 and (math.hypot(x, y) > _HIGHEST or abs(z) > _HIGHEST)


def _points_are_far(sample: Float64) -> bool:
    """Whether no point lies at the height of the origin, or the origin lies outside of them."""
    lowest, highest = np.quantile(sample[:, 2], [0.01, 0.99])
    centre = np.median(sample, axis=0)
    from_centre = np.median(np.linalg.norm(sample - centre, axis=1))
    return bool(lowest > _HIGHEST or highest < -_HIGHEST or np.linalg.norm(centre) > _APART * from_centre)


def _usable(points: Float32) -> Float32:
    x, y, z = np.abs(points).T
    largest = np.maximum(np.maximum(x, y), z)  # NaN where one is
    usable = (largest > _NEAREST) & (largest < _FARTHEST)
    return points if usable.all() else points[usable]


def density_fall(points: Float64) -> float | None:
    """Exponent k of points per box ~ range^-k; None where too few boxes or ranges tell."""
    reach = np.linalg.norm(points, axis=1)
    near, far = np.quantile(reach, [0.1, 0.9])
    if far < _SPREAD * near:
        return None
    box = np.floor(points / (_BOX * np.median(reach))).clip(-_FARTHEST_BOX, _FARTHEST_BOX).astype(np.int64)
    row = 2 * _FARTHEST_BOX + 1
    number = (box[:, 0] * row + box[:, 1]) * row + box[:, 2]  # one integer sorts faster than rows of three
    _, index, count = np.unique(number, return_inverse=True, return_counts=True)
    if len(count) < _FEWEST_BOXES:
        return None
    ranges = np.log(np.bincount(index, reach) / count)
    spread = ranges - ranges.mean()
    return float(-(spread * np.log(count)).mean() / (spread**2).mean())


def hidden_share(points: Float32) -> float:
    """Share of the points with another one in the same direction at less than half the range."""
    x, y, z = np.ascontiguousarray(points.T)
    reach = np.sqrt(x * x + y * y + z * z)
    quarter = round(90 / _DIRECTION)
    per_radian = np.float32(2 * quarter / np.pi)
    azimuth, elevation = np.arctan2(y, x) * per_radian, np.arcsin(z / reach) * per_radian
    rows, columns = 2 * quarter + 1, 4 * quarter + 1
    direction = (np.floor(elevation).astype(np.int32) + quarter) * columns
    direction += np.floor(azimuth).astype(np.int32) + 2 * quarter
    nearest = np.full(rows * columns, np.inf, np.float32)
    np.minimum.at(nearest, direction, reach)
    return float((nearest[direction] < _NEARER * reach).mean())
