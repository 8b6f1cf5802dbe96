# SPDX-License-Identifier: Apache-2.0
"""How much the poses of a sequence scatter, as a part of the reported variance.

The odometry's noise turns and lifts each scan against the surface that earlier scans shaped. The alignment corrects a
part of it; what it leaves lies in every height that is reported of this scan, most of all far from the sensor.
"""

import numpy as np

from roadbed.core.geometry import Float32
from roadbed.ground.engine import Misalignment
from roadbed.ground.stcrf import model


class PoseNoise:
    """Running mean and variance of what the alignment leaves of each scan's misalignment.

    The mean is no noise: where the smooth surface cuts the foot of a bank, it leans the same way in every scan.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the poses of a sequence."""
        self._scans = 0
        self._mean, self._variance = np.zeros((2, 3))

    def add(self, left: Misalignment) -> None:
        """Take the rest of a scan's misalignment into account."""
        self._scans += 1
        share = 1 / min(model.POSE_MEMORY, self._scans)
        apart = np.array([left.lift, left.slope_x, left.slope_y]) - self._mean
        self._mean += share * apart
        self._variance = (1 - share) * (self._variance + share * apart * apart)

    @property
    def variance(self) -> tuple[float, float, float]:
        """Of the height at the sensor, m^2, and of the slopes along x and y."""
        lift, slope_x, slope_y = self._variance.tolist()
        return lift, slope_x, slope_y


def with_scatter(
    variance: Float32, scatter: tuple[float, float, float], sensor: Float32, spacing: float, largest: float
) -> Float32:
    """(rows, columns) m^2, at most `largest` for known nodes, with the variance of the pose of a `sensor` (m from the
    corner): far away its slopes count. Twin: `with_scatter` of surface.cl."""
    rows, columns = variance.shape
    x, y = ((np.arange(n) + 0.5) * spacing - at for n, at in zip((columns, rows), sensor))
    added = (scatter[0] + scatter[1] * x * x + (scatter[2] * y * y)[:, None]).astype(np.float32)
    return np.where(variance <= largest, np.minimum(variance + added, np.float32(largest)), variance)
