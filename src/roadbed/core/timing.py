# SPDX-License-Identifier: Apache-2.0
"""Seconds per phase, for `GroundFrame.timings`."""

from time import perf_counter


class timed:
    """`with timed(timings, "phase"):` adds the seconds of the block. A class: a generator costs several times as
    much, and frames have many phases."""

    __slots__ = ("_begin", "_phase", "_timings")

    def __init__(self, timings: dict[str, float], phase: str) -> None:
        self._timings, self._phase = timings, phase

    def __enter__(self) -> None:
        self._begin = perf_counter()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._timings[self._phase] = self._timings.get(self._phase, 0.0) + perf_counter() - self._begin
