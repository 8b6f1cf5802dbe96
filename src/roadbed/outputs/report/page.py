# SPDX-License-Identifier: Apache-2.0
"""Fills the page of the report; every value from outside is escaped."""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from roadbed import __version__
from roadbed.io.atomic import write_file
from roadbed.outputs.report import charts
from roadbed.outputs.report.summary import FrameRecord, ReportImage, RunSummary


def write_report(path: str | Path, run: RunSummary) -> Path:
    """Write the page; it appears whole or not at all."""
    write_file(path, report_html(run))
    return Path(path)


def report_html(run: RunSummary) -> str:
    points = sum(frame.points for frame in run.frames)
    return filled_page(
        title=escape(run.title),
        lead=f"{len(run.frames):,} frames, {points:,} points, from <code>{escape(run.source)}</code>",
        tiles=_tiles(run),
        slider=_slider(run),
        run=table((), [("source", run.source), ("command", run.command or "-"), ("machine", run.machine)]),
        timings=_timings(run),
        accuracy=_accuracy(run),
        pictures=f"<h2>Pictures</h2>{gallery(run.images)}" if run.images else "",
        rows_title="Frames",
        rows=_frames(run),
        configuration=escape(run.configuration),
        files=links("Files", [(name, name) for name in run.files]),
        made=run.made,
    )


def filled_page(*, made: datetime, **sections: str) -> str:
    """The page with its sections, HTML each."""
    page = Template(files("roadbed.outputs.report").joinpath("page.html").read_text(encoding="utf-8"))
    sections = {"configuration_note": "every parameter of this run, as YAML", **sections}
    return page.substitute(sections, version=escape(__version__), made=made.strftime("%Y-%m-%d %H:%M UTC"))


def _tiles(run: RunSummary) -> str:
    tiles = []
    if run.frames:
        totals = [1e3 * sum(frame.seconds.values()) for frame in run.measured()]
        tiles.append((f"{np.median(totals):.1f} ms", "median per frame"))
        tiles.append((f"{np.median([frame.points for frame in run.frames]):,.0f}", "points per frame"))
        ground = np.mean([frame.shares.get("ground", 0.0) for frame in run.frames])
        tiles.append((f"{100 * ground:.0f} %", "of the points are ground"))
    scores = run.mean_scores()
    tiles += [(percent(scores[name]), f"{name} of the ground") for name in ("F1", "IoU") if name in scores]
    objects = [frame.objects for frame in run.frames if frame.objects is not None]
    if objects:
        tiles.append((str(max(objects)), "moving objects at once, at most"))
    return tile_row(tiles)


def tile_row(tiles: Iterable[tuple[str, str]]) -> str:
    """Large numbers, each with its name."""
    return "".join(f'<div class="tile"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in tiles)


def _slider(run: RunSummary) -> str:
    slides = [
        {
            "index": slide.index,
            "image": data_url(slide.data, "webp"),
            "text": slide_text(run.frames[slide.index]),
        }
        for slide in run.slides
    ]
    busiest = max(range(len(slides)), key=lambda i: run.frames[run.slides[i].index].objects or 0, default=0)
    return slider("The run, frame by frame", slides, busiest, slide_key(run))


def slider(title: str, slides: Sequence[Mapping[str, Any]], first: int, key: str, wipe: str = "") -> str:
    """Images of frames to step through, opened at `first`; `wipe` is a control that divides two images of a frame."""
    # `<` is written as an escape so that no text can end the script element.
    data = json.dumps(slides).replace("<", "\\u003c")
    script = f'<script type="application/json" id="slides">{data}</script>'
    if not slides:
        return script
    image = escape(str(slides[first]["image"]))
    second = f'<img id="other" src="{escape(str(slides[first]["other"]))}" alt=""><i></i>' if wipe else ""
    return f"""<h2>{escape(title)}</h2>
<figure><div class="pair"><img id="slide" src="{image}" alt="">{second}</div>
<figcaption>{key}</figcaption></figure>
{wipe}<div class="player"><button id="play" type="button">Play</button>
<input id="seek" type="range" min="0" max="{len(slides) - 1}" value="{first}" aria-label="frame">
<output id="which"></output></div>
<p class="lead no-print">Arrow keys step, space plays, Home and End jump.</p>
{script}"""


def slide_text(frame: FrameRecord) -> str:
    score = f", F1 {percent(frame.scores['F1'])}" if "F1" in frame.scores else ""
    return f"frame {frame.index}{score}"


def slide_key(run: RunSummary) -> str:
    from roadbed.outputs.images import palette

    entries = [("ground", palette.GROUND), ("obstacle", palette.OBSTACLE), ("overhang", palette.OVERHANG)]
    entries.append(("elevation, paler where uncertain", palette.SURFACE))
    if any(frame.objects is not None for frame in run.frames):
        entries += [("static", palette.STATIC), ("moving", palette.MOVING), ("not seen", palette.UNSEEN)]
    return f'<span class="key">{charts.swatches(entries)}</span>'


def _timings(run: RunSummary) -> str:
    stages = run.stages()
    if not stages:
        return "<p>No timings were taken.</p>"
    steady = {stage: run.steady_milliseconds(stage) for stage in stages}
    if len(stages) > 1:
        steady["all"] = np.sum([*steady.values()], axis=0)
    rows = [
        (stage, *(f"{number:.2f}" for number in (np.median(v), np.percentile(v, 95), v.max())))
        for stage, v in steady.items()
    ]
    times = table(("stage", "median ms", "95th percentile ms", "longest ms"), rows)
    bars = charts.stacked_bars(stages, [run.milliseconds(stage) for stage in stages], "ms", "frame")
    return charts.key(stages) + bars + times + f"<p>{_left_out(run)}</p>"


def _left_out(run: RunSummary) -> str:
    """Which frames the table of times leaves out, and why."""
    warming = [str(frame.index) for frame in run.frames if frame.warming]
    if len(warming) == len(run.frames):
        return "Kernels were compiled or loaded in every frame of this short run; the table includes that."
    if not warming:
        return "The table counts every frame."
    which = f"frames {', '.join(warming[:-1])} and {warming[-1]}" if len(warming) > 1 else f"frame {warming[0]}"
    return f"The table leaves out {which}, in which kernels were compiled or loaded."


def _accuracy(run: RunSummary) -> str:
    scores = run.mean_scores()
    if not scores:
        return ""
    frames = sum(1 for frame in run.frames if frame.scores)
    against = f"Ground labels against the truth of {frames} frames, patchwork++ protocol, mean over frames."
    out = f"<h2>Accuracy</h2><p>{escape(against)}</p>"
    names = ["F1", "IoU"]
    values = [np.array([frame.scores.get(name, np.nan) for frame in run.frames]) for name in names]
    if np.isfinite(values).sum() > len(names):
        out += charts.key(names) + charts.lines(names, values, "%", "frame")
    return out + table(("measure", "value"), [(f"{name} of the ground", percent(v)) for name, v in scores.items()])


def gallery(images: Iterable[ReportImage]) -> str:
    """Images below each other, with their captions."""
    return "".join(
        f'<figure><img src="{data_url(image.data, image.kind)}" alt="{escape(image.caption)}">'
        f"<figcaption>{escape(image.caption)}</figcaption></figure>"
        for image in images
    )


def _frames(run: RunSummary) -> str:
    stages = run.stages()
    labels = ("ground", "obstacle", "overhang", "unknown")
    head = (
        "frame",
        "name",
        "points",
        *(f"{name} %" for name in labels),
        *(f"{stage} ms" for stage in stages),
        "F1 %",
        "diagnostics",
    )
    rows = []
    for frame in run.frames:
        shares = [f"{100 * frame.shares.get(name, 0.0):.1f}" for name in labels]
        times = [f"{1e3 * frame.seconds[stage]:.2f}" if stage in frame.seconds else "-" for stage in stages]
        score = percent(frame.scores.get("F1", np.nan)).removesuffix(" %")
        rows.append(
            (str(frame.index), frame.name, f"{frame.points:,}", *shares, *times, score, "; ".join(frame.diagnostics))
        )
    return f'<div class="scroll">{table(head, rows)}</div>'


def links(title: str, targets: Iterable[tuple[str, str]]) -> str:
    """A list of links by name and address; nothing without links."""
    items = "".join(f'<li><a href="{escape(address)}">{escape(name)}</a></li>' for name, address in targets)
    return f"<h2>{title}</h2><ul>{items}</ul>" if items else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def cell(tag: str, text: str) -> str:
        numeric = tag == "td" and text.replace(",", "").replace(".", "").removesuffix(" %").lstrip("-").isdigit()
        return f"<{tag}{' class=number' if numeric else ''}>{escape(text)}</{tag}>"

    first = f"<thead><tr>{''.join(cell('th', name) for name in head)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{''.join(cell('td', value) for value in row)}</tr>" for row in rows)
    return f'<div class="wide"><table>{first}<tbody>{body}</tbody></table></div>'


def percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f} %"


def data_url(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{b64encode(data).decode()}"
