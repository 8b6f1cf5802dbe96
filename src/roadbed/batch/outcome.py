# SPDX-License-Identifier: Apache-2.0
"""What workers tell: frames done, and how a drive ended."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
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
