# SPDX-License-Identifier: Apache-2.0
"""Poses as they come in, in any order, and the pose at a scan's time between its neighbours."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from roadbed.core.geometry import Pose
from roadbed.sources.poses import Trajectory


@dataclass(frozen=True)
class Found:
    """The pose for a time, or why there is none; `may_come` while a later pose could still bring it."""

    pose: Pose | None
    may_come: bool = False
    note: str = ""


class PoseBuffer:
    """The poses of the last `memory` seconds of one body. Not safe by itself: the stream's lock is held around it."""

    def __init__(self, memory: float, new_recording: float) -> None:
        self._memory, self._new_recording = memory, new_recording
        self._entries: list[tuple[float, int, Pose]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, time: float, pose: Pose) -> str:
        """Take a pose, late ones too; returns what was noticed. Time that runs far back starts a new recording."""
        note = ""
        if self._entries and time < self._entries[-1][0] - self._new_recording:
            note = f"poses: time ran back by {self._entries[-1][0] - time:.3g} s: earlier poses are forgotten"
            self._entries.clear()
        self._count += 1
        insort(self._entries, (time, self._count, pose), key=lambda entry: entry[:2])
        oldest = self._entries[-1][0] - self._memory
        del self._entries[: bisect_left(self._entries, oldest, key=lambda entry: entry[0])]
        return note

    def at(self, time: float) -> Found:
        """Interpolated between neighbours, or a little beyond the newest where nothing better came."""
        if not self._entries:
            return Found(None, True, "no pose has come yet")
        first, newest = self._entries[0][0], self._entries[-1][0]
        near = bisect_left(self._entries, time, key=lambda entry: entry[0])
        some = {entry[0]: entry[2] for entry in self._entries[max(near - 2, 0) : near + 2]}
        pose = Trajectory(tuple(some.values()), np.array(list(some)), "poses").at(time)
        beyond = time - newest
        if beyond > 0:
            note = f"the newest pose is {beyond:.3f} s older than the scan"
            return Found(pose, True, f"{note}: extended" if pose else note)
        if pose is None:
            gap = "poses around the scan are too far apart" if time >= first else "the oldest pose is younger"
            return Found(None, False, gap)
        return Found(pose)
