# SPDX-License-Identifier: Apache-2.0
"""Which scans the occlusion filter and the search for steep faces apply to, and the sensor origins they need.

A sensor of 4 layers sees little road: doors and rails are the lowest returns over large areas. One of 16 or 32 layers
sees the road, but far away the lowest return of a wall may be its only one. Dense sensors see where objects meet the
ground, so that the surface itself separates them: there the filter is not used. Steep faces are searched in scans of a
low sensor on an even floor, where objects of a few centimetres differ from the ground, and so do their tops.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.device_arrays import to_host
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Float32, Float64, Pose
from roadbed.ground.engine import SensorViews
from roadbed.ground.mounting.level_surfaces import extremes_by_column
from roadbed.ground.visibility.model import RISE, VisibilityModel

_LOWEST_SENSOR = 0.1  # m over the ground: lower, the origin is not the sensor's position
_RADIUS, _COLUMN = 6.0, 0.25  # m around the sensor, in columns of which each gives its lowest return
_NEAR = 0.2  # m from the plane through the vehicle's origin
_FEWEST_COLUMNS = 20
_FITS = 5
_RESOLVED = 5  # standard deviations of the floor's unevenness that a rise must exceed
_TOP, _ON_FLOOR = 0.06, 0.02  # m over the floor from which a return is of an object, and up to which it is of the floor
_BESIDE = 2  # columns to each side within which floor must be seen: a ramp rises less on the way


def applies_to(scan: Scan, config: VisibilityModel | None) -> bool:
    """Whether a scan may be sparse enough, by its number of points; never without a `config`."""
    if config is None:
        return False
    most = config.layered * config.directions * max(len(scan.mounts), 1)
    return 0 < len(scan.points) <= most


def views_of(scan: Scan, T_vehicle_sensor: Pose, config: VisibilityModel | None) -> SensorViews | None:
    """The origins of the sensors and which of them saw each point; None if the scan is dense."""
    if not applies_to(scan, config):
        return None
    if not scan.mounts:
        return SensorViews(T_vehicle_sensor.rotation, np.zeros((1, 3)))
    origins = np.array([mount.T_vehicle_sensor.xyz for mount in scan.mounts], np.float64)
    sensor = to_host(scan.channels["sensor_index"])
    # argmin and argmax, because NumPy's min and max take five times as long to start.
    lowest, highest = 0 if sensor.dtype.kind == "u" else sensor[sensor.argmin()], sensor[sensor.argmax()]
    if lowest < 0 or highest >= len(origins):
        found = f"{lowest} to {highest}"
        raise InputError(f"scan {scan.name}: sensor_index: found {found}, expected 0 to {len(origins) - 1}")
    return SensorViews(T_vehicle_sensor.rotation, origins, sensor.astype(np.uint16))


class Floor(NamedTuple):
    """The floor around a sensor, in the vehicle frame."""

    plane: Float64  # slope along x and y, height at the origin
    unevenness: float  # m, standard deviation of the lowest returns around it


def even_floor(scan: Scan, T_vehicle_sensor: Pose, highest: float) -> Floor | None:
    """The floor where a rise of `RISE` is no unevenness of it, for a sensor that is lower than the `highest` (m) that
    may be ground by its height alone: such a sensor sees from the side what would all be ground. None: others."""
    if not _LOWEST_SENSOR < T_vehicle_sensor.xyz[2] < highest or scan.mounts or not len(scan.points):
        return None
    floor = fit_floor(T_vehicle_sensor @ to_host(scan.points))
    return floor if floor is not None and floor.unevenness * _RESOLVED < RISE else None


def tops_beside(points: Float32, floor: Floor) -> NDArray[np.bool_]:
    """(N,) returns over seen floor, near the sensor: of the tops of low objects, whose faces few beams meet."""
    x, y, z = points.T
    with np.errstate(invalid="ignore"):
        inside = (np.abs(x) < _RADIUS) & (np.abs(y) < _RADIUS)
        height = z - (floor.plane[0] * x + floor.plane[1] * y + floor.plane[2])
        on_floor, raised = inside & (np.abs(height) < _ON_FLOOR), inside & (height > _TOP)
    columns = int(2 * _RADIUS / _COLUMN) + 2 * _BESIDE
    seen = np.zeros((columns, columns), np.bool_)
    seen[_columns_of(x[on_floor]), _columns_of(y[on_floor])] = True
    for _ in range(_BESIDE):
        seen[1:] |= seen[:-1].copy()
        seen[:-1] |= seen[1:].copy()
        seen[:, 1:] |= seen[:, :-1].copy()
        seen[:, :-1] |= seen[:, 1:].copy()
    raised[raised] = seen[_columns_of(x[raised]), _columns_of(y[raised])]
    return raised


def _columns_of(along: Float32) -> NDArray[np.int64]:
    return np.floor((along + _RADIUS) / _COLUMN).astype(np.int64) + _BESIDE


def fit_floor(points: Float32) -> Floor | None:
    """A plane through the lowest returns, points in the vehicle frame; None: too few."""
    with np.errstate(invalid="ignore"):  # missing returns are no numbers
        near = points[(np.hypot(points[:, 0], points[:, 1]) < _RADIUS) & (np.abs(points[:, 2]) < _NEAR)]
    lowest, _ = extremes_by_column(near, _RADIUS, _COLUMN)
    if len(lowest) < _FEWEST_COLUMNS:
        return None
    x, y, z = lowest.T.astype(np.float64)
    design, used = np.stack([x, y, np.ones_like(x)], axis=1), np.ones(len(x), np.bool_)
    for _ in range(_FITS):
        plane = np.linalg.lstsq(design[used], z[used], rcond=None)[0]
        away = np.abs(z - design @ plane)
        sigma = 1.4826 * float(np.median(away))  # of a normal distribution with this median
        used = away <= max(2.5 * sigma, 0.005)
    return Floor(plane, sigma)
