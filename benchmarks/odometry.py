# SPDX-License-Identifier: Apache-2.0
"""Compares two sets of poses of one sequence: length, end point, and apparent motion of parked objects."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Float64, Pose
from roadbed.sources import Source

_PARKED_M_S = 0.6  # a box that is slower with either set of poses counts as parked
_FEWEST_SIGHTS = 10


@dataclass
class OdometryScore:
    """Estimated poses against those of the source."""

    given: list[Pose] = field(default_factory=list)
    tried: list[Pose] = field(default_factory=list)
    seconds: float = 0.0  # of processor time
    sights: dict[str, list[tuple[int, Float64]]] = field(default_factory=dict)  # box -> frame and position in its scan

    def as_dict(self) -> dict[str, Any]:
        """Lengths and distances in m, with the first poses aligned, and the apparent motion of parked boxes."""
        given, tried = ([poses[0].inverse() @ pose for pose in poses] for poses in (self.given, self.tried))
        lengths = [sum(a.distance_to(b) for a, b in pairwise(poses)) for poses in (given, tried)]
        out = {
            "scans": len(tried),
            "given_length": lengths[0],
            "tried_length": lengths[1],
            "length_error_percent": 100 * abs(lengths[1] / lengths[0] - 1) if lengths[0] else None,
            "end_apart": tried[-1].distance_to(given[-1]),
            "largest_apart": max(a.distance_to(b) for a, b in zip(given, tried)),
            "cpu_ms_per_scan": 1000 * self.seconds / len(tried),
        }
        parked = self._parked(given, tried)
        if parked:
            out["parked"] = len(parked)
            out["parked_drift_given"] = float(np.mean([pair[0] for pair in parked]))
            out["parked_drift_tried"] = float(np.mean([pair[1] for pair in parked]))
        return out

    def _parked(self, given: list[Pose], tried: list[Pose]) -> list[tuple[float, float]]:
        """Apparent motion of each parked box, m, with both sets of poses, first to last third of its frames."""
        found = []
        for sights in self.sights.values():
            if len(sights) < _FEWEST_SIGHTS:
                continue
            moved = tuple(_moved(sights, poses) for poses in (given, tried))
            seconds = 0.1 * (sights[-1][0] - sights[0][0])
            if min(moved) < _PARKED_M_S * seconds:
                found.append(moved)
        return found  # type: ignore[return-value]


def evaluate_odometry(source: Source, tried: Source, watch: Any = lambda scans: scans) -> OdometryScore:
    """Iterate over both sources together: `tried` has the scans of `source` with other poses."""
    score = OdometryScore()
    boxes = getattr(source, "objects", None)
    given: Iterable[Scan] = iter(source)
    others = iter(tried)
    for index, scan in enumerate(watch(given)):
        begin = process_time()
        other = next(others)
        score.seconds += process_time() - begin
        if scan.T_world_sensor is None or other.T_world_sensor is None:
            raise InputError(f"scan {scan.name}: found no pose, expected poses of the source to compare with")
        score.given.append(scan.T_world_sensor)
        score.tried.append(other.T_world_sensor)
        for box in boxes(index) if boxes is not None else ():
            position = np.array([*box.centre, box.z])
            score.sights.setdefault(box.id, []).append((index, position))
    return score


def _moved(sights: list[tuple[int, Float64]], poses: list[Pose]) -> float:
    positions = np.array([poses[index] @ position for index, position in sights])[:, :2]
    third = len(positions) // 3
    return float(np.linalg.norm(positions[-third:].mean(axis=0) - positions[:third].mean(axis=0)))
