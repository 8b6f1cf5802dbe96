# SPDX-License-Identifier: Apache-2.0
"""The settings of a batch, the events that workers report, and the progress."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Literal

from roadbed.batch.sequences import InputSequence
from roadbed.config import Config


@dataclass(frozen=True)
class Job:
    """One call of `roadbed batch`, as every worker gets it."""

    folder: Path  # on a disk that every node mounts at the same path
    config: Config
    command: str
    occupancy: bool = True
    layers: bool = True
    map: bool = False
    threads: int = 1  # of the kernels in one worker
    resume: bool = False

    @property
    def sequences(self) -> Path:
        return self.folder / "sequences"

    @property
    def unfinished(self) -> Path:
        """Folders that are being written."""
        return self.folder / "unfinished"

    def of(self, sequence: InputSequence) -> Path:
        """The folder of a sequence's results."""
        return self.sequences / sequence.name

    def settings_hash(self, sequence: InputSequence) -> str:
        """Hash of everything but the input that results depend on."""
        settings = {
            "config": self.config.model_dump(mode="json"),
            "opening": asdict(sequence.read_options),
            "occupancy": self.occupancy,
            "layers": self.layers,
            "map": self.map,
        }
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class FramesDone:
    """`count` more frames are done."""

    sequence: str
    count: int
    worker: int = field(default_factory=os.getpid)  # its process


@dataclass(frozen=True)
class Outcome:
    """How a sequence or the merge of the maps ended."""

    sequence: str
    status: Literal["done", "kept", "failed"]
    frames: int = 0
    reason: str = ""  # why it failed, or why earlier results were outdated
    disk_full: bool = False


@dataclass
class Progress:
    """Counts of a batch run."""

    sequences: int
    begun: float = field(default_factory=monotonic)
    done: int = 0
    kept: int = 0
    frames: int = 0
    retries: int = 0
    failures: dict[str, str] = field(default_factory=dict)  # sequence: reason
    map_failure: str = ""
    stopped: str = ""  # why it ended early

    @property
    def seconds(self) -> float:
        return monotonic() - self.begun

    @property
    def ended(self) -> int:
        return self.done + self.kept + len(self.failures)

    @property
    def left(self) -> int:
        """Sequences that are neither complete nor failed."""
        return self.sequences - self.ended

    @property
    def seconds_left(self) -> float | None:
        """Estimated from the sequences done so far; None before the first."""
        return self.seconds / self.done * self.left if self.done else None
