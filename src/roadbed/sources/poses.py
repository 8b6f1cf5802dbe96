# SPDX-License-Identifier: Apache-2.0
"""Poses of a sequence: KITTI rows of 3x4 numbers, or TUM lines; looked up by index or by time."""

from array import array
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError, errors_at
from roadbed.core.frames import Scan
from roadbed.core.geometry import Float64, Pose, interpolate
from roadbed.io.files import read_text
from roadbed.sources.fields import unit_of_clock
from roadbed.sources.pose_check import PoseCheck

# Limits of interpolation between poses, and of extrapolation beyond the ends (two sweeps).
_LONGEST_GAP_S = 2.0
_LONGEST_REACH_S = 0.2


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Poses in order, with times where the file has them."""

    poses: tuple[Pose, ...]
    times: Float64 | None  # (N,) s, increasing
    where: str  # the file or topic, for messages
    check: PoseCheck = field(default_factory=PoseCheck, compare=False)

    def __len__(self) -> int:
        return len(self.poses)

    def check_count(self, scans: int) -> None:
        """Poses without times are one per scan: their number must agree."""
        if self.times is None and len(self) != scans:
            raise InputError(f"{self.where}: poses: found {len(self)}, expected {scans} (one per scan)")

    def of_scan(self, index: int, scans: int, time: float | None) -> Pose | None:
        """The pose of scan `index` of `scans`: by time where both have times, else by index."""
        if self.times is not None and time is not None:
            return self.at(time)
        if len(self) != scans:
            raise InputError(
                f"{self.where}: poses: found {len(self)}, expected {scans} (one per scan, as the scans have no times)"
            )
        return self.poses[index]

    def place(self, scan: Scan, index: int, scans: int) -> Scan:
        """Scan `index` of `scans` with its pose; it says where there is none near its time, or poses look inverted."""
        pose = self.of_scan(index, scans, scan.time)
        notes = scan.diagnostics
        if pose is None and self.times is not None:
            notes += (f"no pose near its time in {self.where}: {self.times[0]:.3f} to {self.times[-1]:.3f} s",)
        if note := self.check.add(scan.points, pose):
            notes += (f"{self.where}: {note}",)
        return replace(scan, T_world_sensor=pose, diagnostics=notes)

    def check_clock(self, first: float, last: float) -> None:
        """Times of poses and of scans, `first` to `last`, must overlap, as they are of one clock."""
        if self.times is not None and (last < self.times[0] - 1 or first > self.times[-1] + 1):
            raise InputError(
                f"{self.where}: times {self.times[0]:.3f} to {self.times[-1]:.3f} s, "
                f"expected the clock of the scans, {first:.3f} to {last:.3f} s"
            )

    def at(self, time: float) -> Pose | None:
        """Interpolated pose at `time`; None where no pose is near enough."""
        assert self.times is not None
        if len(self) == 1:
            return self.poses[0] if abs(time - self.times[0]) < _LONGEST_REACH_S else None
        after = int(np.clip(np.searchsorted(self.times, time), 1, len(self) - 1))
        start, end = self.times[after - 1], self.times[after]
        beyond = max(start - time, time - end, 0.0)
        if end - start > _LONGEST_GAP_S or beyond > _LONGEST_REACH_S:
            nearest = after if abs(time - end) < abs(time - start) else after - 1
            return self.poses[nearest] if abs(time - self.times[nearest]) < 1e-3 else None
        return interpolate(self.poses[after - 1], self.poses[after], (time - start) / (end - start))

    def of_sensor(self, T_body_sensor: Pose) -> "Trajectory":
        """Poses of a sensor that is fixed to the body of these poses."""
        return Trajectory(tuple(pose @ T_body_sensor for pose in self.poses), self.times, self.where)


def make_trajectory(poses: list[Pose], times: list[float], where: str) -> Trajectory:
    """Poses sorted by time; of several with the same time the first is kept."""
    unique, first = np.unique(np.asarray(times, np.float64), return_index=True)
    return Trajectory(tuple(poses[i] for i in first), unique, where)


def read_poses(path: str | Path) -> Trajectory:
    """KITTI rows (12 numbers) or TUM lines (t x y z qx qy qz qw, t as for `read_times`); `#` starts a comment."""
    path = Path(path)
    table = read_table(path, (12, 8), "12 (KITTI 3x4 row) or 8 (TUM: t x y z qx qy qz qw)")
    times = None if table.shape[1] == 12 else table[:, 0] * unit_of_clock(table[-1, 0])
    if times is not None and np.any(np.diff(times) <= 0):
        line = int(np.argmax(np.diff(times) <= 0)) + 2
        raise InputError(f"{path}: row {line}: time: found {times[line - 1]:.6f}, expected later than the row before")
    poses = []
    for number, row in enumerate(table, 1):
        with errors_at(f"{path}: row {number}"):
            is_matrix = len(row) == 12
            poses.append(Pose.from_matrix(row.reshape(3, 4)) if is_matrix else Pose.from_quaternion(row[1:4], row[4:8]))
    return Trajectory(tuple(poses), times, str(path))


def given_poses(options: Mapping[str, Any], scans: Sized) -> Trajectory | None:
    """The poses of the option `poses`, checked against the number of scans; None without it."""
    if "poses" not in options:
        return None
    trajectory = read_poses(options["poses"])
    trajectory.check_count(len(scans))
    return trajectory


def read_times(path: str | Path, scans: int) -> Float64:
    """One time per scan, as in KITTI's times.txt, in seconds, or in a smaller unit since an epoch."""
    path = Path(path)
    times = read_table(path, (1,), "1 (seconds)")[:, 0]
    if len(times) != scans:
        raise InputError(f"{path}: times: found {len(times)}, expected {scans} (one per scan)")
    return times * unit_of_clock(times[-1])


def read_table(path: Path, widths: tuple[int, ...], expected: str) -> Float64:
    """Rows of numbers, all of one width out of `widths`."""
    values = array("d")  # a list of floats takes three times the memory
    width = 0
    for number, line in enumerate(read_text(path).split("\n"), 1):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            row = [float(word) for word in words]
        except ValueError:
            raise InputError(f"{path}: line {number}: expected numbers, found {line[:40]!r}") from None
        if len(row) not in widths or (width and len(row) != width):
            raise InputError(f"{path}: line {number}: found {len(row)} numbers, expected {expected}")
        if not all(map(isfinite, row)):
            raise InputError(f"{path}: line {number}: expected finite numbers, found NaN or infinity")
        width = len(row)
        values.extend(row)
    if not values:
        raise InputError(f"{path}: found no rows, expected rows of {expected} numbers")
    return np.array(values).reshape(-1, width)


def read_calibration(path: Path) -> dict[str, NDArray[np.float64]]:
    """KITTI's lines of a name and numbers, with or without a colon; other lines (dates) are skipped."""
    values = {}
    for line in read_text(path).splitlines():
        name, *numbers = line.replace(":", " ", 1).split() or [""]
        try:
            values[name] = np.array([float(word) for word in numbers])
        except ValueError:
            continue
    return values
