# SPDX-License-Identifier: Apache-2.0
"""Counts and latencies of a stream."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

_LATENCIES_KEPT = 300


@dataclass(frozen=True)
class Counts:
    """Scans of one sensor. received = processed + dropped + refused + waiting."""

    received: int = 0
    processed: int = 0
    dropped: int = 0  # replaced by newer scans in a full queue, or the stream was stopped
    refused: int = 0  # invalid; the problem was reported
    without_pose: int = 0  # processed, but no pose came in time


@dataclass(frozen=True)
class Statistics:
    """A stream's state at one moment."""

    sensors: Mapping[str, Counts]
    waiting: int
    rate: float  # processed scans per second, recently
    latency: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # s, median and 95th percentile per stage

    @property
    def total(self) -> Counts:
        """Over all sensors."""
        names = Counts.__dataclass_fields__
        return Counts(**{name: sum(getattr(counts, name) for counts in self.sensors.values()) for name in names})

    def line(self) -> str:
        """One line for the screen."""
        total = self.total
        parts = [f"{total.received} scans in, {total.processed} out, {total.dropped} dropped, {total.refused} refused"]
        if total.without_pose:
            parts.append(f"{total.without_pose} without pose")
        parts.append(f"{self.rate:.1f} Hz")
        if "total" in self.latency:
            median, p95 = self.latency["total"]
            parts.append(f"latency {1e3 * median:.0f} ms (p95 {1e3 * p95:.0f} ms)")
        return ", ".join(parts)


class Tally:
    """Counts while the stream runs; the caller holds the stream's lock."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._latencies: dict[str, deque[float]] = {}
        self._ends: deque[float] = deque(maxlen=50)

    def count(self, sensor: str, what: str) -> None:
        counts = self._counts.setdefault(sensor, {})
        counts[what] = counts.get(what, 0) + 1

    def processed_in(self, latency: Mapping[str, float], end: float) -> None:
        self._ends.append(end)
        for stage, seconds in latency.items():
            self._latencies.setdefault(stage, deque(maxlen=_LATENCIES_KEPT)).append(seconds)

    def statistics(self, waiting: int) -> Statistics:
        span = self._ends[-1] - self._ends[0] if len(self._ends) > 1 else 0.0
        return Statistics(
            sensors={sensor: Counts(**counts) for sensor, counts in self._counts.items()},
            waiting=waiting,
            rate=(len(self._ends) - 1) / span if span > 0 else 0.0,
            latency={
                stage: (float(np.median(values)), float(np.percentile(values, 95)))
                for stage, values in self._latencies.items()
            },
        )
