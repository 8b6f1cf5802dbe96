# SPDX-License-Identifier: Apache-2.0
"""The report on two configurations: both results of each frame under one slider, and the numbers next to each other."""

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.io.atomic import write_file
from roadbed.outputs.report.page import data_url, filled_page, percent, slide_key, slider, table, tile_row
from roadbed.outputs.report.summary import RunRecorder, RunSummary
from roadbed.pipeline import Result

_VIEW = (1100, 420)  # px of one view
_WIPE = """<div class="player"><span>A</span>
<input id="wipe" type="range" min="0" max="100" value="50" aria-label="left of this A, right of it B">
<span>B</span></div>
"""


class Comparison:
    """`add` both results of each scan, then `write` the page."""

    def __init__(self, source: str, names: tuple[str, str], configs: tuple[Config, Config], command: str) -> None:
        self._names, self._configs = names, configs
        self._recorders = [RunRecorder(source, config, command=command, draw=_stacked) for config in configs]
        self._differ: list[int] = []  # labels, per frame

    def add(self, first: Result, second: Result) -> None:
        self._differ.append(int(np.count_nonzero(first.ground.label != second.ground.label)))
        for recorder, result in zip(self._recorders, (first, second)):
            recorder.add(result.scan, result.ground, result.occupancy, result.timings)

    def facts(self) -> dict[str, Any]:
        """The figures of both, for --json."""
        runs = [recorder.summary() for recorder in self._recorders]
        points = sum(frame.points for frame in runs[0].frames)
        return {
            "frames": len(self._differ),
            "labels_that_differ": sum(self._differ),
            "labels_that_differ_percent": round(100 * sum(self._differ) / max(points, 1), 3),
            "parameters": {name: list(values) for name, values in differences(*self._configs).items()},
            "median_ms": [_median_ms(run) for run in runs],
            "scores": [{name: round(value, 3) for name, value in run.mean_scores().items()} for run in runs],
        }

    def write(self, path: Path) -> None:
        """Write the page; it appears whole or not at all."""
        a, b = (recorder.summary() for recorder in self._recorders)
        facts = self.facts()
        scores = {name: (value, b.mean_scores().get(name, np.nan)) for name, value in a.mean_scores().items()}
        tiles = [(f"{facts['labels_that_differ_percent']:.2f} %", "of the labels differ")]
        tiles += [(" / ".join(map(percent, scores["F1"])), "F1 of the ground, A and B")] if "F1" in scores else []
        tiles += [(" / ".join(f"{ms:.1f}" for ms in facts["median_ms"]) + " ms", "median per frame, A and B")]
        changed = [(name, *map(str, values)) for name, values in facts["parameters"].items()]
        names = [f"{letter}: {name}" for letter, name in zip("AB", self._names)]
        what = table(("parameter", *names), changed or [("none: both configurations are equal", "", "")])
        run = [("source", a.source), ("command", a.command), ("machine", a.machine)]
        stages = [
            (stage, *(f"{np.median(run.steady_milliseconds(stage)):.2f}" for run in (a, b))) for stage in a.stages()
        ]
        rows = [(name, *map(percent, pair)) for name, pair in scores.items()]
        page = filled_page(
            title=escape(f"{a.title}: A and B"),
            lead=f"{len(a.frames):,} frames from <code>{escape(a.source)}</code>, each with two configurations",
            tiles=tile_row(tiles),
            slider=f"<h2>What differs</h2>{what}" + self._slides(a, b),
            run=table((), run),
            timings=table(("stage", "A, median ms", "B, median ms"), stages),
            accuracy=f"<h2>Accuracy</h2>{table(('ground', 'A', 'B'), rows)}" if rows else "",
            pictures="",
            rows_title="Frames",
            rows=f'<div class="scroll">{self._frames(a, b)}</div>',
            configuration_note="every parameter of B, as YAML",
            configuration=escape(b.configuration),
            files="",
            made=a.made,
        )
        write_file(path, page)

    def _slides(self, a: RunSummary, b: RunSummary) -> str:
        """Opened at the frame in which most labels differ."""
        slides = [
            {
                "index": one.index,
                "image": data_url(one.data, "webp"),
                "other": data_url(other.data, "webp"),
                "text": f"frame {one.index}, {self._differ[one.index]:,} labels differ",
            }
            for one, other in zip(a.slides, b.slides)
        ]
        first = max(range(len(slides)), key=lambda i: self._differ[a.slides[i].index], default=0)
        return slider("Left A, right B", slides, first, slide_key(a), _WIPE)

    def _frames(self, a: RunSummary, b: RunSummary) -> str:
        rows = []
        for one, other, differ in zip(a.frames, b.frames, self._differ):
            ground = [f"{100 * frame.shares['ground']:.1f}" for frame in (one, other)]
            scores = [percent(frame.scores.get("F1", np.nan)).removesuffix(" %") for frame in (one, other)]
            rows.append((str(one.index), one.name, f"{one.points:,}", f"{differ:,}", *ground, *scores))
        head = ("frame", "name", "points", "labels that differ", "ground % A", "ground % B", "F1 % A", "F1 % B")
        return table(head, rows)


def differences(a: Config, b: Config) -> dict[str, tuple[Any, Any]]:
    """Parameters by dotted name that differ, with both values."""
    first, second = dict(_flat(a.model_dump(mode="json"))), dict(_flat(b.model_dump(mode="json")))
    names = dict.fromkeys([*first, *second])
    return {name: pair for name in names if (pair := (first.get(name), second.get(name)))[0] != pair[1]}


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _median_ms(run: RunSummary) -> float:
    return round(float(np.median([1e3 * sum(frame.seconds.values()) for frame in run.measured()])), 3)


def _stacked(ground: GroundFrame, occupancy: OccupancyFrame | None) -> NDArray[np.uint8]:
    """Ground above occupancy: a vertical line divides both."""
    from roadbed.outputs.images import quick_image

    image = quick_image(ground, occupancy, _VIEW)
    return np.vstack(np.split(image, image.shape[1] // _VIEW[0], axis=1))
