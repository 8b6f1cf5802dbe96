# SPDX-License-Identifier: Apache-2.0
"""What the alignment makes of exact and noisy poses: error of the pose in use, and of the surface over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.core.frames import GroundFrame
from roadbed.core.geometry import Float64, Pose
from roadbed.ground.filter import GroundFilter
from roadbed.simulate.motion import Odometry
from roadbed.sources import open_source

SCENES = ("city", "highway", "parking", "offroad", "mountain")
POSES = {
    "exact": Odometry(),
    "1 cm, 0.1 deg": Odometry(noise=0.01, angle_noise=math.radians(0.1)),
    "5 cm, 0.5 deg": Odometry(noise=0.05, angle_noise=math.radians(0.5)),
    "drift 1 %": Odometry(scale=0.01, drift=0.02, yaw_drift=0.001),
}
_SCORED, _RANGE = 10, 40.0  # every so many scans the surface is scored, within so many m


@dataclass
class Sums:
    """Errors of one setting, over one or more seeds."""

    pose: list[Float64] = field(default_factory=list)  # (scans, 3) roll and pitch, degrees; height, m
    squared: Float64 = field(default_factory=lambda: np.zeros(3))  # over time, there on nodes of single scans, single
    nodes: Float64 = field(default_factory=lambda: np.zeros(3))
    within: float = 0.0

    @classmethod
    def of(cls, parts: Iterable[Sums]) -> Sums:
        out = cls()
        for part in parts:
            out.pose += part.pose
            out.squared += part.squared
            out.nodes += part.nodes
            out.within += part.within
        return out

    def score(self, frame: GroundFrame, single: GroundFrame, truth: Float64) -> None:
        x, y = frame.grid.mesh()
        centre = frame.T_grid_sensor.translation
        near = np.hypot(x - centre[0], y - centre[1]) <= _RANGE
        error, alone = np.square(frame.elevation - truth)[near], np.isfinite(single.elevation)[near]
        known = np.isfinite(error)
        for k, (values, used) in enumerate(((error, known), (error, known & alone))):
            self.squared[k] += values[used].sum()
            self.nodes[k] += np.count_nonzero(used)
        self.within += np.count_nonzero(error[known] <= 4 * frame.variance[near][known])

    def score_single(self, single: GroundFrame, truth: Float64) -> None:
        x, y = single.grid.mesh()
        centre = single.T_grid_sensor.translation
        error = np.square(single.elevation - truth)[np.hypot(x - centre[0], y - centre[1]) <= _RANGE]
        self.squared[2] += np.nansum(error)
        self.nodes[2] += np.count_nonzero(np.isfinite(error))

    def row(self) -> dict[str, float]:
        over_time, shared, single = np.sqrt(self.squared / np.maximum(self.nodes, 1))
        largest = np.max([np.abs(errors).max(axis=0) for errors in self.pose], axis=0)
        final = max(abs(errors[-1, 0]) for errors in self.pose)
        rms = np.sqrt(np.mean([np.mean(errors[:, 0] ** 2) for errors in self.pose]))
        return {
            "roll_max": float(largest[0]), "roll_final": float(final), "roll_rms": float(rms),
            "pitch_max": float(largest[1]), "height_max": float(largest[2]),
            "rms_m": float(over_time), "rms_shared_m": float(shared), "rms_single_m": float(single),
            "within_2_sigma": 100 * self.within / max(1.0, self.nodes[0]),
        }  # fmt: skip


def drift_rows(
    scenes: Sequence[str] = SCENES, sensor: str = "vlp16", frames: int = 300, seeds: Sequence[int] = (401,)
) -> Iterator[dict[str, Any]]:
    """One row per scene, kind of poses, and alignment on or off: the largest errors of the pose in use against the true
    one, and rms of the elevation over time, on the nodes that a single scan reports too, and of single scans.
    """
    for scene in scenes:
        measured = [drift_sums(scene, sensor, frames, seed) for seed in seeds]
        for poses, aligned in measured[0]:
            found = Sums.of(one[poses, aligned] for one in measured)
            yield {"scene": scene, "poses": poses, "alignment": aligned, **found.row()}


def drift_sums(scene: str, sensor: str, frames: int, seed: int) -> dict[tuple[str, bool], Sums]:
    """The errors of one sequence, by kind of poses and alignment."""
    alone, sums = GroundFilter(), {}
    source: Any = open_source(f"sim:{scene}?sensor={sensor}&frames={frames}&seed={seed}")
    scans = list(source)
    truths = {k: source.truth(k) for k in range(_SCORED - 1, frames, _SCORED)}
    true = [scan.T_world_sensor for scan in scans]
    for (poses, errors), aligned in product(POSES.items(), (True, False)):
        found = sums[poses, aligned] = Sums()
        ground = GroundFilter(Config.parse({"ground": {"without": [] if aligned else ["alignment"]}}))
        pose_errors = []
        for k, (scan, pose) in enumerate(zip(scans, errors.measure(true, seed))):
            frame = ground(scan.at(pose))
            pose_errors.append(_pose_error(frame, true[k]))
            if k in truths:
                alone.reset()
                single = alone(scan.at(pose))
                found.score(frame, single, truths[k].elevation(frame.grid, frame.T_grid_sensor))
                found.score_single(single, truths[k].elevation(single.grid, single.T_grid_sensor))
        found.pose.append(np.array(pose_errors))
    return sums


def _pose_error(frame: GroundFrame, true: Pose) -> tuple[float, float, float]:
    """Roll and pitch (degrees) and height (m) of the pose in use over the true one."""
    assert frame.T_world_grid is not None
    used = frame.T_world_grid @ frame.T_grid_sensor
    turn = true.inverse() @ used
    return math.degrees(turn.roll), math.degrees(turn.pitch), used.xyz[2] - true.xyz[2]
