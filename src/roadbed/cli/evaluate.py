# SPDX-License-Identifier: Apache-2.0
"""`roadbed evaluate`: how good the results are where truth is known."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.evaluate_occupancy import occupancy
from roadbed.cli.options import ConfigFile, Preset, SourceLocation, load_config
from roadbed.cli.screen import Json, print_json, progress, table

app = typer.Typer(help="Score results where truth is known.", no_args_is_help=True)
app.command("occupancy")(occupancy)


@app.command("ground")
def ground(
    source: SourceLocation,
    protocol: Annotated[str, typer.Option(help="patchwork++ or patchwork")] = "patchwork++",
    config: ConfigFile = None,
    preset: Preset = "default",
    backend: Annotated[str | None, typer.Option(help="cpu, opencl, cuda or auto")] = None,
    elevation: Annotated[
        Path | None, typer.Option(help="Folder of true elevations, one .npy per scan: see docs/data.md.")
    ] = None,
    elevation_origin: Annotated[
        tuple[float, float], typer.Option(help="x and y of the first node of those arrays, m.")
    ] = (-49.5, -49.5),
    range_m: Annotated[float, typer.Option("--range", help="Score elevation within this many metres.")] = 40.0,
    compare_temporal: Annotated[
        bool, typer.Option("--compare-temporal", help="Also score with nothing carried from scan to scan.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score labels against true classes and the surface against true elevation."""
    from roadbed import open as open_source
    from roadbed.evaluate.elevation import elevation_judge
    from roadbed.evaluate.ground import evaluate_ground

    scans = open_source(source)
    settings = load_config(config, preset, backend)
    run = partial(
        evaluate_ground,
        scans,
        protocol_name=protocol,
        elevation=elevation_judge(scans, elevation, elevation_origin, range_m),
        watch=lambda items: progress(items, "evaluating", len(scans)),
    )
    out = run(settings).as_dict()
    if compare_temporal:
        alone = settings.with_changes(ground={"stcrf": settings.ground.stcrf.with_changes(gamma=0.0).model_dump()})
        scans.sequential = False
        without = run(alone).as_dict()
        out["without_temporal"] = {key: value for key, value in without.items() if key != "per_frame"}
    if as_json:
        print_json(out)
        return
    keys = [key for key in out["per_frame"][0] if key != "frame"]
    rows = [[row["frame"], *(row.get(key) for key in keys)] for row in out["per_frame"]]
    table(f"{source}, protocol {out['protocol']}", ["frame", *keys], rows)
    table("Mean over frames", ["measure", "value"], [(k, v) for k, v in out.items() if isinstance(v, float)])
    if compare_temporal:
        values = out["without_temporal"].items()
        table("Without the temporal term", ["measure", "value"], [(k, v) for k, v in values if isinstance(v, float)])
