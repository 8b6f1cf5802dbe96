# SPDX-License-Identifier: Apache-2.0
"""sequence.json: input, settings and content of a complete sequence. run.json: times and host of a run."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from roadbed import __version__
from roadbed.core.errors import InputError
from roadbed.io.atomic import write_file
from roadbed.io.files import read_text
from roadbed.outputs.folder import MANIFEST, OutputFolder

SEQUENCE, RUN = "sequence.json", "run.json"
# Files that differ between runs; all others are byte-identical.
RUN_DEPENDENT = (RUN, "report.html", MANIFEST)


def versions() -> dict[str, str]:
    """Versions of the software; results of another Roadbed version are outdated."""
    packages = {name: version(name) for name in ("numpy", "numba")}
    return {"roadbed": __version__, "python": platform.python_version(), **packages}


@dataclass(frozen=True)
class SequenceManifest:
    """Depends only on the input, the settings and the versions."""

    name: str
    source: str
    input: str  # SHA-256 of every byte
    settings: str  # SHA-256
    versions: Mapping[str, str]
    frames: int
    points: int
    labels: Mapping[str, int]  # points by label
    objects: int  # ids
    diagnostics: int  # frames with diagnostics
    scores: Mapping[str, float | None]  # percent, mean over frames; empty without true labels
    lowest: Sequence[Mapping[str, Any]]
    files: Mapping[str, int | None] = field(default_factory=dict)  # bytes; None where they differ from run to run

    def write(self, out: OutputFolder) -> None:
        write_json(out.file(SEQUENCE), asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The manifest of a folder, None if it is missing or damaged."""
        try:
            return cls(**read_json(folder / SEQUENCE))
        except TypeError:
            return None

    def missing(self, folder: Path) -> str | None:
        """The first file that is missing or has another size."""
        for name, size in self.files.items():
            path = folder / name
            if not path.is_file() or (size is not None and path.stat().st_size != size):
                return name
        return None


def sizes(folder: Path) -> dict[str, int | None]:
    """Every file of a sequence's folder; sequence.json itself comes last and is not among them."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name: None if name in RUN_DEPENDENT else (folder / name).stat().st_size for name in names}


def write_json(path: Path, content: Any) -> None:
    write_file(path, json.dumps(content, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if the file is missing or damaged."""
    try:
        content = json.loads(read_text(path))
    except (InputError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
