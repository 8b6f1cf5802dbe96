# SPDX-License-Identifier: Apache-2.0
"""`roadbed bench`: speed, with the papers' numbers beside ours."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from roadbed.cli.options import Device
from roadbed.cli.screen import Json, print_json, progress, table
from roadbed.cli.stopping import until_stopped

app = typer.Typer(help="Measure speed; the papers' numbers stand beside ours.", no_args_is_help=True)
BackendOption = Annotated[str, typer.Option(help="cpu, opencl, cuda or auto.")]
Sensor = Annotated[
    list[str] | None, typer.Option(help="Only this simulated sensor, e.g. lux4; may be given several times.")
]
Seconds = Annotated[float, typer.Option(min=0, help="Time to measure each case; at least five calls are measured.")]


@app.command("ground")
def ground(
    backend: BackendOption = "cpu",
    device: Device = None,
    sensor: Sensor = None,
    seconds: Seconds = 3.0,
    as_json: Json = False,
) -> None:
    """Both ground methods: HDL-64E and 4 x LUX, cold and warm, and how cost grows with points and cells."""
    from roadbed.bench.ground import PAPER_MS, ground_rows
    from roadbed.bench.timing import report

    rows = list(progress(ground_rows(backend, device, sensor or tuple(PAPER_MS), seconds), "measuring"))
    out = report("ground", rows, backend=backend)
    times = ("median_ms", "p95_ms", "processor_ms", "paper_ms", "ns_per_point")
    _show(out, ("case", "points", "cells", "iterations", *times), as_json)


@app.command("occupancy")
def occupancy(
    backend: BackendOption = "cpu",
    device: Device = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps to measure of each case.")] = 30,
    plots: Annotated[Path | None, typer.Option(help="Also draw the paper's figures into this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Fusion and occupancy filter: the many-core paper's table 1 and figures 7 to 10 beside ours, on any device."""
    from roadbed.bench.occupancy import bench_occupancy
    from roadbed.bench.occupancy_plots import draw_all
    from roadbed.bench.timing import report
    from roadbed.runtime.device_selection import opened

    measured = bench_occupancy(opened(backend, device), steps)
    out = report("occupancy", measured.pop("rows"), backend=backend, **measured)
    drawn = draw_all(out, plots) if plots is not None else []
    measures = ("step_ms", "best_ms", "processor_ms", "paper_many_core_ms", "paper_gpu_ms", "joules_per_step", "watts")
    columns = ("particles", "resolution_m", "cells", *measures)
    _show(out, columns, as_json)
    if as_json:
        return
    print(f"{out['device']}; energy: {out['energy']}")
    table("the same with the default filter", columns, [[row[key] for key in columns] for row in out["default_filter"]])
    tasks = [key for key in out["figure_7"][0] if key.endswith("_ms") and key not in columns]
    for name, across in (("figure_7", "particles"), ("figure_8", "resolution_m")):
        rows = [[row[across], *(row[task] for task in tasks)] for row in out[name]]
        table(f"{name.replace('_', ' ')}: ms per task", [across, *(task.removesuffix("_ms") for task in tasks)], rows)
    for name in ("scheduling", "work_groups", "figure_9"):
        if out.get(name):
            title = f"{name.replace('_', ' ')}: ms at 19,000 particles and 0.1 m"
            table(title, list(out[name][0]), [list(row.values()) for row in out[name]])
    for path in drawn:
        print(f"wrote {path}")


@app.command("pipeline")
def pipeline(
    backend: BackendOption = "cpu",
    device: Device = None,
    sensor: Sensor = None,
    seconds: Seconds = 8.0,
    as_json: Json = False,
) -> None:
    """The whole chain, scan in to occupancy out, for three sensors, and what a frame costs the host beside kernels."""
    from roadbed.bench.pipeline import SENSORS, pipeline_rows
    from roadbed.bench.timing import report

    rows = list(progress(pipeline_rows(backend, device, sensor or tuple(SENSORS), seconds), "measuring"))
    times = ("median_ms", "p95_ms", "processor_ms", "hz", "ground_ms", "occupancy_ms")
    out = report("pipeline", rows, backend=backend)
    host = ("host_calls", "host_ms", "graphs", "launches", "uploads", "downloads", "waits")
    _show(out, ("case", "sensors", "points", "cells", *times, *(name for name in host if name in rows[0])), as_json)
    if not as_json:
        steps = [[step, *(row["steps_ms"].get(step, 0.0) for row in rows)] for step in rows[0]["steps_ms"]]
        table("occupancy: ms per step", ["step", *(row["case"] for row in rows)], steps)
        if rows[0]["device_us"]:
            phases = [[name, *(row["device_us"].get(name, 0.0) for row in rows)] for name in rows[0]["device_us"]]
            table("on the device: us per phase", ["phase", *(row["case"] for row in rows)], phases)
        print(f"{out['threads']} threads on {out['cores']} cores; with NUMBA_NUM_THREADS=1 times are those of one core")


@app.command("agreement")
def agreement(
    source: Annotated[str, typer.Argument(help="The drive both are given.")] = "sim:city?sensor=hdl64e&frames=200",
    backend: BackendOption = "auto",
    device: Device = None,
    as_json: Json = False,
) -> None:
    """The occupancy of an accelerator beside the CPU's over a drive: how far each grid is off, cell by cell."""
    from roadbed.bench.agreement import agreement_rows, summary
    from roadbed.bench.timing import report
    from roadbed.config import Config
    from roadbed.runtime.device_selection import opened
    from roadbed.sources import open_source

    place, scans = opened(backend, device), open_source(source)
    total = len(scans) if hasattr(scans, "__len__") else None
    rows = list(progress(agreement_rows(scans, Config.preset("default"), place), "comparing", total))
    used = f"{place.device.name}, {place.device.driver}"
    out = report("agreement", rows, backend=backend, device=used, source=source, **summary(rows))
    shown = {**out, "rows": rows if as_json else rows[:: max(1, len(rows) // 10)]}
    _show(shown, tuple(rows[0]), as_json)
    if not as_json:
        print(f"{used}: " + "; ".join(f"{key} {value:.4g}" for key, value in summary(rows).items()))


@app.command("masses")
def masses(
    steps: Annotated[int, typer.Option(min=1, help="Steps of the filter.")] = 10_000,
    backend: BackendOption = "cpu",
    device: Device = None,
    as_json: Json = False,
) -> None:
    """The filter's masses over many steps: none below 0, none above 1, and particles that carry what is dynamic."""
    from roadbed.bench.masses import mass_rows
    from roadbed.bench.timing import report
    from roadbed.runtime.device_selection import opened

    rows = list(progress(mass_rows(opened(backend, device), steps), "stepping", min(steps, 10)))
    _show(report("masses", rows, backend=backend), tuple(rows[0]), as_json)


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

    from roadbed.bench.soak import draw, growth, soak_rows
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
    _show({**out, "rows": rows if as_json else rows[:: max(1, len(rows) // 10)]}, tuple(rows[0]), as_json)
    if not as_json:
        print("; ".join(f"{key} {value:.4g}" for key, value in {**worst, **grown}.items() if value is not None))
    if plot is not None:  # last: hours of figures are on the screen by then
        used = f"--config {configuration.name}" if configuration else f"--preset {preset}"
        draw(rows, plot, f"roadbed bench soak --frames {frames} --backend {backend} {used}")


@app.command("faults")
def faults(
    source: Annotated[str | None, typer.Argument(help="The drive that is hit; a simulated one by default.")] = None,
    backend: BackendOption = "cpu",
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Every fault on one drive: what is noticed, how far results go off, and how soon they are back."""
    from roadbed.bench.faults import DRIVE, fault_rows
    from roadbed.bench.timing import report
    from roadbed.runtime.device_selection import opened
    from roadbed.sources.fault import KINDS

    place = opened(backend, device)
    rows = list(progress(fault_rows(source or DRIVE, backend=place), "faults", len(KINDS)))
    columns = ("fault", "finite", "worst_label", "worst_occupancy", "recovered_after", "recovered", "notes")
    _show(report("faults", rows, backend=backend, source=source or DRIVE), columns, as_json)


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
    from roadbed.bench.live import live_row
    from roadbed.bench.timing import report

    row = live_row(transport, scans, rate, sensor, backend)
    columns = [name for name in row if name not in ("sensor", "rate_hz")]
    _show(report("live", [row], backend=backend), columns, as_json)


@app.command("segments")
def segments(
    source: Annotated[str | None, typer.Argument(help="The drive that is cut; a simulated one by default.")] = None,
    cuts: Annotated[int, typer.Option(min=1, help="Places where it is cut.")] = 4,
    as_json: Json = False,
) -> None:
    """Segments of a drive against the drive in one piece, by the frames that warm a segment up."""
    from roadbed.bench.segments import DRIVE, WARM_UPS, segment_rows
    from roadbed.bench.timing import report

    location = source or DRIVE
    rows = list(progress(segment_rows(location, cuts=cuts), "cutting", len(WARM_UPS) + 1))
    _show(report("segments", rows, backend="cpu", source=location), tuple(rows[0]), as_json)


@app.command("batch")
def batch(
    workers: Annotated[int, typer.Option(min=2, help="Workers to compare with one.")] = 2,
    drives: Annotated[int, typer.Option(min=2, help="Drives to do each time.")] = 4,
    frames: Annotated[int, typer.Option(min=2, help="Frames of each drive.")] = 40,
    sensor: Annotated[str, typer.Option(help="The simulated sensor.")] = "vlp16",
    as_json: Json = False,
) -> None:
    """Many drives: what workers gain, what a batch costs beside the plain chain, and what a million scans would."""
    from roadbed.bench.batch import bench_batch
    from roadbed.bench.timing import report

    measured = bench_batch((1, workers), drives, frames, sensor)
    load = [round(value, 1) for value in os.getloadavg()]
    out = report("batch", measured.pop("rows"), backend="cpu", sensor=sensor, load_average=load, **measured)
    _show(out, tuple(out["rows"][0]), as_json)
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
    from roadbed.bench.load import load_rows
    from roadbed.bench.timing import report
    from roadbed.config import Config

    rows = load_rows(sensors, rate, points, scans, Config.parse({"backend": backend}))
    _show(report("load", rows, backend=backend), tuple(rows[0]), as_json)


def _show(out: dict[str, Any], columns: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json(out)
        return
    title = f"roadbed bench {out['bench']} --backend {out['backend']}"
    table(title, columns, [[row.get(key) for key in columns] for row in out["rows"]])
