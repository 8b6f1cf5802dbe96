# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks NAME`, from a checkout: long runs, faults, overload and the costs around the pipeline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli import main
from roadbed.cli.bench import BackendOption, show
from roadbed.cli.options import Device
from roadbed.cli.screen import Json, progress, table
from roadbed.cli.stopping import until_stopped

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command("masses")
def masses(
    steps: Annotated[int, typer.Option(min=1, help="Steps of the filter.")] = 10_000,
    backend: BackendOption = "cpu",
    device: Device = None,
    as_json: Json = False,
) -> None:
    """The filter's masses over many steps: none below 0, none above 1, and particles that carry what is dynamic."""
    from benchmarks.masses import mass_rows
    from roadbed.bench.timing import report
    from roadbed.runtime.device_selection import select_backend

    rows = list(progress(mass_rows(select_backend(backend, device), steps), "stepping", min(steps, 10)))
    show(report("masses", rows, backend=backend), tuple(rows[0]), as_json)


@app.command("soak")
def soak(
    frames: Annotated[int, typer.Option(min=1, help="How many frames to drive.")] = 20_000,
    ground_only: Annotated[bool, typer.Option("--ground-only", help="Leave the occupancy out.")] = False,
    preset: Annotated[str, typer.Option(help="paper or default.")] = "default",
    configuration: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML configuration; wins over --preset.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the course into this PNG.")] = None,
    backend: BackendOption = "cpu",
    device: Device = None,
    as_json: Json = False,
) -> None:
    """A drive that does not end: latency, memory, handles, information, and whether all stays a number. Ctrl+C ends it
    with what was driven so far."""
    from itertools import takewhile

    from benchmarks.soak import draw, growth, soak_rows
    from roadbed.bench.timing import report
    from roadbed.config import Config

    config = Config.load(configuration) if configuration else Config.preset(preset)
    driven = soak_rows(frames, 100, config, backend, device, not ground_only)
    with until_stopped() as stopped:
        rows = list(takewhile(lambda _: not stopped.is_set(), progress(driven, "driving", min(frames, 100))))
    if not rows:
        raise typer.Abort
    grown = {f"{name}_growth": growth(rows, name) for name in ("processor_ms", "memory_mb", "handles", "threads")}
    worst = {"unsound": sum(row["unsound"] for row in rows), "mass_error": max(row["mass_error"] for row in rows)}
    out = report("soak", rows, backend=backend, **worst, **grown)
    show({**out, "rows": rows if as_json else rows[:: max(1, len(rows) // 10)]}, tuple(rows[0]), as_json)
    if not as_json:
        print("; ".join(f"{key} {value:.4g}" for key, value in {**worst, **grown}.items() if value is not None))
    if plot is not None:  # last: hours of figures are on the screen by then
        used = f"--config {configuration.name}" if configuration else f"--preset {preset}"
        draw(rows, plot, f"python -m benchmarks soak --frames {frames} --backend {backend} {used}")


@app.command("faults")
def faults(
    source: Annotated[str | None, typer.Argument(help="The drive that is hit; a simulated one by default.")] = None,
    backend: BackendOption = "cpu",
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Every fault on one drive: what is noticed, how far results go off, and how soon they are back."""
    from benchmarks.faults import DRIVE, fault_rows
    from roadbed.bench.timing import report
    from roadbed.runtime.device_selection import select_backend
    from roadbed.sources.fault import KINDS

    place = select_backend(backend, device)
    rows = list(progress(fault_rows(source or DRIVE, backend=place), "faults", len(KINDS)))
    columns = ("fault", "finite", "worst_label", "worst_occupancy", "recovered_after", "recovered", "notes")
    show(report("faults", rows, backend=backend, source=source or DRIVE), columns, as_json)


@app.command("live")
def live(
    transport: Annotated[str, typer.Option(help="stream, ros1 (with a roscore) or dds.")] = "stream",
    scans: Annotated[int, typer.Option(min=1, help="How many scans are sent.")] = 300,
    rate: Annotated[float, typer.Option(min=0.1, max=1000, help="Scans per second.")] = 10.0,
    sensor: Annotated[str, typer.Option(help="The simulated sensor.")] = "hdl64e",
    backend: BackendOption = "cpu",
    as_json: Json = False,
) -> None:
    """Latency from the last point to labels and to occupancy, and what is lost, at a sensor's own rate."""
    from benchmarks.live import live_row
    from roadbed.bench.timing import report

    row = live_row(transport, scans, rate, sensor, backend)
    columns = [name for name in row if name not in ("sensor", "rate_hz")]
    show(report("live", [row], backend=backend), columns, as_json)


@app.command("segments")
def segments(
    source: Annotated[str | None, typer.Argument(help="The drive that is cut; a simulated one by default.")] = None,
    cuts: Annotated[int, typer.Option(min=1, help="Places where it is cut.")] = 4,
    as_json: Json = False,
) -> None:
    """Segments of a drive against the drive in one piece, by the frames that warm a segment up."""
    from benchmarks.segments import DRIVE, WARM_UPS, segment_rows
    from roadbed.bench.timing import report

    location = source or DRIVE
    rows = list(progress(segment_rows(location, cuts=cuts), "cutting", len(WARM_UPS) + 1))
    show(report("segments", rows, backend="cpu", source=location), tuple(rows[0]), as_json)


@app.command("batch")
def batch(
    workers: Annotated[int, typer.Option(min=2, help="Workers to compare with one.")] = 2,
    drives: Annotated[int, typer.Option(min=2, help="Drives to do each time.")] = 4,
    frames: Annotated[int, typer.Option(min=2, help="Frames of each drive.")] = 40,
    sensor: Annotated[str, typer.Option(help="The simulated sensor.")] = "vlp16",
    as_json: Json = False,
) -> None:
    """Many drives: what workers gain, what a batch costs beside the plain chain, and what a million scans would."""
    from benchmarks.batch import bench_batch
    from roadbed.bench.timing import report

    measured = bench_batch((1, workers), drives, frames, sensor)
    load = [round(value, 1) for value in os.getloadavg()]
    out = report("batch", measured.pop("rows"), backend="cpu", sensor=sensor, load_average=load, **measured)
    show(out, tuple(out["rows"][0]), as_json)
    if not as_json:
        for part in ("overhead", "model"):
            table(part, ("measure", "value"), [(key.replace("_", " "), value) for key, value in out[part].items()])
        print(f"load of the machine while this ran: {', '.join(map(str, load))}")


@app.command("load")
def load(
    sensors: Annotated[int, typer.Option(min=1, max=64, help="Sensors that push side by side.")] = 4,
    rate: Annotated[float, typer.Option(min=0.1, max=1000, help="Scans per second of each.")] = 20.0,
    points: Annotated[int, typer.Option(min=1, help="Points of a scan.")] = 250_000,
    scans: Annotated[int, typer.Option(min=1, help="Scans that each sensor pushes.")] = 200,
    backend: BackendOption = "cpu",
    as_json: Json = False,
) -> None:
    """More than the machine can take, through the streaming interface: what is dropped, and that it is the oldest."""
    from benchmarks.load import load_rows
    from roadbed.bench.timing import report
    from roadbed.config import Config

    rows = load_rows(sensors, rate, points, scans, Config.parse({"backend": backend}))
    show(report("load", rows, backend=backend), tuple(rows[0]), as_json)


if __name__ == "__main__":
    main(app)
