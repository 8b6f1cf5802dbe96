# SPDX-License-Identifier: Apache-2.0
"""The device program of the observation, and the record that describes one sensor's view of the grid to its kernels."""

import math

import numpy as np

from roadbed.occupancy.observation import model
from roadbed.occupancy.observation.arrays import GridShape
from roadbed.occupancy.observation.model import NO_BEAM, SensorModel
from roadbed.occupancy.observation.movers import MOVER, MOVER_STEP
from roadbed.occupancy.programs import GROUP, definitions, members_of
from roadbed.runtime.program import Program

RAY_GROUP, RAY_STRIP = 32, 11  # work-items per ray, and bins of each: an odd number avoids conflicts of memory banks

# Addresses are 0 where our own buffers are meant.
VIEW = np.dtype(
    [
        ("points", np.uint64),  # (count, 3) float, in the scan's frame
        ("heights", np.uint64),  # (count,) float, m over the ground
        ("sensor_index", np.uint64),  # (count,) uchar, the sensor of each point
        ("layers", np.uint64),  # (4, nodes) float, of the ground
        ("rotation", np.float64, 9),  # takes points to the ground's grid frame
        ("translation", np.float64, 3),
        ("origin", np.float64, 3),  # of the sensor in that frame
        ("plane", np.float64, 3),  # to assume where no ground is known
        ("ground_x0", np.float64),  # m, the ground's first node
        ("ground_y0", np.float64),
        ("ground_spacing", np.float64),
        ("ground_columns", np.int32),
        ("ground_rows", np.int32),
        ("count", np.int32),  # points of the scan
        ("all_points", np.int32),  # whether all of them are this sensor's
        ("frame", np.int32),  # number of this frame
        ("table", np.int32),  # first index of this sensor's polar table,
        ("cells", np.int32),  # of its cells
        ("nodes", np.int32),  # and of its nodes
        *members_of(GridShape, "grid_"),
        *members_of(SensorModel),
    ],
    align=True,
)

# Tables where nothing was seen, as unsigned integers in the order of floats.
NO_PASSING = np.uint32(np.float32(NO_BEAM).view(np.uint32) | 0x80000000)
NO_LOWEST, NO_HIGHEST = np.uint32(0xFF800000), np.uint32(0x007FFFFF)  # infinity, and minus infinity

OBSERVE = Program(
    tuple(f"occupancy/observation/{name}.cl" for name in ("movers", "polar", "vertical_faces", "observe")),
    {
        **definitions(model),
        "GROUP": GROUP,
        "RAY_GROUP": RAY_GROUP,
        "RAY_STRIP": RAY_STRIP,
        "PI": np.float64(math.pi),
        "NO_LOWEST": NO_LOWEST,
        "NO_HIGHEST": NO_HIGHEST,
    },
    {"View": VIEW, "Mover": MOVER, "MoverStep": MOVER_STEP},
    exact=True,
)
