# SPDX-License-Identifier: Apache-2.0
"""The occlusion filter on the CPU."""

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32, Float64
from roadbed.ground.engine import SensorViews
from roadbed.ground.visibility import faces_cpu
from roadbed.ground.visibility.mark_cpu import PHASES, Work, mark_non_ground
from roadbed.ground.visibility.model import FACE_RETURNS, VisibilityModel, borders
from roadbed.kernels.parallel import parallel_region

_FEW_POINTS = 8192  # below, waking a second thread takes longer than it saves
_CHUNKS = 32  # shared by the threads
_FINEST = 10_000  # directions


def non_ground_points(points: Float32, views: SensorViews, config: VisibilityModel) -> NDArray[np.bool_] | None:
    """(N,) mask of points that a beam passed below or that rise above each other; None if the scan is dense."""
    count, directions = len(points), config.directions
    sensor = np.zeros(count, np.uint16) if views.sensor is None else views.sensor
    single_thread = count < _FEW_POINTS
    chunks = 1 if single_thread else _CHUNKS
    work, non_ground = Work.of(count, directions * len(views.origins), chunks), np.zeros(count, np.bool_)
    seen = points, views.rotation, views.origins, sensor, borders(directions)
    given = chunks, seen, (config.densest, config.layered, config.beams), work, non_ground
    parallel_region(mark_non_ground, PHASES, *given, single_thread=single_thread)
    mean = int(work.start[-1]) / max(int(work.used[0]), 1)
    return None if mean > config.layered else non_ground


def steep_faces(points: Float32, rotation: Float64) -> NDArray[np.bool_]:
    """(N,) mask of points on steep faces, seen from the origin; `rotation` (3, 3) takes points to level axes."""
    count, directions = len(points), VisibilityModel().directions
    while count > FACE_RETURNS * directions and directions < _FINEST:
        directions *= 2
    single_thread = count < _FEW_POINTS
    chunks = 1 if single_thread else _CHUNKS
    work, non_ground = Work.of(count, directions, chunks), np.zeros(count, np.bool_)
    seen = points, rotation, np.zeros((1, 3)), np.zeros(count, np.uint16), borders(directions)
    given = chunks, seen, work, non_ground
    parallel_region(faces_cpu.mark_steep_faces, faces_cpu.PHASES, *given, single_thread=single_thread)
    return non_ground
