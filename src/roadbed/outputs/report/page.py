# SPDX-License-Identifier: Apache-2.0
"""Writes the page of the report, every value from outside escaped, and reads its images again."""

import binascii
import json
import os
import platform
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape, unescape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed import __version__
from roadbed.core.errors import InputError
from roadbed.io.atomic import write_file
from roadbed.io.files import read_text
from roadbed.outputs.report import charts
from roadbed.outputs.report.recorder import ReportImage, RunRecorder

_TITLE = re.compile(r"<title>(.*) - Roadbed</title>")
_SLIDES = re.compile(r'<script type="application/json" id="slides">(.*?)</script>', re.DOTALL)
_CELLS = re.compile(r"<figcaption>.*moving.*</figcaption>")
_WEBP = "data:image/webp;base64,"
_LARGEST = 4096  # px along a side


def write_report(
    path: str | Path, run: RunRecorder, images: Sequence[ReportImage] = (), results: Iterable[str] = ()
) -> Path:
    """Write the page, with other images and links to the results next to it; it appears whole or not at all."""
    points = sum(frame.points for frame in run.frames)
    page = filled_page(
        title=run.title,
        lead=f"{len(run.frames):,} frames, {points:,} points, from <code>{escape(run.source)}</code>",
        tiles=_tiles(run),
        sections={
            "The run, frame by frame": _slider(run),
            "What was run": table((), run_rows(run)),
            "Time per stage": _timings(run),
            "Accuracy": _accuracy(run),
            "Pictures": gallery(images),
            "Frames": _frames(run),
            "Files": links((name, name) for name in results),
        },
        configuration=run.config.dumps(),
    )
    write_file(path, page)
    return Path(path)


def filled_page(
    *,
    title: str,
    lead: str,
    tiles: Iterable[tuple[str, str]],
    sections: Mapping[str, str],
    configuration: str,
    whose: str = "this run",
) -> str:
    """The page: large numbers with their names, and sections by their headings; empty ones are left out.

    `lead` and the sections are HTML, the rest is text.
    """
    page = Template(files("roadbed.outputs.report").joinpath("page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(title),
        lead=lead,
        tiles="".join(f'<div class="tile"><b>{escape(b)}</b><span>{escape(s)}</span></div>' for b, s in tiles),
        sections="\n".join(f"<h2>{escape(heading)}</h2>\n{part}" for heading, part in sections.items() if part),
        whose=whose,
        configuration=escape(configuration),
        version=escape(__version__),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def run_rows(run: RunRecorder) -> list[tuple[str, str]]:
    """What was run, and where."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return [("source", run.source), ("command", run.command or "-"), ("machine", machine)]


def _tiles(run: RunRecorder) -> list[tuple[str, str]]:
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
    return tiles


def _slider(run: RunRecorder) -> str:
    frames = [run.frames[index] for index in run.slides]
    slides = []
    for frame in frames:
        score = f", F1 {percent(frame.scores['F1'])}" if "F1" in frame.scores else ""
        image = data_url(run.slides[frame.index], "webp")
        slides.append({"index": frame.index, "image": image, "text": f"frame {frame.index}{score}"})
    busiest = max(range(len(slides)), key=lambda i: frames[i].objects or 0, default=0)
    return slider(slides, busiest, slide_key(run))


def slider(slides: Sequence[Mapping[str, Any]], first: int, key: str, wipe: str = "") -> str:
    """Images of frames to step through, opened at `first`; `wipe` is a control that divides two images of a frame."""
    if not slides:
        return ""
    data = json.dumps(slides).replace("<", "\\u003c")  # so that no text can end the script element
    image = escape(str(slides[first]["image"]))
    second = f'<img id="other" src="{escape(str(slides[first]["other"]))}" alt=""><i></i>' if wipe else ""
    return f"""<figure><div class="pair"><img id="slide" src="{image}" alt="">{second}</div>
<figcaption>{key}</figcaption></figure>
{wipe}<div class="player"><button id="play" type="button">Play</button>
<input id="seek" type="range" min="0" max="{len(slides) - 1}" value="{first}" aria-label="frame">
<output id="which"></output></div>
<p class="lead no-print">Arrow keys step, space plays, Home and End jump.</p>
<script type="application/json" id="slides">{data}</script>"""


def slide_key(run: RunRecorder) -> str:
    from roadbed.outputs.images import palette

    entries = [palette.LABELS[label] for label in palette.DRAWN_LABELS]
    entries.append(("elevation, paler where uncertain", palette.SURFACE))
    if any(frame.objects is not None for frame in run.frames):
        entries += [("static", palette.STATIC), ("moving", palette.MOVING), ("not seen", palette.UNSEEN)]
    return f'<span class="key">{charts.swatches(entries)}</span>'


def _timings(run: RunRecorder) -> str:
    stages = run.stages()
    if not stages:
        return "<p>No timings were taken.</p>"
    steady = {stage: run.milliseconds(stage, run.measured()) for stage in stages}
    if len(stages) > 1:
        steady["all"] = np.sum([*steady.values()], axis=0)
    rows = [
        (stage, *(f"{number:.2f}" for number in (np.median(v), np.percentile(v, 95), v.max())))
        for stage, v in steady.items()
    ]
    times = table(("stage", "median ms", "95th percentile ms", "longest ms"), rows)
    bars = charts.stacked_bars(stages, [run.milliseconds(stage) for stage in stages], "ms")
    return charts.key(stages) + bars + times + f"<p>{_left_out(run)}</p>"


def _left_out(run: RunRecorder) -> str:
    """Which frames the table of times leaves out, and why."""
    warming = [str(frame.index) for frame in run.frames if frame.warming]
    if len(warming) == len(run.frames):
        return "Kernels were compiled or loaded in every frame of this short run; the table includes that."
    if not warming:
        return "The table counts every frame."
    which = f"frames {', '.join(warming[:-1])} and {warming[-1]}" if len(warming) > 1 else f"frame {warming[0]}"
    return f"The table leaves out {which}, in which kernels were compiled or loaded."


def _accuracy(run: RunRecorder) -> str:
    scores = run.mean_scores()
    if not scores:
        return ""
    frames = sum(1 for frame in run.frames if frame.scores)
    against = f"Ground labels against the truth of {frames} frames, patchwork++ protocol, mean over frames."
    out = f"<p>{escape(against)}</p>"
    names = ["F1", "IoU"]
    values = [np.array([frame.scores.get(name, np.nan) for frame in run.frames]) for name in names]
    if np.isfinite(values).sum() > len(names):
        out += charts.key(names) + charts.lines(names, values, "%")
    return out + table(("measure", "value"), [(f"{name} of the ground", percent(v)) for name, v in scores.items()])


def gallery(images: Iterable[ReportImage]) -> str:
    """Images below each other, with their captions."""
    return "".join(
        f'<figure><img src="{data_url(image.data, image.kind)}" alt="{escape(image.caption)}">'
        f"<figcaption>{escape(image.caption)}</figcaption></figure>"
        for image in images
    )


def _frames(run: RunRecorder) -> str:
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


def links(targets: Iterable[tuple[str, str]]) -> str:
    """A list of links by name and address; nothing without links."""
    items = "".join(f'<li><a href="{escape(address)}">{escape(name)}</a></li>' for name, address in targets)
    return f"<ul>{items}</ul>" if items else ""


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


def read_report(path: Path) -> tuple[str, list[NDArray[np.uint8]], bool]:
    """The title and the images (height, width, 3) of the frames of a report, and whether they show the occupancy."""
    from PIL import Image, UnidentifiedImageError

    page = read_text(path)
    title, slides = _TITLE.search(page), _SLIDES.search(page)
    try:
        if title is None or slides is None:
            raise ValueError("no title or no images")
        images = []
        for slide in json.loads(slides[1]):
            with Image.open(
                BytesIO(b64decode(slide["image"].removeprefix(_WEBP), validate=True)), formats=["WEBP"]
            ) as image:
                if max(image.size) > _LARGEST:
                    raise ValueError(f"an image of {image.width} x {image.height}")
                images.append(np.asarray(image.convert("RGB")))
        if not images:
            raise ValueError("no images of frames")
    except (ValueError, KeyError, TypeError, AttributeError, OSError, UnidentifiedImageError, binascii.Error) as error:
        raise InputError(f"{path}: found {error}, expected a report of roadbed run") from None
    return unescape(title[1]), images, _CELLS.search(page) is not None
