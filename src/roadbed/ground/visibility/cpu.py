# SPDX-License-Identifier: Apache-2.0
"""The occlusion filter on the CPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32
from roadbed.ground.engine import SensorViews
from roadbed.ground.visibility.mark_cpu import PHASES, Work, mark_non_ground
from roadbed.ground.visibility.model import VisibilityModel, borders
from roadbed.kernels.parallel import parallel_region

_FEW_POINTS = 8192  # below, waking a second thread takes longer than it saves
_CHUNKS = 32  # shared by the threads


def non_ground_points(points: Float32, views: SensorViews, config: VisibilityModel) -> NDArray[np.bool_] | None:
    """(N,) mask of points that a beam passed below or that rise above each other; None if the scan is dense."""
    count, directions = len(points), config.directions
    sensor = np.zeros(count, np.uint16) if views.sensor is None else views.sensor
    single_thread = count < _FEW_POINTS
    chunks = 1 if single_thread else _CHUNKS
    work, non_ground = Work.of(count, directions * len(views.origins), chunks), np.zeros(count, np.bool_)
    seen = points, views.rotation, views.origins, sensor, borders(directions)
    given = chunks, seen, config.densest, config.layered, work, non_ground
    parallel_region(mark_non_ground, PHASES, *given, single_thread=single_thread)
    mean = int(work.start[-1]) / max(int(work.used[0]), 1)
    return None if mean > config.layered else non_ground
