# SPDX-License-Identifier: Apache-2.0
"""Whether a sensor was at the origin of the points: by where the ground is, by density, and by hidden points.

Only clouds that a scan's start would get wrong are looked at: the ground below the origin was not convincing, lies far
away, or much of the cloud lies beyond the lattice.
"""

import math

import numpy as np

from roadbed.config.ground import GroundConfig
from roadbed.core.device_arrays import to_host
from roadbed.core.frames import Mounting, Scan
from roadbed.core.geometry import Float32
from roadbed.ground.mounting.estimator import MountingEstimate
from roadbed.ground.mounting.level_surfaces import sampled_returns

_RAYS = 500_000  # of the points, for hidden ones
_RANGES = 2_500  # of the sample, for the spread of the ranges
_SURE = 0.8  # quality of a mounting that is believed
_HIGHEST = 15.0  # m of a sensor over the ground
_APART = 3.0  # distance of the middle of the points from the origin, in median distances from the middle
_BEYOND = 0.25  # share of the points beyond the lattice: a scan has few so far away
_SMALLEST = 10.0  # m, extent of a cloud of which anything is said: rooms look alike from any point
# A sensor spreads its rays over angles: a surface of some size holds points in proportion to 1 / range^2.
_BOX, _FEWEST_BOXES = 0.1, 50  # of the median range: side of the boxes in which points are counted; boxes that tell
_LEAST_FALL = 0.5  # exponent of the fall of points per box with the range; scans 0.6 to 2
_SPREAD = 2.5  # of the ranges, 90th to 10th percentile: in a small room all are alike and tell nothing
# A ray ends at one surface: few points lie behind others in the same direction.
_MOST_HIDDEN = 0.15  # share of the points; scans 0 to 0.1
_SOME_HIDDEN = 0.02  # with fewer, a cloud whose density does not fall may still be a scan: of a room, water or rain
NO_FALL = "the density does not fall with the range"
SCAN_OR_MAP = f"{NO_FALL}, but no point lies behind others, as in a scan"


def why_no_origin(scan: Scan, estimate: MountingEstimate, config: GroundConfig) -> str:
    """Why no sensor was at the origin of a scan with this mounting; empty where one is plausible.

    Scans with odometry, a given mounting or a given origin have one; points in other units or axes are not tested.
    """
    mounting = estimate.mounting
    alone = scan.has_origin is None and scan.T_world_sensor is None and mounting.estimated
    if not alone or config.mounting.height is not None or estimate.other_axes:
        return ""
    from roadbed.ground.cloud.origin_cpu import hidden_share

    points, half_width = to_host(scan.points), max(config.stcrf.length, config.stcrf.width) / 2
    sample = sampled_returns(points) if estimate.returns is None else estimate.returns
    x, y, _ = sample
    too_small = len(x) < _FEWEST_BOXES or max(np.ptp(x), np.ptp(y)) < _SMALLEST
    if _ground_is_far(mounting) or (not too_small and not mounting.quality and _points_are_far(sample)):
        return "the points lie far from their origin"
    if too_small:
        return ""
    beyond = np.count_nonzero(np.maximum(np.abs(x), np.abs(y)) > half_width) / len(x)
    if beyond > _BEYOND:
        return f"{100 * beyond:.0f} % of the points lie beyond {half_width:g} m"
    if mounting.quality >= _SURE:
        return ""
    fall = density_fall(sample)
    hidden = hidden_share(np.ascontiguousarray(points[:: max(1, len(points) // _RAYS)]))
    if fall is not None and fall < _LEAST_FALL:
        return NO_FALL if hidden > _SOME_HIDDEN else SCAN_OR_MAP
    return "points lie behind others" if hidden > _MOST_HIDDEN else ""


def _ground_is_far(mounting: Mounting) -> bool:
    x, y, z = mounting.T_vehicle_sensor.xyz
    return mounting.quality > 0 and (math.hypot(x, y) > _HIGHEST or abs(z) > _HIGHEST)


def _points_are_far(sample: Float32) -> bool:
    """Whether no point (3, N) lies at the height of the origin, or the origin lies outside of them."""
    lowest, highest = np.quantile(sample[2], [0.01, 0.99])
    centre = np.median(sample, axis=1)
    from_centre = np.median(np.linalg.norm(sample.T - centre, axis=1))
    return bool(lowest > _HIGHEST or highest < -_HIGHEST or np.linalg.norm(centre) > _APART * from_centre)


def density_fall(points: Float32) -> float | None:
    """Exponent k of points (3, N) per box ~ range^-k; None where too few boxes or ranges tell."""
    from roadbed.ground.cloud.origin_cpu import count_in_boxes

    x, y, z = points
    reach = np.sqrt(x * x + y * y + z * z)
    some, middle = reach[:: max(1, len(reach) // _RANGES)], len(reach) // 2
    order = [round(share * (len(some) - 1)) for share in (0.1, 0.9)]
    near, far = np.partition(some, order)[order].tolist()
    median = float(np.partition(reach, middle)[middle])
    if far < _SPREAD * near:
        return None
    count, total = count_in_boxes(points, reach, _BOX * median)
    if len(count) < _FEWEST_BOXES:
        return None
    ranges = np.log(total / count)
    spread = ranges - ranges.mean()
    return float(-(spread * np.log(count)).mean() / (spread**2).mean())
