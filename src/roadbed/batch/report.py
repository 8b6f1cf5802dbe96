# SPDX-License-Identifier: Apache-2.0
"""The report of a batch, from the manifests of its sequences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roadbed.batch.job import Job, Progress
from roadbed.batch.lowest import by_score
from roadbed.batch.manifest import SequenceManifest, read_run
from roadbed.batch.sequences import InputSequence
from roadbed.outputs.report import Picture
from roadbed.outputs.report.collection import Collection, SequenceEntry, write_collection

_MOST_PICTURES = 12


def write_batch_report(job: Job, complete: Sequence[InputSequence], progress: Progress) -> Path:
    """report.html over every complete sequence of this call, also those that were kept."""
    entries, lowest = [], []
    for sequence in complete:
        known, run = SequenceManifest.read(job.of(sequence)), read_run(job.of(sequence))
        if known is None:
            continue
        entries.append(
            SequenceEntry(
                sequence.name,
                sequence.location,
                f"sequences/{sequence.name}/report.html",
                known.frames,
                known.points,
                known.notes,
                known.scores,
                run.get("stage_seconds", {}),
                run.get("median_ms", {}),
                run.get("processor_s", 0.0),
            )
        )
        lowest += [(by_score(entry), sequence.name, entry) for entry in known.lowest]
    pictures = []
    for _, name, entry in sorted(lowest, key=lambda found: found[:2])[:_MOST_PICTURES]:
        score = f", F1 {entry['F1']:.2f} %" if entry["F1"] is not None else ""
        caption = "; ".join([f"{name}, frame {entry['frame']}{score}", *entry["notes"]])
        picture = job.sequences / name / entry["picture"]
        if picture.is_file():
            pictures.append(Picture(caption, picture.read_bytes(), "webp"))
    remarks = [
        ("sequences", f"{progress.done} done, {progress.kept} kept from before, {progress.left} not done"),
        ("workers lost and replaced", str(progress.retries)),
        ("long-term map", progress.map_failure or ("map/" if job.map and not progress.stopped else "none")),
    ]
    if progress.stopped:
        remarks.append(("stopped early", progress.stopped))
    path = job.folder / "report.html"
    configuration = job.config.dumps()
    write_collection(
        path, Collection("Batch", job.command, configuration, entries, progress.failures, pictures, remarks)
    )
    return path
