# SPDX-License-Identifier: Apache-2.0
"""A source with other poses than it brings: estimated, from a file, from another topic of its bag, or none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.odometry.deskew import Motion, deskew
from roadbed.sources.poses import Trajectory, read_poses
from roadbed.sources.source import Source, WrappedSource, is_live

ESTIMATED, NO_POSES = "kiss-icp", "none"


class WithoutPoses(WrappedSource):
    """Every scan stands alone."""

    def __getitem__(self, index: int) -> Scan:
        return replace(self.source[index], T_world_sensor=None)

    def __iter__(self) -> Iterator[Scan]:
        return (replace(scan, T_world_sensor=None) for scan in self.source)


class WithTrajectory(WrappedSource):
    """Poses of the sensor from a file: by time where file and scans have one, else one per scan."""

    def __init__(self, source: Source, trajectory: Trajectory) -> None:
        super().__init__(source)
        trajectory.check_count(len(source))
        self._trajectory = trajectory
        self.sequential = True
        self._check_clock()

    def __getitem__(self, index: int) -> Scan:
        return self._posed(self.source[index], index)

    def __iter__(self) -> Iterator[Scan]:
        return (self._posed(scan, index) for index, scan in enumerate(self.source))

    def _posed(self, scan: Scan, index: int) -> Scan:
        return replace(scan, T_world_sensor=self._trajectory.of_scan(index, len(self), scan.time))

    def _check_clock(self) -> None:
        """Poses that end before the first scan, or begin after the last, count time from elsewhere."""
        times = self._trajectory.times
        if times is None or not len(self):
            return
        first, last = self.source[0].time, self.source[len(self) - 1].time
        if first is not None and last is not None and (last < times[0] - 1 or first > times[-1] + 1):
            raise InputError(
                f"{self._trajectory.where}: times {times[0]:.3f} to {times[-1]:.3f} s, "
                f"expected the clock of the scans, {first:.3f} to {last:.3f} s"
            )


class WithKissIcp(WrappedSource):
    """Poses estimated from the scans, each once and in order."""

    def __init__(self, source: Source) -> None:
        from roadbed.odometry.kiss import KissOdometry

        super().__init__(source)
        self._odometry, self._poses = KissOdometry(), []  # type: ignore[var-annotated]
        self.sequential = True

    def __getitem__(self, index: int) -> Scan:
        index = range(len(self))[index]
        while len(self._poses) < index:
            self._estimate(self.source[len(self._poses)])
        return self._estimate(self.source[index]) if index == len(self._poses) else self._known(index)

    def __iter__(self) -> Iterator[Scan]:
        for index, scan in enumerate(self.source):
            yield self._estimate(scan) if index == len(self._poses) else self._of(scan, index)

    def _estimate(self, scan: Scan) -> Scan:
        self._poses.append(self._odometry.pose(scan))
        return self._of(scan, len(self._poses) - 1)

    def _known(self, index: int) -> Scan:
        return self._of(self.source[index], index)

    def _of(self, scan: Scan, index: int) -> Scan:
        return replace(scan, T_world_sensor=self._poses[index])


class Deskewed(WrappedSource):
    """Scans without motion distortion where times of the points, and poses before or after, are known.

    `ahead`: the next scan is waited for, as the way to it tells of the motion too; not for a live source.
    """

    def __init__(self, source: Source, ahead: bool = True) -> None:
        super().__init__(source)
        self._ahead = ahead

    def __getitem__(self, index: int) -> Scan:
        index = range(len(self))[index]
        scan = self.source[index]
        if scan.point_time is None:
            return scan
        before = self.source[index - 1] if index else None
        after = self.source[index + 1] if self._ahead and index + 1 < len(self) else None
        return _deskewed(before, scan, after)

    def __iter__(self) -> Iterator[Scan]:
        before: Scan | None = None
        scan: Scan | None = None
        if not self._ahead:
            for scan in self.source:
                yield _deskewed(before, scan, None)
                before = scan
            return
        for after in self.source:
            if scan is not None:
                yield _deskewed(before, scan, after)
            before, scan = scan, after
        if scan is not None:
            yield _deskewed(before, scan, None)


def _deskewed(before: Scan | None, scan: Scan, after: Scan | None) -> Scan:
    then, later = Motion.between(before, scan), Motion.between(scan, after)
    return deskew(scan, later if then is None else then.mean(later))


def with_odometry(source: Source, wanted: str | None) -> Source:
    """The source with the odometry asked for: kiss-icp, none, a file of poses (TUM, KITTI); None: its own."""
    if wanted is None:
        return source
    if wanted == NO_POSES:
        return WithoutPoses(source)
    if wanted == ESTIMATED:
        return WithKissIcp(source)
    if not Path(wanted).is_file():
        raise InputError(
            f"odometry {wanted!r}: expected {ESTIMATED}, {NO_POSES}, a file of poses (TUM or KITTI) or a topic of a bag"
        )
    return WithTrajectory(source, read_poses(wanted))


def describe_odometry(source: Source, wanted: str | None) -> str:
    """One line for the screen: which poses are used."""
    if wanted is not None:
        return {NO_POSES: "none: every scan stands alone", ESTIMATED: "kiss-icp, from the scans"}.get(wanted, wanted)
    if is_live(source):
        return "what the scans bring"
    posed = len(source) > 0 and source[0].T_world_sensor is not None
    if posed and source.sequential:
        return "poses of the source"
    return "none found: every scan stands alone (--odometry kiss-icp estimates it)"
