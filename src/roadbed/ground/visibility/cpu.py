# SPDX-License-Identifier: Apache-2.0
"""Which points of a scan that is not dense cannot be ground, on the CPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32
from roadbed.ground.engine import Views
from roadbed.ground.visibility.mark_cpu import PHASES, Opaque, find_standing
from roadbed.ground.visibility.model import VisibilityModel, borders
from roadbed.kernels.parallel import parallel_region

_POINTS = 8192  # that are worth waking a thread
_PARTS = 32  # in which they are shared out


def standing_points(points: Float32, views: Views, config: VisibilityModel) -> NDArray[np.bool_] | None:
    """(N,) points that a beam passed beneath or that stand above each other; None where the scan is dense."""
    count, directions = len(points), config.directions
    sensor = np.zeros(count, np.uint16) if views.sensor is None else views.sensor
    work, standing = Opaque.of(count, directions * len(views.origins)), np.zeros(count, np.bool_)
    seen, alone = (points, views.rotation, views.origins, sensor, borders(directions)), count < _POINTS
    given = 1 if alone else _PARTS, seen, config.densest, config.layered, work, standing
    parallel_region(find_standing, PHASES, *given, alone=alone)
    mean = int(work.start[-1]) / max(int(work.used[0]), 1)
    return None if mean > config.layered else standing
