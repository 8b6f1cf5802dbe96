# SPDX-License-Identifier: Apache-2.0
"""One bounded queue of scans per sensor, so that a fast sensor does not displace a slow one."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from roadbed.core.frames import Scan

_SAME_RECORDING_S = 5.0  # a larger time difference means another recording: order of arrival counts


@dataclass(frozen=True, eq=False)
class WaitingScan:
    """A scan with its payload and time of arrival (monotonic clock, s)."""

    scan: Scan
    payload: Any
    arrived: float


class SensorQueues:
    """At most `length` scans of each sensor; the caller holds the stream's lock."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._queues: dict[str, deque[WaitingScan]] = {}
        self._turns: dict[str, int] = {}  # when each sensor was last served

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def is_full(self, sensor: str) -> bool:
        return len(self._queues.get(sensor, ())) >= self._length

    def add(self, entry: WaitingScan) -> WaitingScan | None:
        """Add a scan; returns the oldest one of its sensor if it was dropped."""
        queue = self._queues.setdefault(entry.scan.sensor, deque())
        pushed_out = queue.popleft() if len(queue) >= self._length else None
        queue.append(entry)
        return pushed_out

    def next(self) -> WaitingScan | None:
        """The earliest scan by measurement time at the head of a queue; scans without time in order of arrival.

        Of simultaneous scans, that of the sensor served least recently, so that under overload all sensors lose alike.
        After a recording has restarted, the scans from before the jump go first.
        """
        leaders = [queue[0] for queue in self._queues.values() if queue]
        if not leaders:
            return None
        first = min(leaders, key=lambda entry: entry.arrived)
        if first.scan.time is None:
            return first
        close = [
            e for e in leaders if e.scan.time is not None and abs(e.scan.time - first.scan.time) < _SAME_RECORDING_S
        ]
        return min(close, key=lambda e: (e.scan.time, self._turns.get(e.scan.sensor, 0), e.arrived))

    def take(self, entry: WaitingScan) -> bool:
        """Remove the head of a queue; False if it was dropped meanwhile."""
        queue = self._queues.get(entry.scan.sensor)
        if not queue or queue[0] is not entry:
            return False
        queue.popleft()
        self._turns[entry.scan.sensor] = max(self._turns.values(), default=0) + 1
        return True

    def clear(self) -> Iterator[WaitingScan]:
        for queue in self._queues.values():
            while queue:
                yield queue.popleft()
