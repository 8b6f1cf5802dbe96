# SPDX-License-Identifier: Apache-2.0
"""`roadbed bench`: speed, with the papers' numbers beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from roadbed.cli.options import Device
from roadbed.cli.screen import Json, print_json, progress, table

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
    show(out, ("case", "points", "cells", "iterations", *times), as_json)


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
    from roadbed.runtime.device_selection import select_backend

    measured = bench_occupancy(select_backend(backend, device), steps)
    out = report("occupancy", measured.pop("rows"), backend=backend, **measured)
    drawn = draw_all(out, plots) if plots is not None else []
    measures = ("step_ms", "best_ms", "processor_ms", "paper_many_core_ms", "paper_gpu_ms", "joules_per_step", "watts")
    columns = ("particles", "resolution_m", "cells", *measures)
    show(out, columns, as_json)
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
    show(out, ("case", "sensors", "points", "cells", *times, *(name for name in host if name in rows[0])), as_json)
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
    from roadbed.runtime.device_selection import select_backend
    from roadbed.sources import open_source

    place, scans = select_backend(backend, device), open_source(source)
    total = len(scans) if hasattr(scans, "__len__") else None
    rows = list(progress(agreement_rows(scans, Config.preset("default"), place), "comparing", total))
    used = f"{place.device.name}, {place.device.driver}"
    out = report("agreement", rows, backend=backend, device=used, source=source, **summary(rows))
    shown = {**out, "rows": rows if as_json else rows[:: max(1, len(rows) // 10)]}
    show(shown, tuple(rows[0]), as_json)
    if not as_json:
        print(f"{used}: " + "; ".join(f"{key} {value:.4g}" for key, value in summary(rows).items()))


def show(out: dict[str, Any], columns: Sequence[str], as_json: bool) -> None:
    """Print the report: the named columns as a table, or all of it as JSON."""
    if as_json:
        print_json(out)
        return
    table(
        f"{out['bench']} --backend {out['backend']}",
        columns,
        [[row.get(key) for key in columns] for row in out["rows"]],
    )
