# SPDX-License-Identifier: Apache-2.0
"""The report of many sequences: scores, lowest-scoring frames with images, slowest stages, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import numpy as np

from roadbed.io.atomic import write_file
from roadbed.outputs.report.page import filled_page, gallery, links, percent, table, tile_row
from roadbed.outputs.report.summary import ReportImage

_NO_SLIDES = '<script type="application/json" id="slides">[]</script>'


@dataclass(frozen=True)
class SequenceEntry:
    """One sequence in numbers."""

    name: str
    source: str
    report: str  # its own, relative to this one
    frames: int
    points: int
    diagnostics: int
    scores: Mapping[str, float | None]
    stage_seconds: Mapping[str, float]
    median_ms: Mapping[str, float]
    processor_s: float


@dataclass(frozen=True)
class Collection:
    """Everything the report shows."""

    title: str
    command: str
    configuration: str
    sequences: Sequence[SequenceEntry]
    failures: Mapping[str, str]  # sequence: reason
    lowest: Sequence[ReportImage] = ()
    remarks: Sequence[tuple[str, str]] = ()  # further lines about the run
    made: datetime = field(default_factory=lambda: datetime.now(UTC))


def write_collection(path: Path, found: Collection) -> None:
    """Write the page; it appears whole or not at all."""
    write_file(path, _html(found))


def _html(found: Collection) -> str:
    frames = sum(sequence.frames for sequence in found.sequences)
    failed = f", {len(found.failures)} failed" if found.failures else ""
    images = f"<h2>The lowest frames</h2>{gallery(found.lowest)}" if found.lowest else ""
    return filled_page(
        title=escape(found.title),
        lead=f"{len(found.sequences):,} sequences complete{failed}, {frames:,} frames",
        tiles=tile_row(_tiles(found)),
        slider=_NO_SLIDES + _failures(found),
        run=table((), [("command", found.command), *found.remarks]),
        timings=_stages(found),
        accuracy=_scores(found),
        pictures=images,
        rows_title="Sequences",
        rows=f'<div class="scroll">{_sequences(found)}</div>',
        configuration=escape(found.configuration),
        files=links("Reports of the sequences", [(d.name, d.report) for d in found.sequences]),
        made=found.made,
    )


def _tiles(found: Collection) -> list[tuple[str, str]]:
    tiles = [(f"{len(found.sequences):,}", "sequences complete"), (f"{len(found.failures):,}", "sequences failed")]
    tiles.append((f"{sum(sequence.points for sequence in found.sequences):,}", "points"))
    processor, frames = sum(d.processor_s for d in found.sequences), sum(d.frames for d in found.sequences)
    if frames:
        tiles.append((f"{1e3 * processor / frames:.1f} ms", "processor time per frame, with all that is written"))
    scores = [score for sequence in found.sequences if (score := sequence.scores.get("F1")) is not None]
    if scores:
        tiles.append((percent(float(np.mean(scores))), "F1 of the ground, mean over sequences"))
    return tiles


def _failures(found: Collection) -> str:
    rows = sorted(found.failures.items())
    return f"<h2>What failed</h2>{table(('sequence', 'reason'), rows)}" if rows else ""


def _stages(found: Collection) -> str:
    stages = list(dict.fromkeys(stage for sequence in found.sequences for stage in sequence.stage_seconds))
    totals = {stage: sum(sequence.stage_seconds.get(stage, 0.0) for sequence in found.sequences) for stage in stages}
    if not totals:
        return "<p>No timings were taken.</p>"
    whole = max(sum(totals.values()), 1e-9)
    rows = []
    for stage in sorted(stages, key=lambda name: -totals[name]):
        slowest = max(found.sequences, key=lambda sequence: sequence.median_ms.get(stage, 0.0))
        medians = [sequence.median_ms[stage] for sequence in found.sequences if stage in sequence.median_ms]
        share = f"{100 * totals[stage] / whole:.0f} %"
        slow = f"{slowest.median_ms.get(stage, 0.0):.2f}"
        rows.append((stage, f"{totals[stage]:.1f}", share, f"{np.median(medians):.2f}", slow, slowest.name))
    head = ("stage, slowest first", "s in all", "share", "median ms per frame", "of the slowest sequence", "which is")
    return table(head, rows)


def _scores(found: Collection) -> str:
    scored = [sequence for sequence in found.sequences if any(value is not None for value in sequence.scores.values())]
    if not scored:
        return ""
    names = list(scored[0].scores)
    scored.sort(key=lambda sequence: (sequence.scores.get("F1") or 0.0, sequence.name))
    rows = [(sequence.name, str(sequence.frames), *(_score(sequence, name) for name in names)) for sequence in scored]
    head = ("sequence, lowest first", "frames", *(f"{name} %" for name in names))
    return f"<h2>Accuracy</h2><p>Ground labels against the truth, mean over frames.</p>{table(head, rows)}"


def _score(sequence: SequenceEntry, name: str) -> str:
    value = sequence.scores.get(name)
    return percent(np.nan if value is None else value).removesuffix(" %")


def _sequences(found: Collection) -> str:
    head = ("sequence", "source", "frames", "points", "frames with diagnostics", "processor s")
    rows = [
        (d.name, d.source, str(d.frames), f"{d.points:,}", str(d.diagnostics), f"{d.processor_s:.1f}")
        for d in found.sequences
    ]
    return table(head, rows)
