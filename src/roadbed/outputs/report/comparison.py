# SPDX-License-Identifier: Apache-2.0
"""The report on two configurations: both results of each frame under one slider, and the numbers next to each other."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.io.atomic import write_file
from roadbed.outputs.report.page import data_url, filled_page, percent, run_rows, slide_key, slider, table
from roadbed.outputs.report.recorder import RunRecorder
from roadbed.pipeline import Result

_VIEW = (1100, 420)  # px of one view
_WIPE = """<div class="player"><span>A</span>
<input id="wipe" type="range" min="0" max="100" value="50" aria-label="left of this A, right of it B">
<span>B</span></div>
"""


class Comparison:
    """`add` both results of each scan, then `write` the page."""

    def __init__(self, source: str, names: tuple[str, str], configs: tuple[Config, Config], command: str) -> None:
        a, b = (config.model_dump(mode="json") for config in configs)
        self._names, self._parameters = names, differences(a, b)
        self._runs = [RunRecorder(source, config, command=command, draw=_stacked) for config in configs]
        self._differ: list[int] = []  # labels, per frame

    def add(self, first: Result, second: Result) -> None:
        self._differ.append(int(np.count_nonzero(first.ground.label != second.ground.label)))
        for run, result in zip(self._runs, (first, second)):
            run.add(result)

    def facts(self) -> dict[str, Any]:
        """The figures of both, for --json."""
        points = sum(frame.points for frame in self._runs[0].frames)
        return {
            "frames": len(self._differ),
            "labels_that_differ": sum(self._differ),
            "labels_that_differ_percent": round(100 * sum(self._differ) / max(points, 1), 3),
            "parameters": self._parameters,
            "median_ms": [_median_ms(run) for run in self._runs],
            "scores": [{name: round(value, 3) for name, value in run.mean_scores().items()} for run in self._runs],
        }

    def write(self, path: Path) -> None:
        """Write the page; it appears whole or not at all."""
        (a, b), facts = self._runs, self.facts()
        scores = {name: (value, b.mean_scores().get(name, np.nan)) for name, value in a.mean_scores().items()}
        tiles = [(f"{facts['labels_that_differ_percent']:.2f} %", "of the labels differ")]
        tiles += [(" / ".join(map(percent, scores["F1"])), "F1 of the ground, A and B")] if "F1" in scores else []
        tiles += [(" / ".join(f"{ms:.1f}" for ms in facts["median_ms"]) + " ms", "median per frame, A and B")]
        changed = [(name, *map(str, values)) for name, values in facts["parameters"].items()]
        names = [f"{letter}: {name}" for letter, name in zip("AB", self._names)]
        what = table(("parameter", *names), changed or [("none: both configurations are equal", "", "")])
        stages = [(stage, *(f"{run.median_ms()[stage]:.2f}" for run in (a, b))) for stage in a.stages()]
        rows = [(name, *map(percent, pair)) for name, pair in scores.items()]
        page = filled_page(
            title=f"{a.title}: A and B",
            lead=f"{len(a.frames):,} frames from <code>{escape(a.source)}</code>, each with two configurations",
            tiles=tiles,
            sections={
                "What differs": what,
                "Left A, right B": self._slides(a, b),
                "What was run": table((), run_rows(a)),
                "Time per stage": table(("stage", "A, median ms", "B, median ms"), stages),
                "Accuracy": table(("ground", "A", "B"), rows) if rows else "",
                "Frames": self._frames(a, b),
            },
            configuration=b.config.dumps(),
            whose="B",
        )
        write_file(path, page)

    def _slides(self, a: RunRecorder, b: RunRecorder) -> str:
        """Opened at the frame in which most labels differ."""
        slides: list[dict[str, Any]] = [
            {
                "index": index,
                "image": data_url(image, "webp"),
                "other": data_url(b.slides[index], "webp"),
                "text": f"frame {index}, {self._differ[index]:,} labels differ",
            }
            for index, image in a.slides.items()
        ]
        first = max(range(len(slides)), key=lambda i: self._differ[slides[i]["index"]], default=0)
        return slider(slides, first, slide_key(a), _WIPE)

    def _frames(self, a: RunRecorder, b: RunRecorder) -> str:
        rows = []
        for one, other, differ in zip(a.frames, b.frames, self._differ):
            ground = [f"{100 * frame.shares['ground']:.1f}" for frame in (one, other)]
            scores = [percent(frame.scores.get("F1", np.nan)).removesuffix(" %") for frame in (one, other)]
            rows.append((str(one.index), one.name, f"{one.points:,}", f"{differ:,}", *ground, *scores))
        head = ("frame", "name", "points", "labels that differ", "ground % A", "ground % B", "F1 % A", "F1 % B")
        return f'<div class="scroll">{table(head, rows)}</div>'


def differences(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """Values by dotted name that differ between two nested mappings with the same keys."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, value in a.items():
        if isinstance(value, Mapping) and isinstance(b[name], Mapping):
            found |= differences(value, b[name], f"{prefix}{name}.")
        elif value != b[name]:
            found[f"{prefix}{name}"] = value, b[name]
    return found


def _median_ms(run: RunRecorder) -> float:
    return round(float(np.median([1e3 * sum(frame.seconds.values()) for frame in run.measured()])), 3)


def _stacked(ground: GroundFrame, occupancy: OccupancyFrame | None) -> NDArray[np.uint8]:
    """Ground above occupancy: a vertical line divides both."""
    from roadbed.outputs.images import quick_image

    image = quick_image(ground, occupancy, _VIEW)
    return np.vstack(np.split(image, image.shape[1] // _VIEW[0], axis=1))
