# SPDX-License-Identifier: Apache-2.0
"""drive.json: what a complete drive was made from and holds. run.json: what differs from run to run, such as times."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from roadbed import __version__
from roadbed.core.errors import InputError
from roadbed.io.atomic import atomic_write
from roadbed.io.files import read_text
from roadbed.outputs.folder import MANIFEST, OutputFolder

DRIVE, RUN = "drive.json", "run.json"
# Files that say when, where and how fast: all others are the same bytes each time.
RUN_DEPENDENT = (RUN, "report.html", MANIFEST)


def versions() -> dict[str, str]:
    """What computes; a change of Roadbed's own makes old results incomplete."""
    packages = {name: version(name) for name in ("numpy", "numba")}
    return {"roadbed": __version__, "python": platform.python_version(), **packages}


@dataclass(frozen=True)
class DriveManifest:
    """Everything in it follows from the input, the settings and the versions."""

    name: str
    source: str
    input: str  # SHA-256 of every byte
    settings: str  # SHA-256
    versions: Mapping[str, str]
    segments: Sequence[Sequence[int]]  # first, start, stop
    frames: int
    points: int
    labels: Mapping[str, int]  # points by label
    objects: int  # ids
    diagnostics: int  # frames of which something was noticed
    scores: Mapping[str, float | None]  # percent, mean over frames; empty without true labels
    worst: Sequence[Mapping[str, Any]]
    files: Mapping[str, int | None] = field(default_factory=dict)  # bytes; None where they differ from run to run

    def write(self, out: OutputFolder) -> None:
        write_json(out.file(DRIVE), asdict(self))

    @classmethod
    def read(cls, folder: Path) -> DriveManifest | None:
        """The manifest of a folder, None where there is none that can be used."""
        try:
            return cls(**json.loads(read_text(folder / DRIVE)))
        except (InputError, ValueError, TypeError):
            return None

    def missing(self, folder: Path) -> str | None:
        """The first file that is not there as it was written."""
        for name, size in self.files.items():
            path = folder / name
            if not path.is_file() or (size is not None and path.stat().st_size != size):
                return name
        return None


def sizes(folder: Path) -> dict[str, int | None]:
    """Every file of a drive's folder; drive.json itself comes last and is not among them."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name: None if name in RUN_DEPENDENT else (folder / name).stat().st_size for name in names}


def write_json(path: Path, content: Any) -> None:
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())


def read_run(folder: Path) -> dict[str, Any]:
    """run.json of a drive; empty where it cannot be used."""
    try:
        content = json.loads(read_text(folder / RUN))
    except (InputError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
