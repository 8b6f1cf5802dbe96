# SPDX-License-Identifier: Apache-2.0
"""Arrays that the stages of the occupancy pass on to each other. Layers are (rows, columns), indexed [y][x]."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32

CHUNK = 1024  # cells, points or particles that a thread takes at least; results do not depend on it


class Cells(NamedTuple):
    """The grid's size."""

    rows: int
    columns: int
    spacing: float  # m


class Observation(NamedTuple):
    """The observation grid of one sensor, or of all sensors fused."""

    probability: Float32  # p_z that it is occupied
    observedness: Float32  # lambda in [0, 1]; 0: not observed
    surface: NDArray[np.uint16]  # which of its 4 x 4 subcells returned a beam, bit by bit


class Reports(NamedTuple):
    """The observation grids of several sensors, (sensors, rows, columns): on the host, or in device buffers."""

    sensors: tuple[str, ...]
    probability: Any  # float32
    observedness: Any  # float32
    surface: Any  # uint16
