# SPDX-License-Identifier: Apache-2.0
"""Deskewing of tracked objects: their points are moved to where the object is at the frame's time.

A LiDAR that turns sees each azimuth at another time. Deskewing a scan undoes the sensor's own motion alone.
"""

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Pose
from roadbed.core.tracked_objects import Tracks

MARGIN = 0.5  # m around an object's box in which points are taken for its own
MOST_MOVERS = 64

# A tracked object at the frame's time, in the axes of the points.
MOVER = np.dtype(
    [
        ("ahead", np.float64, 4),  # metres from its middle along its heading are ahead[:3] . point + ahead[3]
        ("aside", np.float64, 4),  # the same across
        ("speed", np.float64, 2),  # m/s along its heading and across
        ("reach", np.float64, 2),  # m, half of its box with the margin
        ("velocity", np.float64, 3),  # m/s along the axes of the points
    ],
    align=True,
)
# What the device kernel is given; addresses are 0 where its own buffers are meant.
MOVER_STEP = np.dtype(
    [("points", np.uint64), ("times", np.uint64), ("count", np.int32), ("movers", np.int32)], align=True
)
NO_MOVERS: NDArray[np.void] = np.empty(0, MOVER)


def movers_at(time: float, tracks: Tracks, T_grid_points: Pose) -> NDArray[np.void]:
    """Tracks moved on to `time` with their velocity."""
    tracks = tracks[:MOST_MOVERS]
    movers, since = np.zeros(len(tracks), MOVER), time - tracks["seen"]
    velocity = tracks["state"][:, 2:4]
    rotation, place = T_grid_points.rotation[:2], T_grid_points.translation[:2]
    ahead = np.column_stack([np.cos(tracks["heading"]), np.sin(tracks["heading"])])
    aside = np.column_stack([-ahead[:, 1], ahead[:, 0]])
    offset = place - (np.column_stack([tracks["x"], tracks["y"]]) + since[:, None] * velocity)
    for name, axis in (("ahead", ahead), ("aside", aside)):
        movers[name][:, :3], movers[name][:, 3] = axis @ rotation, (axis * offset).sum(axis=1)
    movers["speed"] = np.column_stack([(ahead * velocity).sum(axis=1), (aside * velocity).sum(axis=1)])
    movers["reach"] = np.column_stack([tracks["length"], tracks["width"]]) / 2 + MARGIN
    movers["velocity"] = velocity @ rotation
    return movers
