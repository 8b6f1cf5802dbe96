# SPDX-License-Identifier: Apache-2.0
"""Which frame of a drive to show, and from where."""

from __future__ import annotations

import numpy as np

from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.outputs.pictures.perspective import Camera
from roadbed.outputs.pictures.vehicle import T_lattice_vehicle

_SLOWEST = 1.5  # m/s; slower objects may be mistakes


def liveliness(ground: GroundFrame, occupancy: OccupancyFrame) -> float:
    """How much moves before the corner camera: long objects near the vehicle count most."""
    T_vehicle_lattice = T_lattice_vehicle(ground).inverse()
    total = 0.0
    for item in occupancy.objects:
        ahead, aside, _ = T_vehicle_lattice @ np.array([*item.position, 0.0])
        if np.hypot(*item.velocity) > _SLOWEST:
            total += min(float(item.extent[0]), 5.0) * float(np.exp(-np.hypot(ahead - 4, aside - 2) / 8))
    return total


def corner_camera(ground: GroundFrame) -> Camera:
    """From behind, above and a little to the right of the vehicle."""
    pose = T_lattice_vehicle(ground)
    eye, target = (pose @ np.array([place]) for place in ((-21.0, -10.0, 14.0), (4.5, 1.0, 0.0)))
    return Camera(tuple(eye[0].tolist()), tuple(target[0].tolist()), field_of_view=52.0)
