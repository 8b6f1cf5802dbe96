# SPDX-License-Identifier: Apache-2.0
"""The report of many drives: scores of each, the worst frames with their pictures, the slowest stages, what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import numpy as np

from roadbed.io.atomic import atomic_write
from roadbed.outputs.report.page import filled_page, gallery, percent, table, tile_row
from roadbed.outputs.report.summary import Picture

_NO_SLIDES = '<script type="application/json" id="slides">[]</script>'


@dataclass(frozen=True)
class DriveEntry:
    """One drive in numbers."""

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
    drives: Sequence[DriveEntry]
    failures: Mapping[str, str]  # drive: reason
    worst: Sequence[Picture] = ()
    remarks: Sequence[tuple[str, str]] = ()  # further lines of what was run
    made: datetime = field(default_factory=lambda: datetime.now(UTC))


def write_collection(path: Path, found: Collection) -> None:
    """Write the page; it appears whole or not at all."""
    with atomic_write(path) as file:
        file.write(_html(found).encode())


def _html(found: Collection) -> str:
    frames = sum(drive.frames for drive in found.drives)
    failed = f", {len(found.failures)} failed" if found.failures else ""
    pictures = f"<h2>The worst frames</h2>{gallery(found.worst)}" if found.worst else ""
    return filled_page(
        title=escape(found.title),
        lead=f"{len(found.drives):,} drives complete{failed}, {frames:,} frames",
        tiles=tile_row(_tiles(found)),
        slider=_NO_SLIDES + _failures(found),
        run=table((), [("command", found.command), *found.remarks]),
        timings=_stages(found),
        accuracy=_scores(found),
        pictures=pictures,
        rows_title="Drives",
        rows=f'<div class="scroll">{_drives(found)}</div>',
        configuration=escape(found.configuration),
        files=_reports(found),
        made=found.made,
    )


def _tiles(found: Collection) -> list[tuple[str, str]]:
    tiles = [(f"{len(found.drives):,}", "drives complete"), (f"{len(found.failures):,}", "drives failed")]
    tiles.append((f"{sum(drive.points for drive in found.drives):,}", "points"))
    processor, frames = sum(d.processor_s for d in found.drives), sum(d.frames for d in found.drives)
    if frames:
        tiles.append((f"{1e3 * processor / frames:.1f} ms", "processor time per frame, with all that is written"))
    scores = [score for drive in found.drives if (score := drive.scores.get("F1")) is not None]
    if scores:
        tiles.append((percent(float(np.mean(scores))), "F1 of the ground, mean over drives"))
    return tiles


def _failures(found: Collection) -> str:
    rows = sorted(found.failures.items())
    return f"<h2>What failed</h2>{table(('drive', 'reason'), rows)}" if rows else ""


def _stages(found: Collection) -> str:
    stages = list(dict.fromkeys(stage for drive in found.drives for stage in drive.stage_seconds))
    totals = {stage: sum(drive.stage_seconds.get(stage, 0.0) for drive in found.drives) for stage in stages}
    if not totals:
        return "<p>No timings were taken.</p>"
    whole = max(sum(totals.values()), 1e-9)
    rows = []
    for stage in sorted(stages, key=lambda name: -totals[name]):
        slowest = max(found.drives, key=lambda drive: drive.median_ms.get(stage, 0.0))
        medians = [drive.median_ms[stage] for drive in found.drives if stage in drive.median_ms]
        share = f"{100 * totals[stage] / whole:.0f} %"
        slow = f"{slowest.median_ms.get(stage, 0.0):.2f}"
        rows.append((stage, f"{totals[stage]:.1f}", share, f"{np.median(medians):.2f}", slow, slowest.name))
    head = ("stage, slowest first", "s in all", "share", "median ms per frame", "of the slowest drive", "which is")
    return table(head, rows)


def _scores(found: Collection) -> str:
    scored = [drive for drive in found.drives if any(value is not None for value in drive.scores.values())]
    if not scored:
        return ""
    names = list(scored[0].scores)
    scored.sort(key=lambda drive: (drive.scores.get("F1") or 0.0, drive.name))
    rows = [(drive.name, str(drive.frames), *(_score(drive, name) for name in names)) for drive in scored]
    head = ("drive, worst first", "frames", *(f"{name} %" for name in names))
    return f"<h2>Accuracy</h2><p>Ground labels against the truth, mean over frames.</p>{table(head, rows)}"


def _score(drive: DriveEntry, name: str) -> str:
    value = drive.scores.get(name)
    return percent(np.nan if value is None else value).removesuffix(" %")


def _drives(found: Collection) -> str:
    head = ("drive", "source", "frames", "points", "frames with diagnostics", "processor s")
    rows = [
        (d.name, d.source, str(d.frames), f"{d.points:,}", str(d.diagnostics), f"{d.processor_s:.1f}")
        for d in found.drives
    ]
    return table(head, rows)


def _reports(found: Collection) -> str:
    items = "".join(f'<li><a href="{escape(d.report)}">{escape(d.name)}</a></li>' for d in found.drives)
    return f"<h2>Reports of the drives</h2><ul>{items}</ul>" if items else ""
