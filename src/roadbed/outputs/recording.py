# SPDX-License-Identifier: Apache-2.0
"""Results of a run as files: configuration, layers and labels per frame, objects, and the report."""

from __future__ import annotations

import json
from collections.abc import Iterable

from roadbed.atomic import atomic_write
from roadbed.config import Config
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.label import semantickitti_classes, write_label
from roadbed.outputs.npz import frame_arrays, write_arrays
from roadbed.outputs.pictures import save_frame_picture
from roadbed.outputs.report import Picture, RunRecorder, RunSummary, write_report
from roadbed.pipeline import Result


class RunFolder:
    """`add` each result; `finish` writes what concerns the whole run. Every file appears whole or not at all."""

    PARTS = ("config.yaml", "labels", "layers", "objects.jsonl", "last-frame.png", "report.html")

    def __init__(self, out: OutputFolder, source: str, config: Config, layers: bool = True) -> None:
        self._out, self._config, self._layers = out, config, layers
        self._recorder = RunRecorder(source, config, command=out.command)
        self._objects: list[str] = []
        self._last: Result | None = None
        self._names: set[str] = set()

    def add(self, result: Result) -> None:
        if not self._names:
            self._config.save(self._out.file("config.yaml"))
        name = self._name(result)
        if self._layers:
            classes = semantickitti_classes(result.ground.label)
            write_label(self._out.file("labels", f"{name}.label"), classes)
            arrays = {f"ground.{key}": value for key, value in frame_arrays(result.ground).items()}
            if result.occupancy is not None:
                arrays |= {f"occupancy.{key}": value for key, value in frame_arrays(result.occupancy).items()}
            write_arrays(self._out.file("layers", f"{name}.npz"), arrays)
        if result.occupancy is not None:
            self._objects += [json.dumps(record) for record in _object_records(name, result)]
        self._recorder.add(result.scan, result.ground, result.occupancy, result.seconds)
        self._last = result

    def _name(self, result: Result) -> str:
        """The scan's own name; scans of one name, as in a folder of `a.las` and `a.laz`, are told apart by number."""
        number = f"{len(self._names):06d}"
        name = result.scan.name or number
        if name in self._names:
            name = f"{name}-{number}"
        self._names.add(name)
        return name

    def finish(self, pictures: Iterable[Picture] = ()) -> RunSummary:
        """Write objects, the last frame's picture and the report; returns what the report shows."""
        files = ["config.yaml"] if self._names else []
        if self._names and self._layers:
            files += ["labels/", "layers/"]
        if self._objects:
            with atomic_write(self._out.file("objects.jsonl")) as file:
                file.write("".join(line + "\n" for line in self._objects).encode())
            files.append("objects.jsonl")
        shown = tuple(pictures)
        if self._last is not None:
            picture = self._out.file("last-frame.png")
            save_frame_picture(picture, self._last.ground, self._last.occupancy)
            shown = (Picture("The last frame", picture.read_bytes()), *shown)
            files.append(picture.name)
        summary = self._recorder.summary(pictures=shown, files=tuple(files))
        write_report(self._out.file("report.html"), summary)
        return summary


def _object_records(name: str, result: Result) -> Iterable[dict]:
    assert result.occupancy is not None
    for thing in result.occupancy.objects:
        yield {
            "frame": name,
            "time": result.occupancy.time,
            "id": thing.id,
            "position": thing.position.tolist(),
            "extent": thing.extent.tolist(),
            "heading": float(thing.heading),
            "velocity": thing.velocity.tolist(),
            "velocity_covariance": thing.velocity_covariance.tolist(),
            "cells": int(thing.cells),
            "age": float(thing.age),
            "existence": float(thing.existence),
            "acceleration": thing.acceleration.tolist(),
            "yaw_rate": float(thing.yaw_rate),
        }
