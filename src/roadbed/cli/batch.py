# SPDX-License-Identifier: Apache-2.0
"""`roadbed batch`: the whole chain over many drives, on this machine or on a Ray cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Frames, Perception, command_line
from roadbed.cli.screen import Json
from roadbed.cli.spread import spread
from roadbed.cli.stopping import until_stopped
from roadbed.cli.warm_up import prepare
from roadbed.core.errors import InputError

if TYPE_CHECKING:
    from roadbed.batch.outcome import Progress


@spread
def batch(
    sources: Annotated[
        list[str],
        typer.Argument(help="Drives as for roadbed run, globs in quotes, @FILE: a list or a manifest of JSON lines."),
    ],
    perception: Perception,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results, seen by every node.")],
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a Ray cluster, or auto; this machine alone by default.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Drives at a time on this machine; one per core.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Cores of each worker.")] = 1,
    per_gpu: Annotated[int, typer.Option(min=1, help="Drives at a time on each GPU, with --backend cuda.")] = 8,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on: complete drives are kept; changed or incomplete ones done again.")
    ] = False,
    frames: Frames = None,
    segment: Annotated[
        int | None, typer.Option(min=10, help="Split longer drives into segments of so many frames.")
    ] = None,
    warm_up: Annotated[
        int | None, typer.Option(min=0, help="Frames before a segment that prepare it and are discarded; 80.")
    ] = None,
    with_map: Annotated[bool, typer.Option("--map", help="Also keep a map per drive, and merge all of them.")] = False,
    occupancy: Annotated[bool, typer.Option(help="Also run the occupancy filter.")] = True,
    layers: Annotated[bool, typer.Option(help="Write labels and layers of every frame.")] = True,
    as_json: Json = False,
) -> None:
    """Ground and occupancy of many drives: a folder each, a report over all; ends with 1 if a drive failed."""
    from roadbed.batch.campaign import Campaign, claimed, write_summary
    from roadbed.batch.drives import find_drives
    from roadbed.batch.engine import Engine
    from roadbed.batch.job import WARM_UP, Job

    if warm_up is not None and segment is None:
        raise InputError("--warm-up: expected --segment beside it, found none")
    settings = perception.settings()
    if ray is not None and workers is not None:
        raise InputError("--workers: expected on this machine alone; a cluster says itself how many cores it has")
    job = Job(
        output.absolute(),
        settings,
        command_line(),
        occupancy,
        layers,
        with_map,
        segment,
        WARM_UP if warm_up is None else warm_up,
        threads,
        resume,
    )
    drives = find_drives(sources, perception.opening(frames))
    gpu_share = 1 / per_gpu if settings.backend == "cuda" else 0.0
    tell = _tell_json if as_json else _Screen().tell
    with claimed(job), until_stopped() as stopped:
        if ray is None:
            prepare(drives[0].location, settings, occupancy=occupancy)
        with Engine(ray, workers, gpu_share, threads) as engine:
            campaign = Campaign(job, drives, engine, tell)
            progress = campaign.run(stopped)
        campaign.clear()
        facts = write_summary(job, campaign.complete(), progress)
    if as_json:
        _print_line({"event": "end", **facts})
    else:
        _print_summary(progress, output)
    if stopped.is_set():
        raise KeyboardInterrupt
    if progress.failures or progress.map_failure or progress.stopped:
        raise typer.Exit(1)


def _print_line(facts: dict[str, Any]) -> None:
    print(json.dumps(facts), flush=True)


def _tell_json(progress: Progress, event: dict[str, Any]) -> None:
    _print_line({**event, "seconds": round(progress.seconds, 2), "ended": progress.ended, "of": progress.drives})


class _Screen:
    """One line per drive, and where a person watches a line that keeps changing below them."""

    def __init__(self) -> None:
        self._watched = sys.stderr.isatty()

    def tell(self, progress: Progress, event: dict[str, Any]) -> None:
        kind, drive = event["event"], event["drive"]
        line = {
            "done": f"{drive}: {event.get('frames')} frames",
            "kept": f"{drive}: complete from before",
            "split": f"{drive}: {event.get('segments')} segments",
            "failed": f"{drive}: FAILED: {event.get('reason')}",
            "lost": f"{drive}: {event.get('reason')}; it is done again ({event.get('attempt')})",
        }.get(kind)
        if line is not None:
            again = f" (again: {event['reason']})" if kind == "done" and event.get("reason") else ""
            self._clear()
            print(line + again, flush=True)
        if self._watched:
            print(f"\r\x1b[2K{status_line(progress)}", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._watched:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


def status_line(progress: Progress) -> str:
    """Drives, frames a second, estimated end, failures."""
    rate = progress.frames / max(progress.seconds, 1e-3)
    left = "" if progress.seconds_left is None else f", about {_duration(progress.seconds_left)} left"
    failed = f", {len(progress.failures)} failed" if progress.failures else ""
    return f"{progress.ended} of {progress.drives} drives, {rate:.1f} frames/s{left}{failed}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def _print_summary(progress: Progress, output: Path) -> None:
    kept = f", {progress.kept} complete from before" if progress.kept else ""
    lost = f", {progress.retries} lost workers replaced" if progress.retries else ""
    print(f"{progress.done} drives done{kept}{lost}: {progress.frames} frames in {_duration(progress.seconds)}")
    for drive, reason in sorted(progress.failures.items()):
        print(f"failed: {drive}: {reason}")
    if progress.map_failure:
        print(f"failed: the map: {progress.map_failure}")
    if progress.stopped or progress.failures:
        why = f"{progress.stopped}: " if progress.stopped else ""
        print(f"{why}{progress.left + len(progress.failures)} drives are not complete; go on with --resume")
    print(f"open {output / 'report.html'}")
