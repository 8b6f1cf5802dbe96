# SPDX-License-Identifier: Apache-2.0
"""From where a scan's points were seen, and whether it is worth asking which of them stand.

Four layers see little road: doors and rails are the lowest returns over large areas, and nothing is seen above them.
Sixteen or thirty-two see the road, but far away the lowest return from a wall may be all that there is of it.
Dense sensors see the feet of things, so the surface knows better; there nothing is asked.
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
    """Whether a scan may be sparse enough; every direction may hold so many points, wherever they lie. None: never."""
    if config is None:
        return False
    most = config.layered * config.directions * max(len(scan.mounts), 1)
    return 0 < len(scan.points) <= most


def views_of(scan: Scan, T_vehicle_sensor: Pose, config: VisibilityModel | None) -> SensorViews | None:
    """Where the sensors stand and which of them saw each point; None where the scan is dense."""
    if not applies_to(scan, config):
        return None
    if not scan.mounts:
        return SensorViews(T_vehicle_sensor.rotation, np.zeros((1, 3)))
    origins = np.array([mount.T_vehicle_sensor.xyz for mount in scan.mounts], np.float64)
    sensor = to_host(scan.channels["sensor_index"])
    # By their places: a reduction takes NumPy five times as long to begin.
    lowest, highest = 0 if sensor.dtype.kind == "u" else sensor[sensor.argmin()], sensor[sensor.argmax()]
    if lowest < 0 or highest >= len(origins):
        found = f"{lowest} to {highest}"
        raise InputError(f"scan {scan.name}: sensor_index: found {found}, expected 0 to {len(origins) - 1}")
    return SensorViews(T_vehicle_sensor.rotation, origins, sensor.astype(np.uint16))
