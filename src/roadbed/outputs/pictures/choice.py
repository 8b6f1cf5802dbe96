# SPDX-License-Identifier: Apache-2.0
"""Which frame of a drive to show, and from where."""

from __future__ import annotations

import numpy as np

from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.outputs.pictures.perspective import Camera
from roadbed.outputs.pictures.vehicle import T_grid_vehicle

_SLOWEST = 1.5  # m/s; slower things may be mistakes


def liveliness(ground: GroundFrame, occupancy: OccupancyFrame) -> float:
    """How much moves before the corner camera: long things near the vehicle count most."""
    T_vehicle_lattice = T_grid_vehicle(ground).inverse()
    total = 0.0
    for thing in occupancy.objects:
        ahead, aside, _ = T_vehicle_lattice @ np.array([*thing.position, 0.0])
        if np.hypot(*thing.velocity) > _SLOWEST:
            total += min(float(thing.extent[0]), 5.0) * float(np.exp(-np.hypot(ahead - 4, aside - 2) / 8))
    return total


def corner_camera(ground: GroundFrame) -> Camera:
    """From behind, above and a little to the right of the vehicle."""
    pose = T_grid_vehicle(ground)
    eye, target = (pose @ np.array([place]) for place in ((-21.0, -10.0, 14.0), (4.5, 1.0, 0.0)))
    return Camera(tuple(eye[0].tolist()), tuple(target[0].tolist()), field_of_view=52.0)
