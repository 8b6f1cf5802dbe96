# SPDX-License-Identifier: Apache-2.0
"""The worst frames of a drive, with pictures: those that score lowest; without truth, those with most to note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan, nan
from typing import Any

from roadbed.io.atomic import atomic_write
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.pictures import quick_image
from roadbed.outputs.report import FrameRecord, Slide
from roadbed.outputs.report.summary import webp_bytes
from roadbed.pipeline import Result

KEPT = 2  # frames of a drive
FOLDER = "worst"


class WorstFrames:
    """`add` each result; the few worst stay in memory until they are drawn."""

    def __init__(self) -> None:
        self._kept: list[tuple[dict[str, Any], Result]] = []

    def add(self, record: FrameRecord, result: Result) -> None:
        f1 = record.scores.get("F1", nan)
        entry = {"frame": record.index, "F1": None if isnan(f1) else round(f1, 3), "diagnostics": [*record.diagnostics]}
        if not isnan(f1) or record.diagnostics:
            self._kept = sorted([*self._kept, (entry, result)], key=lambda kept: badness(kept[0]))[:KEPT]

    def write(self, out: OutputFolder, slides: Iterable[Slide]) -> list[dict[str, Any]]:
        """worst/FRAME.webp of each, drawn unless a slide shows it already; returns what the manifest says of them."""
        drawn = {slide.index: slide.data for slide in slides}
        for entry, result in self._kept:
            entry["picture"] = f"{FOLDER}/{entry['frame']:06d}.webp"
            data = drawn.get(entry["frame"]) or webp_bytes(quick_image(result.ground, result.occupancy))
            with atomic_write(out.file(entry["picture"])) as file:
                file.write(data)
        return [entry for entry, _ in self._kept]


def badness(entry: Mapping[str, Any]) -> tuple[float, int, int]:
    """Worst first; frames that have no score come after those that have."""
    return (101.0 if entry["F1"] is None else entry["F1"], -len(entry["diagnostics"]), entry["frame"])


def worst_of(entries: Iterable[Mapping[str, Any]], count: int = KEPT) -> list[Mapping[str, Any]]:
    return sorted(entries, key=badness)[:count]
