# SPDX-License-Identifier: Apache-2.0
"""The report of a batch, from the manifests of its sequences."""

from collections.abc import Mapping, Sequence
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np

from roadbed.batch.job import Job, Progress
from roadbed.batch.manifest import RUN, SequenceManifest, read_json
from roadbed.batch.sequences import InputSequence
from roadbed.io.atomic import write_file
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.images import quick_image
from roadbed.outputs.report import FrameRecord, ReportImage
from roadbed.outputs.report.page import filled_page, gallery, links, percent, table
from roadbed.outputs.report.recorder import webp_bytes
from roadbed.pipeline import Result

KEPT = 2  # frames of a sequence
FOLDER = "lowest"
_MOST_IMAGES = 12


class LowestFrames:
    """`add` each result; the lowest-scoring ones stay in memory until they are drawn."""

    def __init__(self) -> None:
        self._kept: list[tuple[dict[str, Any], Result]] = []

    def add(self, record: FrameRecord, result: Result) -> None:
        f1 = record.scores.get("F1", nan)
        entry = {"frame": record.index, "F1": None if isnan(f1) else round(f1, 3), "diagnostics": [*record.diagnostics]}
        if not isnan(f1) or record.diagnostics:
            self._kept = sorted([*self._kept, (entry, result)], key=lambda kept: by_score(kept[0]))[:KEPT]

    def write(self, out: OutputFolder, drawn: Mapping[int, bytes]) -> list[dict[str, Any]]:
        """lowest/FRAME.webp of each, drawn unless `drawn` has it; returns their entries for the manifest."""
        for entry, result in self._kept:
            entry["picture"] = f"{FOLDER}/{entry['frame']:06d}.webp"
            data = drawn.get(entry["frame"]) or webp_bytes(quick_image(result.ground, result.occupancy))
            write_file(out.file(entry["picture"]), data)
        return [entry for entry, _ in self._kept]


def by_score(entry: Mapping[str, Any]) -> tuple[float, int, int]:
    """Sort key: lowest score first, then frames without a score."""
    return (101.0 if entry["F1"] is None else entry["F1"], -len(entry["diagnostics"]), entry["frame"])


class _Entry(NamedTuple):
    """A complete sequence: what it holds, and the times of its run."""

    manifest: SequenceManifest
    run: Mapping[str, Any]


def write_batch_report(job: Job, complete: Sequence[InputSequence], progress: Progress) -> None:
    """report.html over every complete sequence of this call, also those that were kept."""
    folders = [job.of(sequence) for sequence in complete]
    read = [(SequenceManifest.read(folder), read_json(folder / RUN)) for folder in folders]
    entries = [_Entry(manifest, run) for manifest, run in read if manifest is not None]
    frames = sum(entry.manifest.frames for entry in entries)
    failed = f", {len(progress.failures)} failed" if progress.failures else ""
    failures = table(("sequence", "reason"), sorted(progress.failures.items()))
    page = filled_page(
        title="Batch",
        lead=f"{len(entries):,} sequences complete{failed}, {frames:,} frames",
        tiles=_tiles(entries, progress),
        sections={
            "What failed": failures if progress.failures else "",
            "What was run": table((), [("command", job.command), *_remarks(job, progress)]),
            "Time per stage": _stages(entries),
            "Accuracy": _scores(entries),
            "The lowest frames": gallery(_lowest_images(job, entries)),
            "Sequences": f'<div class="scroll">{_sequences(entries)}</div>',
            "Reports of the sequences": links(
                (entry.manifest.name, f"sequences/{entry.manifest.name}/report.html") for entry in entries
            ),
        },
        configuration=job.config.dumps(),
    )
    write_file(job.folder / "report.html", page)


def _remarks(job: Job, progress: Progress) -> list[tuple[str, str]]:
    remarks = [
        ("sequences", f"{progress.done} done, {progress.kept} kept from before, {progress.left} not done"),
        ("workers lost and replaced", str(progress.retries)),
        ("long-term map", progress.map_failure or ("map/" if job.map and not progress.stopped else "none")),
    ]
    return [*remarks, ("stopped early", progress.stopped)] if progress.stopped else remarks


def _lowest_images(job: Job, entries: Sequence[_Entry]) -> list[ReportImage]:
    lowest = [(by_score(frame), entry.manifest.name, frame) for entry in entries for frame in entry.manifest.lowest]
    images = []
    for _, name, frame in sorted(lowest, key=lambda found: found[:2])[:_MOST_IMAGES]:
        score = f", F1 {frame['F1']:.2f} %" if frame["F1"] is not None else ""
        caption = "; ".join([f"{name}, frame {frame['frame']}{score}", *frame["diagnostics"]])
        image = job.sequences / name / frame["picture"]
        if image.is_file():
            images.append(ReportImage(caption, image.read_bytes(), "webp"))
    return images


def _tiles(entries: Sequence[_Entry], progress: Progress) -> list[tuple[str, str]]:
    tiles = [(f"{len(entries):,}", "sequences complete"), (f"{len(progress.failures):,}", "sequences failed")]
    tiles.append((f"{sum(entry.manifest.points for entry in entries):,}", "points"))
    processor = sum(entry.run.get("processor_s", 0.0) for entry in entries)
    frames = sum(entry.manifest.frames for entry in entries)
    if frames:
        tiles.append((f"{1e3 * processor / frames:.1f} ms", "processor time per frame, with all that is written"))
    scores = [score for entry in entries if (score := entry.manifest.scores.get("F1")) is not None]
    if scores:
        tiles.append((percent(float(np.mean(scores))), "F1 of the ground, mean over sequences"))
    return tiles


def _stages(entries: Sequence[_Entry]) -> str:
    totals: dict[str, float] = {}
    for entry in entries:
        for stage, seconds in entry.run.get("stage_seconds", {}).items():
            totals[stage] = totals.get(stage, 0.0) + seconds
    if not totals:
        return "<p>No timings were taken.</p>"
    rows = []
    for stage, total in sorted(totals.items(), key=lambda item: -item[1]):
        medians = {entry.manifest.name: entry.run.get("median_ms", {}).get(stage, 0.0) for entry in entries}
        known = [ms for entry in entries if (ms := entry.run.get("median_ms", {}).get(stage)) is not None]
        slowest = max(medians, key=lambda name: medians[name])
        share = f"{100 * total / max(sum(totals.values()), 1e-9):.0f} %"
        rows.append((stage, f"{total:.1f}", share, f"{np.median(known):.2f}", f"{medians[slowest]:.2f}", slowest))
    head = ("stage, slowest first", "s in all", "share", "median ms per frame", "of the slowest sequence", "which is")
    return table(head, rows)


def _scores(entries: Sequence[_Entry]) -> str:
    scored = [entry.manifest for entry in entries if any(v is not None for v in entry.manifest.scores.values())]
    if not scored:
        return ""
    scored.sort(key=lambda manifest: (manifest.scores.get("F1") or 0.0, manifest.name))
    names = list(scored[0].scores)
    rows = [(one.name, str(one.frames), *(_percent(one.scores.get(name)) for name in names)) for one in scored]
    head = ("sequence, lowest first", "frames", *(f"{name} %" for name in names))
    return f"<p>Ground labels against the truth, mean over frames.</p>{table(head, rows)}"


def _percent(value: float | None) -> str:
    return percent(nan if value is None else value).removesuffix(" %")


def _sequences(entries: Sequence[_Entry]) -> str:
    head = ("sequence", "source", "frames", "points", "frames with diagnostics", "processor s")
    rows = [
        (one.name, one.source, str(one.frames), f"{one.points:,}", str(one.diagnostics), f"{seconds:.1f}")
        for one, seconds in ((entry.manifest, entry.run.get("processor_s", 0.0)) for entry in entries)
    ]
    return table(head, rows)
