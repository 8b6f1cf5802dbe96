# SPDX-License-Identifier: Apache-2.0
"""What is done to every drive, and where its results go."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from roadbed.batch.drives import Drive
from roadbed.config import Config

WARM_UP = 80  # frames; `python -m benchmarks segments` shows what they are worth


@dataclass(frozen=True)
class Job:
    """One call of `roadbed batch`, as every worker gets it."""

    folder: Path  # on a disk that every node has under the same name
    config: Config
    command: str
    occupancy: bool = True
    layers: bool = True
    map: bool = False
    segment: int | None = None  # frames; None: drives stay in one piece
    warm_up: int = WARM_UP  # frames before a segment that prepare its filters and are discarded
    threads: int = 1  # of the kernels in one worker
    resume: bool = False

    @property
    def drives(self) -> Path:
        return self.folder / "drives"

    @property
    def unfinished(self) -> Path:
        """Parts of drives, and folders that are being written."""
        return self.folder / "unfinished"

    def of(self, drive: Drive) -> Path:
        """The folder that a drive's results appear in, all at once."""
        return self.drives / drive.name

    def settings_hash(self, drive: Drive) -> str:
        """Of all that results depend on beside the input: one more or one less makes other results."""
        cut = None if self.segment is None else (self.segment, self.warm_up)
        settings = {
            "config": self.config.model_dump(mode="json"),
            "opening": asdict(drive.opening),
            "occupancy": self.occupancy,
            "layers": self.layers,
            "map": self.map,
            "segments": cut,
        }
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
