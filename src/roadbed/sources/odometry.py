# SPDX-License-Identifier: Apache-2.0
"""A source with other poses: estimated, from a file, or none; and its scans deskewed."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.odometry.deskew import Motion, deskew
from roadbed.sources.poses import Trajectory, read_poses
from roadbed.sources.source import Source, WrappedSource, is_live

ESTIMATED, NO_POSES = "kiss-icp", "none"


class WithPoses(WrappedSource):
    """Poses of the sensor by another rule: `place(scan, index)`."""

    def __init__(self, source: Source, place: Callable[[Scan, int], Scan]) -> None:
        super().__init__(source)
        self._place = place

    def __getitem__(self, index: int) -> Scan:
        return self._place(self.source[index], index)

    def __iter__(self) -> Iterator[Scan]:
        return (self._place(scan, index) for index, scan in enumerate(self.source))


def _with_trajectory(source: Source, trajectory: Trajectory) -> Source:
    """Poses from a file: by time where file and scans have times, else one per scan."""
    count = len(source)
    trajectory.check_count(count)
    first, last = (source[0].time, source[count - 1].time) if count else (None, None)
    if first is not None and last is not None:
        trajectory.check_clock(first, last)
    posed = WithPoses(source, lambda scan, index: trajectory.place(scan, index, count))
    posed.sequential = True
    return posed


class WithKissIcp(WithPoses):
    """Poses estimated from the scans, each once and in order."""

    def __init__(self, source: Source) -> None:
        from roadbed.odometry.kiss import KissOdometry

        super().__init__(source, lambda scan, index: replace(scan, T_world_sensor=self._pose(scan, index)))
        self._odometry, self._poses = KissOdometry(), []  # type: ignore[var-annotated]
        self.sequential = True

    def _pose(self, scan: Scan, index: int) -> Pose:
        while len(self._poses) <= index:
            number = len(self._poses)
            self._poses.append(self._odometry.pose(scan if number == index else self.source[number]))
        return self._poses[index]


class Deskewed(WrappedSource):
    """Scans without motion distortion, where point times and the poses of neighbouring scans are known.

    `ahead`: also use the motion to the next scan, which costs one scan of delay; not for live sources.
    """

    def __init__(self, source: Source, ahead: bool = True) -> None:
        super().__init__(source)
        self._ahead = ahead

    def __getitem__(self, index: int) -> Scan:
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
        for after in chain(self.source, [None]):
            if scan is not None:
                yield _deskewed(before, scan, after)
            before, scan = scan, after


def _deskewed(before: Scan | None, scan: Scan, after: Scan | None) -> Scan:
    then, later = Motion.between(before, scan), Motion.between(scan, after)
    return deskew(scan, later if then is None else then.mean(later))


def with_odometry(source: Source, name: str | None) -> Source:
    """The source with odometry `name`: kiss-icp, none, or a file of poses (TUM, KITTI); None: the source's own."""
    if name is None:
        return source
    if name == NO_POSES:
        return WithPoses(source, lambda scan, index: replace(scan, T_world_sensor=None))
    if name == ESTIMATED:
        return WithKissIcp(source)
    if not Path(name).is_file():
        raise InputError(
            f"odometry {name!r}: expected {ESTIMATED}, {NO_POSES}, a file of poses (TUM or KITTI) or a topic of a bag"
        )
    return _with_trajectory(source, read_poses(name))


def describe_odometry(source: Source, name: str | None) -> str:
    """One line on which poses are used."""
    if name is not None:
        return {NO_POSES: "none: every scan is processed on its own", ESTIMATED: "kiss-icp, from the scans"}.get(
            name, name
        )
    if is_live(source):
        return "poses of the scans, if any"
    posed = len(source) > 0 and source[0].T_world_sensor is not None
    if posed and source.sequential:
        return "poses of the source"
    return "none found: every scan is processed on its own (--odometry kiss-icp estimates it)"
