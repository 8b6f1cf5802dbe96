# SPDX-License-Identifier: Apache-2.0
"""Sensor origins of a scan, and whether the scan is sparse enough for the occlusion filter.

A sensor of 4 layers sees little road: doors and rails are the lowest returns over large areas. One of 16 or 32 layers
sees the road, but far away the lowest return of a wall may be its only one. Dense sensors see where objects meet the
ground, so that the surface itself separates them: there the filter is not used.
"""

from __future__ import annotations

import numpy as np

from roadbed.core.device_arrays import to_host
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.ground.engine import SensorViews
from roadbed.ground.visibility.model import VisibilityModel


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
