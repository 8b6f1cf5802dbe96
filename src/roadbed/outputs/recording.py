# SPDX-License-Identifier: Apache-2.0
"""Results of a run as files: configuration, layers and labels per frame, objects, and the report."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from roadbed.atomic import atomic_write
from roadbed.config import Config
from roadbed.outputs.label import write_label
from roadbed.outputs.npz import frame_arrays, write_arrays
from roadbed.outputs.pictures import save_frame_picture
from roadbed.outputs.report import Picture, RunRecorder, RunSummary, write_report
from roadbed.pipeline import Result


class RunFolder:
    """`add` each result; `finish` writes what concerns the whole run. Every file appears whole or not at all."""

    def __init__(self, folder: str | Path, source: str, config: Config, command: str = "", layers: bool = True) -> None:
        self.folder = Path(folder)
        self._layers = layers
        self._recorder = RunRecorder(source, config, command=command)
        self._objects: list[str] = []
        self._last: Result | None = None
        self._count = 0
        config.save(self.folder / "config.yaml")

    def add(self, result: Result) -> None:
        name = result.scan.name or f"{self._count:06d}"
        if self._layers:
            write_label(self.folder / "labels" / f"{name}.label", result.ground.label)
            arrays = {f"ground.{key}": value for key, value in frame_arrays(result.ground).items()}
            if result.occupancy is not None:
                arrays |= {f"occupancy.{key}": value for key, value in frame_arrays(result.occupancy).items()}
            write_arrays(self.folder / "layers" / f"{name}.npz", arrays)
        if result.occupancy is not None:
            self._objects += [json.dumps(record) for record in _object_records(name, result)]
        self._recorder.add(result.scan, result.ground, result.occupancy, result.seconds)
        self._last = result
        self._count += 1

    def finish(self, pictures: Iterable[Picture] = ()) -> RunSummary:
        """Write objects, the last frame's picture and the report; returns what the report shows."""
        files = ["config.yaml"]
        if self._layers and self._count:
            files += ["labels/", "layers/"]
        if self._objects:
            with atomic_write(self.folder / "objects.jsonl") as file:
                file.write("".join(line + "\n" for line in self._objects).encode())
            files.append("objects.jsonl")
        shown = tuple(pictures)
        if self._last is not None:
            picture = self.folder / "last-frame.png"
            save_frame_picture(picture, self._last.ground, self._last.occupancy)
            shown = (Picture("The last frame", picture.read_bytes()), *shown)
            files.append(picture.name)
        summary = self._recorder.summary(pictures=shown, files=tuple(files))
        write_report(self.folder / "report.html", summary)
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
        }
