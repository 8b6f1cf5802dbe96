# SPDX-License-Identifier: Apache-2.0
"""The report of a batch, from the manifests of its sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from typing import Any

from roadbed.batch.job import Job, Progress
from roadbed.batch.manifest import RUN, SequenceManifest, read_json
from roadbed.batch.sequences import InputSequence
from roadbed.io.atomic import write_file
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.images import quick_image
from roadbed.outputs.report import FrameRecord, ReportImage, Slide
from roadbed.outputs.report.collection import Collection, SequenceEntry, write_collection
from roadbed.outputs.report.summary import webp_bytes
from roadbed.pipeline import Result

KEPT = 2  # frames of a sequence
FOLDER = "lowest"


class LowestFrames:
    """`add` each result; the lowest-scoring ones stay in memory until they are drawn."""

    def __init__(self) -> None:
        self._kept: list[tuple[dict[str, Any], Result]] = []

    def add(self, record: FrameRecord, result: Result) -> None:
        f1 = record.scores.get("F1", nan)
        entry = {"frame": record.index, "F1": None if isnan(f1) else round(f1, 3), "diagnostics": [*record.diagnostics]}
        if not isnan(f1) or record.diagnostics:
            self._kept = sorted([*self._kept, (entry, result)], key=lambda kept: by_score(kept[0]))[:KEPT]

    def write(self, out: OutputFolder, slides: Iterable[Slide]) -> list[dict[str, Any]]:
        """lowest/FRAME.webp of each, drawn unless a slide shows it already; returns their entries for the manifest."""
        drawn = {slide.index: slide.data for slide in slides}
        for entry, result in self._kept:
            entry["picture"] = f"{FOLDER}/{entry['frame']:06d}.webp"
            data = drawn.get(entry["frame"]) or webp_bytes(quick_image(result.ground, result.occupancy))
            write_file(out.file(entry["picture"]), data)
        return [entry for entry, _ in self._kept]


def by_score(entry: Mapping[str, Any]) -> tuple[float, int, int]:
    """Sort key: lowest score first, then frames without a score."""
    return (101.0 if entry["F1"] is None else entry["F1"], -len(entry["diagnostics"]), entry["frame"])


def lowest_of(entries: Iterable[Mapping[str, Any]], count: int = KEPT) -> list[Mapping[str, Any]]:
    return sorted(entries, key=by_score)[:count]


_MOST_IMAGES = 12


def write_batch_report(job: Job, complete: Sequence[InputSequence], progress: Progress) -> Path:
    """report.html over every complete sequence of this call, also those that were kept."""
    entries, lowest = [], []
    for sequence in complete:
        known, run = SequenceManifest.read(job.of(sequence)), read_json(job.of(sequence) / RUN)
        if known is None:
            continue
        entries.append(
            SequenceEntry(
                sequence.name,
                sequence.location,
                f"sequences/{sequence.name}/report.html",
                known.frames,
                known.points,
                known.diagnostics,
                known.scores,
                run.get("stage_seconds", {}),
                run.get("median_ms", {}),
                run.get("processor_s", 0.0),
            )
        )
        lowest += [(by_score(entry), sequence.name, entry) for entry in known.lowest]
    images = []
    for _, name, entry in sorted(lowest, key=lambda found: found[:2])[:_MOST_IMAGES]:
        score = f", F1 {entry['F1']:.2f} %" if entry["F1"] is not None else ""
        caption = "; ".join([f"{name}, frame {entry['frame']}{score}", *entry["diagnostics"]])
        image = job.sequences / name / entry["picture"]
        if image.is_file():
            images.append(ReportImage(caption, image.read_bytes(), "webp"))
    remarks = [
        ("sequences", f"{progress.done} done, {progress.kept} kept from before, {progress.left} not done"),
        ("workers lost and replaced", str(progress.retries)),
        ("long-term map", progress.map_failure or ("map/" if job.map and not progress.stopped else "none")),
    ]
    if progress.stopped:
        remarks.append(("stopped early", progress.stopped))
    path = job.folder / "report.html"
    configuration = job.config.dumps()
    write_collection(path, Collection("Batch", job.command, configuration, entries, progress.failures, images, remarks))
    return path
