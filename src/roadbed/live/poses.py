# SPDX-License-Identifier: Apache-2.0
"""A buffer of poses in any order of arrival, interpolated at the times of scans."""

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from roadbed.core.geometry import Pose
from roadbed.sources.poses import Trajectory


@dataclass(frozen=True)
class PoseLookup:
    """The pose at a time, or why there is none; `may_come`: a later pose may still provide it."""

    pose: Pose | None
    may_come: bool = False
    note: str = ""


class PoseBuffer:
    """The poses of the last `memory` seconds of one body. Not thread-safe: the caller holds the stream's lock."""

    def __init__(self, memory: float, new_recording: float) -> None:
        self._memory, self._new_recording = memory, new_recording
        self._entries: list[tuple[float, int, Pose]] = []
        self._count = 0

    def add(self, time: float, pose: Pose) -> str:
        """Add a pose, also a late one; returns a diagnostic or "". A large step back in time starts a new recording."""
        note = ""
        if self._entries and time < self._entries[-1][0] - self._new_recording:
            note = f"poses: time ran back by {self._entries[-1][0] - time:.3g} s: earlier poses are dropped"
            self._entries.clear()
        self._count += 1
        insort(self._entries, (time, self._count, pose), key=lambda entry: entry[:2])
        oldest = self._entries[-1][0] - self._memory
        del self._entries[: bisect_left(self._entries, oldest, key=lambda entry: entry[0])]
        return note

    def at(self, time: float) -> PoseLookup:
        """Interpolate between neighbours, or extrapolate a little beyond the newest pose."""
        if not self._entries:
            return PoseLookup(None, True, "no pose received yet")
        first, newest = self._entries[0][0], self._entries[-1][0]
        near = bisect_left(self._entries, time, key=lambda entry: entry[0])
        some = {entry[0]: entry[2] for entry in self._entries[max(near - 2, 0) : near + 2]}
        pose = Trajectory(tuple(some.values()), np.array(list(some)), "poses").at(time)
        beyond = time - newest
        if beyond > 0:
            note = f"the newest pose is {beyond:.3f} s older than the scan"
            return PoseLookup(pose, True, f"{note}: extrapolated" if pose else note)
        if pose is None:
            gap = "poses around the scan are too far apart" if time >= first else "the oldest pose is younger"
            return PoseLookup(None, False, gap)
        return PoseLookup(pose)
