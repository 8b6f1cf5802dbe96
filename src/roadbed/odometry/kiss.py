# SPDX-License-Identifier: Apache-2.0
"""Odometry from the scans by KISS-ICP."""

from typing import Any

import numpy as np

from roadbed.core.device_arrays import to_host
from roadbed.core.errors import InputError, needs_extra
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.odometry.deskew import Motion, deskew

_MAX_RANGE_M, _MIN_RANGE_M = 100.0, 2.0
_FEWEST_POINTS = 100
_LONGEST_PAUSE_S = 2.0


class KissOdometry:
    """Takes the scans of one sequence in order; poses are in the frame of the first scan's sensor."""

    def __init__(self) -> None:
        with needs_extra("kiss-icp", "odometry", "--odometry kiss-icp"):
            from kiss_icp.config import KISSConfig
            from kiss_icp.kiss_icp import KissICP
        config: Any = KISSConfig()
        # Points are deskewed to the scan's time before, so that the pose is valid at that time.
        config.data.max_range, config.data.min_range, config.data.deskew = _MAX_RANGE_M, _MIN_RANGE_M, False
        config.mapping.voxel_size = _MAX_RANGE_M / 100
        self._icp = KissICP(config)
        self._last_time: float | None = None

    def pose(self, scan: Scan) -> Pose:
        """The pose of the next scan."""
        seconds = None if scan.time is None or self._last_time is None else scan.time - self._last_time
        if seconds is not None and not 0 < seconds < _LONGEST_PAUSE_S:
            raise InputError(
                f"scan {scan.name}: {seconds:.3f} s after the one before, expected scans in order and at most "
                f"{_LONGEST_PAUSE_S:g} s apart for odometry"
            )
        motion = None if seconds is None else Motion.over(_pose(self._icp.last_delta), seconds)
        points = to_host(deskew(scan, motion).points).astype(np.float64)
        points = points[np.isfinite(points).all(axis=1)]
        if len(points) < _FEWEST_POINTS:
            raise InputError(f"scan {scan.name}: found {len(points)} points, expected {_FEWEST_POINTS} for odometry")
        self._icp.register_frame(points, np.empty(0))
        self._last_time = scan.time
        return _pose(self._icp.last_pose)


def _pose(matrix: Any) -> Pose:
    """Project the product of many rotations back to a rotation."""
    u, _, v = np.linalg.svd(np.asarray(matrix)[:3, :3])
    return Pose(u @ v, np.asarray(matrix)[:3, 3])
