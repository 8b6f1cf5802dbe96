# SPDX-License-Identifier: Apache-2.0
"""`roadbed batch`: the pipeline over many sequences, on this machine or on a Ray cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Frames, Layers, Occupancy, Perception, command_line, expand_options, prepare
from roadbed.cli.screen import Json, until_stopped
from roadbed.core.errors import InputError

if TYPE_CHECKING:
    from roadbed.batch.job import Progress


@expand_options
def batch(
    sources: Annotated[
        list[str], typer.Argument(help="Sources as for roadbed run, quoted globs, or @FILE: one, or JSON, per line.")
    ],
    perception: Perception,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results, shared by all nodes.")],
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Ray cluster, or auto to find one; default: this machine.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Parallel sequences on this machine; default: one per core.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Cores per worker.")] = 1,
    per_gpu: Annotated[int, typer.Option(min=1, help="Parallel sequences per GPU, with --backend cuda.")] = 8,
    resume: Annotated[bool, typer.Option("--resume", help="Keep complete sequences, process the others.")] = False,
    frames: Frames = None,
    with_map: Annotated[bool, typer.Option("--map", help="Also make a map per sequence and merge them.")] = False,
    occupancy: Occupancy = True,
    layers: Layers = True,
    as_json: Json = False,
) -> None:
    """Process many sequences in parallel, with one report.

    Each sequence gets a folder as of `run`. Exit status 1 if a sequence failed.
    """
    from roadbed.batch.batch_run import BatchRun, locked_output, write_summary
    from roadbed.batch.engine import Engine
    from roadbed.batch.job import Job
    from roadbed.batch.sequences import find_sequences

    settings = perception.settings()
    if ray is not None and workers is not None:
        raise InputError("--workers: expected without --ray; a cluster has its own number of cores")
    job = Job(output.absolute(), settings, command_line(), occupancy, layers, with_map, threads, resume)
    sequences = find_sequences(sources, perception.read_options(frames))
    gpu_share = 1 / per_gpu if settings.backend == "cuda" else 0.0
    on_event = _print_event if as_json else _show_event
    with locked_output(job), until_stopped() as stopped:
        engine = Engine(ray, workers, gpu_share, threads)
        batch_run = BatchRun(job, sequences, engine, on_event)
        if not (resume and batch_run.keep_complete()):
            if ray is None:
                prepare(sequences[0].location, settings, occupancy=occupancy)
            with engine:
                batch_run.run(stopped.is_set)
        progress = batch_run.progress
        facts = write_summary(job, batch_run.complete(), progress)
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


def _print_event(progress: Progress, event: dict[str, Any]) -> None:
    _print_line({**event, "seconds": round(progress.seconds, 2), "ended": progress.ended, "of": progress.sequences})


def _show_event(progress: Progress, event: dict[str, Any]) -> None:
    """One line per sequence, and on a terminal a status line below them."""
    kind, sequence, reason = event["event"], event["sequence"], event.get("reason")
    again = f" (again: {reason})" if reason else ""
    line = {
        "done": f"{sequence}: {event.get('frames')} frames{again}",
        "kept": f"{sequence}: complete from before",
        "failed": f"{sequence}: FAILED: {reason}",
        "lost": f"{sequence}: {reason}; repeated ({event.get('attempt')})",
    }.get(kind)
    clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
    if line is not None:
        print(clear, end="", file=sys.stderr, flush=True)
        print(line, flush=True)
    if clear:
        print(f"{clear}{status_line(progress)}", end="", file=sys.stderr, flush=True)


def status_line(progress: Progress) -> str:
    """Sequences, frames per second, time left, failures."""
    rate = progress.frames / max(progress.seconds, 1e-3)
    left = "" if progress.seconds_left is None else f", about {_duration(progress.seconds_left)} left"
    failed = f", {len(progress.failures)} failed" if progress.failures else ""
    return f"{progress.ended} of {progress.sequences} sequences, {rate:.1f} frames/s{left}{failed}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def _print_summary(progress: Progress, output: Path) -> None:
    kept = f", {progress.kept} complete from before" if progress.kept else ""
    lost = f", {progress.retries} lost workers replaced" if progress.retries else ""
    print(f"{progress.done} sequences done{kept}{lost}: {progress.frames} frames in {_duration(progress.seconds)}")
    for sequence, reason in sorted(progress.failures.items()):
        print(f"failed: {sequence}: {reason}")
    if progress.map_failure:
        print(f"failed: the map: {progress.map_failure}")
    if progress.stopped or progress.failures:
        why = f"{progress.stopped}: " if progress.stopped else ""
        print(f"{why}{progress.left + len(progress.failures)} sequences are not complete; continue with --resume")
    print(f"open {output / 'report.html'}")
