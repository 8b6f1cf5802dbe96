# SPDX-License-Identifier: Apache-2.0
"""The device program of the fusion, and the records that describe a step and its sensors to its kernel."""

import numpy as np

from roadbed.occupancy.fusion import model
from roadbed.occupancy.programs import GROUP, definitions
from roadbed.runtime.program import Program

FUSION_STEP = np.dtype(
    [
        ("clip", np.float64),
        ("rule", np.int32),
        ("reporting", np.int32),  # sensors that report
        ("silent", np.int32),  # sensors that do not
        ("rows", np.int32),
        ("columns", np.int32),
    ],
    align=True,
)

# One sensor's part; what follows `grid` is set for silent ones alone.
SENSOR_PART = np.dtype(
    [
        ("reliability", np.float64),
        ("grid", np.int32),  # index of its last observedness
        ("fading", np.float32),
        ("interpolates", np.int32),  # or the grid moved by whole cells
        ("shift_columns", np.int32),
        ("shift_rows", np.int32),
        ("rotation", np.float64, 4),  # from cells of now to cells of then
        ("shift", np.float64, 2),
    ],
    align=True,
)

FUSE = Program(
    ("occupancy/fusion/fuse.cl",),
    {**definitions(model), "GROUP": GROUP},
    {"FusionStep": FUSION_STEP, "SensorPart": SENSOR_PART},
    exact=True,
)
