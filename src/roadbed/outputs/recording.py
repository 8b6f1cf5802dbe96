# SPDX-License-Identifier: Apache-2.0
"""Results of a run as files: configuration, layers and labels per frame, objects, and the report."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.core.tracked_objects import TrackedObject
from roadbed.io.atomic import write_file
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.images import save_frame_image
from roadbed.outputs.label import semantickitti_classes, write_label
from roadbed.outputs.npz import result_arrays, write_arrays
from roadbed.outputs.report import FrameRecord, ReportImage, RunRecorder, write_report
from roadbed.pipeline import Result


class RunFolder:
    """`add` each result; `finish` writes the files of the whole run. Every file is written atomically."""

    PARTS = ("config.yaml", "labels", "layers", "objects.jsonl", "last-frame.png", "report.html")

    def __init__(self, out: OutputFolder, source: str, config: Config, layers: bool = True) -> None:
        self._out, self._config, self._layers = out, config, layers
        self._recorder = RunRecorder(source, config, command=out.command)
        self._objects: list[str] = []
        self._last: Result | None = None
        self._names: set[str] = set()

    def add(self, result: Result) -> FrameRecord:
        """Write a result; returns its figures."""
        if not self._names:
            self._config.save(self._out.file("config.yaml"))
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
        return self._recorder.add(result)

    def _name(self, result: Result) -> str:
        """The scan's own name; scans of one name, as in a folder of `a.las` and `a.laz`, get a number."""
        number = f"{len(self._names):06d}"
        name = result.scan.name or number
        if name in self._names:
            name = f"{name}-{number}"
        self._names.add(name)
        return name

    def finish(self, images: Iterable[ReportImage] = ()) -> RunRecorder:
        """Write objects, the image of the last frame and the report; returns the figures of the run."""
        files = ["config.yaml"] if self._names else []
        if self._names and self._layers:
            files += ["labels/", "layers/"]
        if self._objects:
            write_file(self._out.file("objects.jsonl"), "".join(line + "\n" for line in self._objects))
            files.append("objects.jsonl")
        shown = tuple(images)
        if self._last is not None:
            image = self._out.file("last-frame.png")
            save_frame_image(image, self._last.ground, self._last.occupancy)
            shown = (ReportImage("The last frame", image.read_bytes()), *shown)
            files.append(image.name)
        write_report(self._out.file("report.html"), self._recorder, shown, files)
        return self._recorder


def _plain(item: TrackedObject) -> dict[str, Any]:
    """Every field of an object as plain numbers and lists."""
    return {name: np.asarray(value).tolist() for name, value in vars(item).items()}
