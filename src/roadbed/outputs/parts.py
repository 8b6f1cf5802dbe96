# SPDX-License-Identifier: Apache-2.0
"""What a part of a run hands to the whole: its frames in numbers, its slides and its objects, as plain files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from roadbed.core.errors import InputError
from roadbed.io.atomic import atomic_write, output_errors
from roadbed.io.files import read_text
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.report import FrameRecord, Slide

_NAME = "part.json"


@dataclass(frozen=True)
class Part:
    """A part of a run beside its labels and layers."""

    frames: Sequence[FrameRecord]
    slides: Sequence[Slide]
    objects: Sequence[str]  # lines of JSON
    last: str  # name of the files of its last frame

    def write(self, out: OutputFolder) -> None:
        """part.json and slides/."""
        for slide in self.slides:
            with atomic_write(out.file("slides", f"{slide.index}.webp")) as file:
                file.write(slide.data)
        content = asdict(self) | {"slides": [slide.index for slide in self.slides]}
        with atomic_write(out.file(_NAME)) as file:
            file.write(json.dumps(content).encode())

    @classmethod
    def read(cls, folder: Path) -> Part:
        try:
            content = json.loads(read_text(folder / _NAME))
            frames = [
                FrameRecord(**{**frame, "diagnostics": tuple(frame["diagnostics"])}) for frame in content["frames"]
            ]
            slides = [Slide(index, (folder / "slides" / f"{index}.webp").read_bytes()) for index in content["slides"]]
            return cls(frames, slides, [str(line) for line in content["objects"]], str(content["last"]))
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise InputError(f"{folder / _NAME}: expected a part of a run ({error})") from None


def linked_or_copied(path: Path, target: Path) -> None:
    """The same file under another name; a copy where the file system has no such thing."""
    with output_errors(target):
        try:
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)
