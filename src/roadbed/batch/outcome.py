# SPDX-License-Identifier: Apache-2.0
"""What workers tell: frames done, and how a drive ended; and how far all of them are."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from roadbed.batch.segments import Segment


@dataclass(frozen=True)
class Frames:
    """So many more frames are done."""

    drive: str
    count: int
    worker: int = field(default_factory=os.getpid)  # its process


@dataclass(frozen=True)
class Split:
    """A long drive is to be done in segments."""

    drive: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Outcome:
    """A drive, one of its segments or a piece of the map is done, was there already, or cannot be done."""

    drive: str
    status: Literal["done", "kept", "failed", "part"]
    frames: int = 0
    reason: str = ""  # why it failed, or why what was there had to be done again
    disk_full: bool = False
    segment: int | None = None  # number of the one that is done, of a "part"


@dataclass
class Progress:
    """How far it is."""

    drives: int
    begun: float = field(default_factory=monotonic)
    done: int = 0
    kept: int = 0
    frames: int = 0
    retries: int = 0
    failures: dict[str, str] = field(default_factory=dict)  # drive: reason
    map_failure: str = ""
    stopped: str = ""  # why not all drives were tried

    @property
    def seconds(self) -> float:
        return monotonic() - self.begun

    @property
    def ended(self) -> int:
        return self.done + self.kept + len(self.failures)

    @property
    def left(self) -> int:
        """Drives that are neither complete nor failed."""
        return self.drives - self.ended

    @property
    def seconds_left(self) -> float | None:
        """By the drives done so far; None before the first."""
        return self.seconds / self.done * self.left if self.done else None
