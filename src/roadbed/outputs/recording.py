# SPDX-License-Identifier: Apache-2.0
"""Results of a run as files: configuration, layers and labels per frame, objects, and the report."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.core.errors import InputError
from roadbed.core.tracked_objects import TrackedObject
from roadbed.io.atomic import output_errors, write_file
from roadbed.io.files import read_text
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.images import save_frame_image
from roadbed.outputs.label import semantickitti_classes, write_label
from roadbed.outputs.npz import result_arrays, write_arrays
from roadbed.outputs.report import FrameRecord, ReportImage, RunRecorder, RunSummary, Slide, write_report
from roadbed.pipeline import Result

_NAME = "part.json"


@dataclass(frozen=True)
class Part:
    """A segment of a run without its labels and layers."""

    frames: Sequence[FrameRecord]
    slides: Sequence[Slide]
    objects: Sequence[str]  # lines of JSON
    last: str  # name of the files of its last frame

    def write(self, out: OutputFolder) -> None:
        """part.json and slides/."""
        for slide in self.slides:
            write_file(out.file("slides", f"{slide.index}.webp"), slide.data)
        content = asdict(self) | {"slides": [slide.index for slide in self.slides]}
        write_file(out.file(_NAME), json.dumps(content))

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


def link_or_copy(path: Path, target: Path) -> None:
    """The same file under another name; a copy where the file system has no hard links."""
    with output_errors(target):
        try:
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)


class RunFolder:
    """`add` each result; `finish` writes the files of the whole run. Every file is written atomically."""

    PARTS = ("config.yaml", "labels", "layers", "objects.jsonl", "last-frame.png", "report.html")

    def __init__(self, out: OutputFolder, source: str, config: Config, layers: bool = True, first: int = 0) -> None:
        self._out, self._config, self._layers, self._first = out, config, layers, first
        self._recorder = RunRecorder(source, config, command=out.command, first=first)
        self._objects: list[str] = []
        self._last: Result | bytes | None = None  # the last frame, or its image
        self._names: set[str] = set()
        self._last_name = ""

    def add(self, result: Result) -> FrameRecord:
        """Write a result; returns its figures."""
        self._save_config()
        name = self._name(result)
        if self._layers:
            classes = semantickitti_classes(result.ground.label)
            write_label(self._out.file("labels", f"{name}.label"), classes)
            arrays = result_arrays(result.ground, result.occupancy)
            write_arrays(self._out.file("layers", f"{name}.npz"), arrays)
        if result.occupancy is not None:
            frame = {"frame": name, "time": result.occupancy.time}
            self._objects += [json.dumps(frame | _plain(item)) for item in result.occupancy.objects]
        self._last = result
        return self._recorder.add(result.scan, result.ground, result.occupancy, result.timings)

    def _name(self, result: Result) -> str:
        """The scan's own name; scans of one name, as in a folder of `a.las` and `a.laz`, get a number."""
        number = f"{self._first + len(self._names):06d}"
        name = result.scan.name or number
        if name in self._names:
            name = f"{name}-{number}"
        self._names.add(name)
        self._last_name = name
        return name

    def finish(self, images: Iterable[ReportImage] = ()) -> RunSummary:
        """Write objects, the image of the last frame and the report; returns the summary of the report."""
        files = ["config.yaml"] if self._names else []
        if self._names and self._layers:
            files += ["labels/", "layers/"]
        if self._objects:
            write_file(self._out.file("objects.jsonl"), "".join(line + "\n" for line in self._objects))
            files.append("objects.jsonl")
        shown = tuple(images)
        if self._last is not None:
            image = self._out.file("last-frame.png")
            self._draw_last(image)
            shown = (ReportImage("The last frame", image.read_bytes()), *shown)
            files.append(image.name)
        summary = self._recorder.summary(images=shown, files=tuple(files))
        write_report(self._out.file("report.html"), summary)
        return summary

    def finish_part(self) -> RunSummary:
        """Finish a segment: write the files that `take` appends."""
        summary = self._recorder.summary()
        Part([*summary.frames], summary.slides, self._objects, self._last_name).write(self._out)
        if self._last is not None:
            self._draw_last(self._out.file("last-frame.png"))
        return summary

    def take(self, folder: Path, part: Part, same_ids: Mapping[int, int]) -> None:
        """Append a segment; its objects get the ids of this run."""
        self._save_config()
        for kind, suffix in (("labels", ".label"), ("layers", ".npz")):
            for path in sorted((folder / kind).glob(f"*{suffix}")):
                target = self._out.file(kind, path.name)
                target.parent.mkdir(exist_ok=True)
                link_or_copy(path, target)
        self._names |= {frame.name for frame in part.frames}
        for line in part.objects:
            record = json.loads(line)
            self._objects.append(json.dumps(record | {"id": same_ids[record["id"]]}))
        self._recorder.extend(part.frames, part.slides)
        self._last = (folder / "last-frame.png").read_bytes()

    def _save_config(self) -> None:
        if not self._names:
            self._config.save(self._out.file("config.yaml"))

    def _draw_last(self, path: Path) -> None:
        if isinstance(self._last, bytes):
            write_file(path, self._last)
        elif self._last is not None:
            save_frame_image(path, self._last.ground, self._last.occupancy)


def _plain(item: TrackedObject) -> dict[str, Any]:
    """Every field of an object as plain numbers and lists."""
    return {name: np.asarray(value).tolist() for name, value in vars(item).items()}
