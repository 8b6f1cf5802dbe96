# SPDX-License-Identifier: Apache-2.0
"""Seconds per phase, for `GroundFrame.timings`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def timed(timings: dict[str, float], phase: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    timings[phase] = time.perf_counter() - begin
