# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks NAME`, from a checkout: long runs, faults, overload and the costs around the pipeline."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.boards_command import boards
from benchmarks.conditions_command import conditions
from benchmarks.live_soak_command import live_soak
from benchmarks.occupancy_commands import chosen_of, leave_one_out_occupancy, occupancy_scenes, occupancy_values
from benchmarks.strays_command import strays
from roadbed.cli import main
from roadbed.cli.bench import CPU, BackendOption, show
from roadbed.cli.options import Device, PresetName
from roadbed.cli.screen import Json, print_json, progress, table, until_stopped

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command("live-soak")(live_soak)
app.command("boards")(boards)
app.command("conditions")(conditions)
app.command("occupancy-scenes")(occupancy_scenes)
app.command("occupancy-values")(occupancy_values)
app.command("leave-one-out-occupancy")(leave_one_out_occupancy)
app.command("strays")(strays)


@app.command("map-accuracy")
def map_accuracy(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the map.")],
    source: Annotated[str, typer.Argument(help="The simulated source, as for roadbed run --map.")],
    stride: Annotated[int, typer.Option(min=1, help="As for roadbed run.")] = 1,
    drive: Annotated[bool, typer.Option("--drive", help="Make the map first, in a new folder.")] = False,
    as_json: Json = False,
) -> None:
    """Score a map against the terrain of its simulated sequence."""
    from benchmarks.map_accuracy import evaluate_map
    from roadbed.sources import open_source
    from roadbed.sources.source import part_of

    scans = part_of(open_source(source), stride=stride)
    out = evaluate_map(folder, scans, drive, lambda numbers: progress(numbers, "comparing", len(scans)))
    if as_json:
        print_json(out)
        return
    columns = ["returns", "nodes", "rms", "median", "within_5_cm_percent", "rms_of_best_99_percent"]
    rows = [[row.get(name) for name in columns] for row in out["seen"]]
    table(f"{folder}, {out['known_nodes']} known nodes", ["returns, at least", *columns[1:]], rows)


@app.command("odometry")
def odometry(
    source: Annotated[str, typer.Argument(help="A sequence with poses.")],
    compared: Annotated[str, typer.Option("--odometry", help="kiss-icp, or a file of poses.")] = "kiss-icp",
    frames: Annotated[int | None, typer.Option(min=1, help="Stop after this many scans.")] = None,
    as_json: Json = False,
) -> None:
    """Compare estimated odometry with the poses of a source: length, end point, drift of parked boxes."""
    from benchmarks.odometry import evaluate_odometry
    from roadbed.sources.read_options import ReadOptions

    given, tried = (ReadOptions(odometry=name, frames=frames, deskew=False).open(source) for name in (None, compared))
    score = evaluate_odometry(given, tried, lambda scans: progress(scans, "comparing", len(given)))
    out = {"source": source, "odometry": compared, **score.as_dict()}
    if as_json:
        print_json(out)
        return
    rows = [(name.replace("_", " "), value) for name, value in out.items() if name not in ("source", "odometry")]
    table(f"{source}, {compared}", ("measure", "value"), rows)


@app.command("drift")
def drift(
    scene: Annotated[list[str] | None, typer.Option(help="Only this scene; may be repeated.")] = None,
    sensor: Annotated[str, typer.Option(help="The simulated sensor.")] = "vlp16",
    frames: Annotated[int, typer.Option(min=10, help="Scans of each sequence.")] = 300,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each scene.")] = 5,
    as_json: Json = False,
) -> None:
    """Measure what the alignment makes of exact and noisy poses: error of the pose in use, elevation rms over time."""
    from benchmarks.drift import POSES, SCENES, drift_rows
    from roadbed.bench.timing import report

    scenes = chosen_of(scene, SCENES, "scene")
    measured = drift_rows(scenes, sensor, frames, range(401, 401 + seeds))
    rows = list(progress(measured, "drift", 2 * len(POSES) * len(scenes)))
    show(report("drift", rows, backend="cpu", sensor=sensor, frames=frames, seeds=seeds), tuple(rows[0]), as_json)


@app.command("maps")
def maps(
    files: Annotated[
        list[Path] | None, typer.Argument(help="LAS files with classes; none: the simulator alone.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=0, help="Seeds of each simulated map, from 711 on.")] = 2,
    backend: BackendOption = CPU,
    as_json: Json = False,
) -> None:
    """Label clouds without a sensor: simulated maps and LAS files.

    F1 beside a cloth simulation filter on the same points, where `cloth-simulation-filter` is installed.
    """
    from itertools import chain

    from benchmarks.maps import las_files, map_rows, simulated_maps
    from roadbed.bench.timing import report

    clouds = chain(las_files(files or ()), simulated_maps(range(711, 711 + seeds)))
    rows = list(map_rows(clouds, backend))
    show(report("maps", rows, backend=backend), tuple(rows[0]), as_json)


@app.command("occupancy")
def occupancy(
    backend: BackendOption = CPU,
    device: Device = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps per case.")] = 30,
    plots: Annotated[Path | None, typer.Option(help="Draw the paper's figures into this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Time fusion and occupancy filter.

    Laid out as table 1 and figures 7 to 10 of the many-core paper, on any device.
    """
    from benchmarks.occupancy import bench_occupancy
    from benchmarks.occupancy_plots import draw_all
    from roadbed.bench.timing import report
    from roadbed.runtime.device_selection import open_backend

    measured = bench_occupancy(open_backend(backend, device), steps)
    out = report("occupancy", measured.pop("rows"), backend=backend, **measured)
    drawn = draw_all(out, plots) if plots is not None else []
    measures = ("step_ms", "best_ms", "processor_ms", "paper_many_core_ms", "paper_gpu_ms", "joules_per_step", "watts")
    columns = ("particles", "resolution_m", "cells", *measures)
    show(out, columns, as_json)
    if as_json:
        return
    print(f"{out['device']}; energy: {out['energy']}")
    table("with the default filter", columns, [[row[key] for key in columns] for row in out["default_filter"]])
    tasks = [key for key in out["figure_7"][0] if key.endswith("_ms") and key not in columns]
    for name, across in (("figure_7", "particles"), ("figure_8", "resolution_m")):
        rows = [[row[across], *(row[task] for task in tasks)] for row in out[name]]
        table(f"{name.replace('_', ' ')}: ms per task", [across, *(task.removesuffix("_ms") for task in tasks)], rows)
    for name in ("from_points", "scheduling", "work_groups", "figure_9"):
        if out.get(name):
            where = "from the points of eight LiDARs" if name == "from_points" else "19,000 particles and 0.1 m"
            title = f"{name.replace('_', ' ')}: ms, {where}"
            table(title, list(out[name][0]), [list(row.values()) for row in out[name]])
    for path in drawn:
        print(f"wrote {path}")


@app.command("masses")
def masses(
    steps: Annotated[int, typer.Option(min=1, help="Steps of the filter.")] = 10_000,
    backend: BackendOption = CPU,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Check the filter's masses over many steps: all in 0 to 1, dynamic mass carried by particles."""
    from benchmarks.masses import mass_rows
    from roadbed.bench.timing import report
    from roadbed.runtime.device_selection import open_backend

    rows = list(progress(mass_rows(open_backend(backend, device), steps), "stepping", min(steps, 10)))
    show(report("masses", rows, backend=backend), tuple(rows[0]), as_json)


@app.command("soak")
def soak(
    frames: Annotated[int, typer.Option(min=1, help="Number of frames.")] = 20_000,
    ground_only: Annotated[bool, typer.Option("--ground-only", help="Without occupancy.")] = False,
    preset: Annotated[PresetName, typer.Option(help="Configuration without --config.")] = PresetName.default,
    configuration: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML configuration; wins over --preset.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the figures into this PNG.")] = None,
    backend: BackendOption = CPU,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Process an endless sequence: latency, memory, open files and NaN. Ctrl+C prints what was measured so far."""
    from itertools import takewhile

    from benchmarks.soak import draw, growth, soak_rows
    from roadbed.bench.timing import report
    from roadbed.config import Config

    config = Config.load(configuration) if configuration else Config.preset(str(preset))
    measured = soak_rows(frames, 100, config, backend, device, not ground_only)
    with until_stopped() as stopped:
        rows = list(takewhile(lambda _: not stopped.is_set(), progress(measured, "processing", min(frames, 100))))
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
    source: Annotated[str | None, typer.Argument(help="The sequence; simulated by default.")] = None,
    backend: BackendOption = CPU,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Apply each fault to one sequence: diagnostics, largest error, scans until the results have recovered."""
    from benchmarks.fault_source import KINDS
    from benchmarks.faults import DRIVE, fault_rows
    from roadbed.bench.timing import report
    from roadbed.runtime.device_selection import open_backend

    place = open_backend(backend, device)
    rows = list(progress(fault_rows(source or DRIVE, backend=place), "faults", len(KINDS)))
    columns = ("fault", "finite", "worst_label", "worst_occupancy", "recovered_after", "recovered", "diagnostics")
    show(report("faults", rows, backend=backend, source=source or DRIVE), columns, as_json)


@app.command("live")
def live(
    transport: Annotated[str, typer.Option(help="stream, ros1 (with a roscore) or dds.")] = "stream",
    scans: Annotated[int, typer.Option(min=1, help="How many scans are sent.")] = 300,
    rate: Annotated[float, typer.Option(min=0.1, max=1000, help="Scans per second.")] = 10.0,
    sensor: Annotated[str, typer.Option(help="The simulated sensor.")] = "hdl64e",
    backend: BackendOption = CPU,
    as_json: Json = False,
) -> None:
    """Measure latency from the last point to labels and occupancy, and lost scans, at the sensor's rate."""
    from benchmarks.live import live_row
    from roadbed.bench.timing import report

    row = live_row(transport, scans, rate, sensor, backend)
    columns = [name for name in row if name not in ("sensor", "rate_hz")]
    show(report("live", [row], backend=backend), columns, as_json)


@app.command("batch")
def batch(
    workers: Annotated[int, typer.Option(min=2, help="Workers to compare with one.")] = 2,
    sequences: Annotated[int, typer.Option(min=2, help="Sequences per run.")] = 4,
    frames: Annotated[int, typer.Option(min=2, help="Frames per sequence.")] = 40,
    sensor: Annotated[str, typer.Option(help="The simulated sensor.")] = "vlp16",
    as_json: Json = False,
) -> None:
    """Measure a batch: speed-up by workers, overhead, and a model for a million scans."""
    from benchmarks.batch import bench_batch
    from roadbed.bench.timing import report

    measured = bench_batch((1, workers), sequences, frames, sensor)
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
    backend: BackendOption = CPU,
    as_json: Json = False,
) -> None:
    """Push more scans than the machine can process: how many are dropped, and that they are the oldest."""
    from benchmarks.load import load_rows
    from roadbed.bench.timing import report
    from roadbed.config import Config

    rows = load_rows(sensors, rate, points, scans, Config.parse({"backend": backend}))
    show(report("load", rows, backend=backend), tuple(rows[0]), as_json)


@app.command("confidence")
def confidence(
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each simulated road.")] = 1,
    as_json: Json = False,
) -> None:
    """Mounting and surface on roads and ramps, in rooms, tunnels, on desks and decks: right, wrong, doubted."""
    from benchmarks.confidence import confidence_rows
    from roadbed.bench.timing import report

    rows = list(confidence_rows(range(301, 301 + seeds)))
    sure, wrong = [row for row in rows if row["sure"]], [row for row in rows if not row["right"]]
    counts = {
        "scenes": len(rows),
        "sure": len(sure),
        "sure_and_right": sum(row["right"] for row in sure),
        "wrong": len(wrong),
        "wrong_and_announced": sum(not row["sure"] for row in wrong),
    }
    show(report("confidence", rows, backend="cpu", **counts), tuple(rows[0]), as_json)
    if not as_json:
        print("; ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items()))


@app.command("low-objects")
def low_objects(as_json: Json = False) -> None:
    """Boxes, furniture legs and a parapet around a low sensor: % of their points that are not ground."""
    from benchmarks.indoor import low_rows
    from roadbed.bench.timing import report

    rows = list(low_rows())
    show(report("low-objects", rows, backend="cpu"), tuple(rows[0]), as_json)


@app.command("leave-one-out-ground")
def leave_one_out_ground(
    folder: Annotated[Path | None, typer.Argument(help="Real scans, laid out as docs/data.md says.")] = None,
    rule: Annotated[list[str] | None, typer.Option(help="Only this rule; may be repeated.")] = None,
    scans_of: Annotated[list[str] | None, typer.Option("--set", help="Only this set; may be repeated.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seed of the simulated scenes; 211 to 215 by default.")] = None,
    scans: Annotated[int, typer.Option(min=1, help="Scans of each seed.")] = 4,
    keep: Annotated[Path | None, typer.Option(help="JSON lines: records in it are not measured again.")] = None,
) -> None:
    """Remove each ground rule alone: the change of accuracy by set, with its spread over seeds."""
    from benchmarks.leave_one_out_ground import RULES, SETS, Study, changes, markdown

    study = Study(
        chosen_of(rule, RULES, "rule"), chosen_of(scans_of, SETS, "set"), seed or range(211, 216), scans, folder
    )
    records = [json.loads(line) for line in keep.read_text().splitlines()] if keep and keep.exists() else []
    for record in study.records({(r["rule"], r["set"], r["unit"]) for r in records}):
        records.append(record)
        if keep:
            with keep.open("a") as file:
                file.write(json.dumps(record) + "\n")
    print(markdown(changes(records)))


if __name__ == "__main__":
    main(app)
