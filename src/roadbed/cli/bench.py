# SPDX-License-Identifier: Apache-2.0
"""`roadbed bench`: speed, next to the figures of the papers."""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from roadbed.cli.options import BackendName, ConfigFile, Device, Preset, PresetName, load_settings
from roadbed.cli.screen import Json, print_json, progress, table
from roadbed.core.errors import DeviceError

app = typer.Typer(help="Measure speed, beside published figures.", no_args_is_help=True)
BackendOption = Annotated[BackendName, typer.Option(help="Where to compute.")]
CPU = BackendName.cpu
Sensor = Annotated[list[str] | None, typer.Option(help="Only this simulated sensor, e.g. lux4; repeatable.")]
Seconds = Annotated[float, typer.Option(min=0, help="Time per case; at least five calls.")]


@app.command("ground")
def ground(
    backend: BackendOption = CPU,
    device: Device = None,
    sensor: Sensor = None,
    seconds: Seconds = 3.0,
    as_json: Json = False,
) -> None:
    """Time both ground methods.

    HDL-64E and 4 x LUX, cold and warm, and the cost by number of points and cells.
    """
    from roadbed.bench.ground import PAPER_MS, ground_rows
    from roadbed.bench.timing import report

    rows = list(progress(ground_rows(backend, device, sensor or tuple(PAPER_MS), seconds), "measuring"))
    out = report("ground", rows, backend=backend)
    times = ("median_ms", "p95_ms", "processor_ms", "paper_ms", "ns_per_point")
    show(out, ("case", "points", "cells", "iterations", *times), as_json)


@app.command("pipeline")
def pipeline(
    backend: BackendOption = CPU,
    device: Device = None,
    sensor: Sensor = None,
    seconds: Seconds = 8.0,
    as_json: Json = False,
) -> None:
    """Time the whole pipeline for three sensors.

    From scan to occupancy, with the host time per frame outside kernels.
    """
    from roadbed.bench.pipeline import SENSORS, pipeline_rows
    from roadbed.bench.timing import report

    rows = list(progress(pipeline_rows(backend, device, sensor or tuple(SENSORS), seconds), "measuring"))
    times = ("median_ms", "p95_ms", "processor_ms", "hz", "ground_ms", "occupancy_ms")
    out = report("pipeline", rows, backend=backend)
    host = ("host_calls", "host_ms", "graphs", "launches", "uploads", "downloads", "waits")
    show(out, ("case", "sensors", "points", "cells", *times, *(name for name in host if name in rows[0])), as_json)
    if not as_json:
        for key, title in (("steps_ms", "occupancy: ms per step"), ("device_us", "on the device: us per phase")):
            parts = [[name, *(row[key].get(name, 0.0) for row in rows)] for name in rows[0][key]]
            if parts:
                table(title, ["part", *(row["case"] for row in rows)], parts)
        print(f"{out['threads']} threads on {out['cores']} cores; with NUMBA_NUM_THREADS=1 times are those of one core")


@app.command("agreement")
def agreement(
    source: Annotated[str, typer.Argument(help="The sequence for both.")] = "sim:city?sensor=hdl64e&frames=200",
    config: ConfigFile = None,
    preset: Preset = None,
    backend: BackendOption = BackendName.auto,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Compare labels and occupancy of an accelerator with the CPU's."""
    from roadbed.bench.agreement import agreement_rows, summary
    from roadbed.bench.timing import report
    from roadbed.runtime.device_selection import open_backend
    from roadbed.sources import open_source

    place, scans = open_backend(backend, device), open_source(source)
    if place.device.backend == "cpu":
        raise _no_accelerator()
    total = len(scans) if hasattr(scans, "__len__") else None
    rows = list(progress(agreement_rows(scans, load_settings(config, preset), place), "comparing", total))
    used, settings = f"{place.device.name}, {place.device.driver}", str(config or preset or PresetName.default)
    out = report("agreement", rows, backend=backend, device=used, preset=settings, source=source, **summary(rows))
    shown = {**out, "rows": rows if as_json else rows[:: max(1, len(rows) // 10)]}
    show(shown, tuple(rows[0]), as_json)
    if not as_json:
        print(f"{used}: " + "; ".join(f"{key} {value:.4g}" for key, value in summary(rows).items()))


def _no_accelerator() -> DeviceError:
    """With the devices that there are; `auto` does not take those that are the CPU again, such as PoCL."""
    from roadbed.runtime.device_selection import devices, why_missing

    choices = [f"--backend {found.backend} --device {found.index} ({found.name})" for found in devices()]
    there = " or ".join(choices) or "; ".join(why_missing())
    return DeviceError(f"bench agreement: found the backend cpu, expected an accelerator beside it: {there}")


@app.command("peers")
def peers(
    scans: Annotated[list[str], typer.Argument(metavar="SCAN...", help="KITTI .bin files or other sources.")],
    fugseg: Annotated[Path | None, typer.Option(help="Checkout of FugSeg; it is compiled with g++ and Eigen.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each method.")] = 6,
    frames: Annotated[int, typer.Option(min=1, help="Scans of each source.")] = 5,
    height: Annotated[float, typer.Option(help="Sensor height, m; FugSeg has 1.73 built in.")] = 1.73,
    as_json: Json = False,
) -> None:
    """Time the ground filter in turns with FugSeg and Patchwork++.

    Ratios are to FugSeg, or to Roadbed on one thread without it. Patchwork++ takes part if pypatchworkpp is installed.
    """
    from roadbed.bench import peers as bench
    from roadbed.bench.timing import report
    from roadbed.sources import open_source

    with bench.fugseg(fugseg) if fugseg else nullcontext() as compiled:
        given = [bench.alone(scan) for source in scans for scan in islice(open_source(source), frames)]
        found = {"FugSeg": compiled, "Patchwork++": bench.patchwork(height)}
        methods = {name: method for name, method in found.items() if method} | bench.roadbed_methods(height)
        rows = list(progress(bench.peer_rows(given, methods, rounds), "measuring", len(given) * len(methods)))
    missing = [name for name, method in found.items() if method is None]
    totals, about = bench.summary(rows), {"rounds": rounds, "calls": bench.CALLS, "flags": bench.FLAGS}
    out = report("peers", rows, backend="cpu", missing=missing, summary=totals, **about)
    times = ("median_ms", "processor_ms", "ratio", "ratio_min", "ratio_max", "processor_ratio")
    show(out, ("case", "points", "ground_percent", *times), as_json)
    if not as_json:
        table("all scans: median and range", list(totals[0]), [list(row.values()) for row in totals])
        print(f"{rounds} rounds of {bench.CALLS} calls; FugSeg with {' '.join(bench.FLAGS)}; {out['cores']} cores")
        for name in missing:
            print(f"{name} is left out: " + ("give --fugseg" if name == "FugSeg" else "pypatchworkpp is not installed"))


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
