# SPDX-License-Identifier: Apache-2.0
"""The report of a batch, from what the drives' manifests say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roadbed.batch.drives import Drive
from roadbed.batch.job import Job
from roadbed.batch.manifest import DriveManifest, read_run
from roadbed.batch.outcome import Progress
from roadbed.batch.worst import badness
from roadbed.outputs.report import Picture
from roadbed.outputs.report.collection import Collection, DriveEntry, write_collection

_MOST_PICTURES = 12


def write_batch_report(job: Job, complete: Sequence[Drive], progress: Progress) -> Path:
    """report.html over every complete drive of this call, also those that were kept."""
    entries, worst = [], []
    for drive in complete:
        known, run = DriveManifest.read(job.of(drive)), read_run(job.of(drive))
        if known is None:
            continue
        entries.append(
            DriveEntry(
                drive.name,
                drive.location,
                f"drives/{drive.name}/report.html",
                known.frames,
                known.points,
                known.diagnostics,
                known.scores,
                run.get("stage_seconds", {}),
                run.get("median_ms", {}),
                run.get("processor_s", 0.0),
            )
        )
        worst += [(badness(entry), drive.name, entry) for entry in known.worst]
    pictures = []
    for _, name, entry in sorted(worst, key=lambda found: found[:2])[:_MOST_PICTURES]:
        score = f", F1 {entry['F1']:.2f} %" if entry["F1"] is not None else ""
        caption = "; ".join([f"{name}, frame {entry['frame']}{score}", *entry["diagnostics"]])
        picture = job.drives / name / entry["picture"]
        if picture.is_file():
            pictures.append(Picture(caption, picture.read_bytes(), "webp"))
    remarks = [
        ("drives", f"{progress.done} done, {progress.kept} kept from before, {progress.left} not done"),
        ("workers lost and replaced", str(progress.retries)),
        ("long-term map", progress.map_failure or ("map/" if job.map and not progress.stopped else "not asked for")),
    ]
    if progress.stopped:
        remarks.append(("stopped early", progress.stopped))
    path = job.folder / "report.html"
    configuration = job.config.dumps()
    write_collection(
        path, Collection("Batch", job.command, configuration, entries, progress.failures, pictures, remarks)
    )
    return path
