# SPDX-License-Identifier: Apache-2.0
"""Which points of a sparse scan cannot be ground, from what each sensor saw in each direction; once for every backend.

Four layers see little road: doors and rails are the lowest returns over large areas, and nothing is seen above them.
Sixteen or thirty-two see the road, but far away the lowest return from a wall may be all that there is of it.
Dense sensors see the feet of things, so the surface knows better; there nothing is asked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.compute.arrays import to_host
from roadbed.compute.threads import spread
from roadbed.config.ground import OpacityConfig
from roadbed.errors import InputError
from roadbed.frames import Scan
from roadbed.geometry import Float64, Pose
from roadbed.ground.opacity_beside_cpu import grow_standing, level, release_feet
from roadbed.ground.opacity_cpu import MOST, find_directions, mark_standing, sort_by_direction

_POINTS = 8192  # that are worth waking a thread


def looks_at(scan: Scan, config: OpacityConfig) -> bool:
    """Whether a scan is sparse enough to be asked; every direction may hold so many points, wherever they lie."""
    most = config.layered * round(360 / config.direction) * max(len(scan.mounts), 1)
    return config.enabled and 0 < len(scan.points) <= most


def standing_points(scan: Scan, T_vehicle_sensor: Pose, config: OpacityConfig) -> NDArray[np.bool_] | None:
    """(N,) points that a beam passed beneath or that stand above each other; None where the scan is dense."""
    if not looks_at(scan, config):
        return None
    directions, count = round(360 / config.direction), len(scan.points)
    origins = np.array([mount.T_vehicle_sensor.translation for mount in scan.mounts] or np.zeros((1, 3)), np.float64)
    points, sensor = to_host(scan.points), np.zeros(count, np.int64)
    if scan.mounts:
        sensor[:] = to_host(scan.channels["sensor_index"])
        if sensor.min() < 0 or sensor.max() >= len(origins):
            found = f"{sensor.min()} to {sensor.max()}"
            raise InputError(f"scan {scan.name}: sensor_index: found {found}, expected 0 to {len(origins) - 1}")
    rotation, cells = T_vehicle_sensor.rotation, directions * len(origins)
    cell, order, place = np.empty(count, np.int32), np.empty(count, np.int32), np.empty((count, 2))
    spread(find_directions, count, points, rotation, origins, sensor, directions, cell, place, grain=_POINTS)
    start, standing = np.zeros(cells + 1, np.int32), np.zeros(count, np.bool_)
    used = sort_by_direction(cell, order, start)
    mean = int(start[-1]) / max(used, 1)
    if mean > config.layered:
        return None
    sparse = mean <= config.densest
    most = MOST * (config.densest if sparse else config.layered)
    directions_of = cells * _POINTS // count  # so many points
    spread(mark_standing, cells, order, start, place, most, sparse, standing, grain=max(directions_of, 1))
    if sparse:
        sorted_out = order[: start[-1]]
        road = _level_places(points, rotation, sorted_out[~standing[sorted_out]])
        release_feet(points, rotation, road, order, start, place, standing)
        grow_standing(points, rotation, _level_places(points, rotation, np.flatnonzero(standing)), standing)
    return standing


def _level_places(points: NDArray, rotation: Float64, chosen: NDArray[np.integer]) -> Float64:
    """Chosen points (K, 3) along the level axes, sorted by the first."""
    place = np.empty((len(chosen), 3))
    level(points, rotation, chosen.astype(np.int64), place)
    return place[np.argsort(place[:, 0])]
