# SPDX-License-Identifier: Apache-2.0
"""Scans that wait: one bounded queue per sensor, so that a fast sensor does not push out a slow one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from roadbed.core.frames import Scan

_SAME_DRIVE_S = 5.0  # leaders whose times differ by more belong to different recordings: order of arrival counts


@dataclass(frozen=True, eq=False)
class Waiting:
    """A scan, what it came with, and when it came (monotonic clock, s)."""

    scan: Scan
    payload: Any
    arrived: float


class SensorQueues:
    """At most `length` scans of each sensor; the stream's lock is held around it."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._queues: dict[str, deque[Waiting]] = {}
        self._turns: dict[str, int] = {}  # when each sensor was last served

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def is_full(self, sensor: str) -> bool:
        return len(self._queues.get(sensor, ())) >= self._length

    def add(self, entry: Waiting) -> Waiting | None:
        """Put a scan in; returns the oldest of its sensor where that had to go."""
        queue = self._queues.setdefault(entry.scan.sensor, deque())
        pushed_out = queue.popleft() if len(queue) >= self._length else None
        queue.append(entry)
        return pushed_out

    def next(self) -> Waiting | None:
        """The scan that was measured first among those that lead their queues; scans without time in order of arrival.

        Of scans measured at once, that of the sensor which has waited longest for its turn: when there is no time for
        all, each loses alike. After a recording has started over, what came before the jump goes first.
        """
        leaders = [queue[0] for queue in self._queues.values() if queue]
        if not leaders:
            return None
        first = min(leaders, key=lambda entry: entry.arrived)
        if first.scan.time is None:
            return first
        close = [e for e in leaders if e.scan.time is not None and abs(e.scan.time - first.scan.time) < _SAME_DRIVE_S]
        return min(close, key=lambda e: (e.scan.time, self._turns.get(e.scan.sensor, 0), e.arrived))

    def take(self, entry: Waiting) -> bool:
        """Remove a scan that leads its queue; False where it was pushed out meanwhile."""
        queue = self._queues.get(entry.scan.sensor)
        if not queue or queue[0] is not entry:
            return False
        queue.popleft()
        self._turns[entry.scan.sensor] = max(self._turns.values(), default=0) + 1
        return True

    def clear(self) -> Iterator[Waiting]:
        for queue in self._queues.values():
            while queue:
                yield queue.popleft()
