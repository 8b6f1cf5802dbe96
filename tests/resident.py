# SPDX-License-Identifier: Apache-2.0
"""How much memory a piece of work really takes: the resident peak, which sees what compiled libraries allocate."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Peak:
    bytes: int = 0


@contextmanager
def measured(hang_guard_s: int = 300) -> Iterator[Peak]:
    """Memory that the block took at its worst; a block that hangs ends in TimeoutError."""
    peak = Peak()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    previous = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(hang_guard_s)
    try:
        yield peak
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
        peak.bytes = _status("VmHWM") - before


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def _too_long(*_: object) -> None:
    raise TimeoutError("still running: this looks like a hang")
