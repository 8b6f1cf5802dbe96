# SPDX-License-Identifier: Apache-2.0
"""`roadbed evaluate`: how good the results are where truth is known."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roadbed.cli import evaluate_map
from roadbed.cli.evaluate_occupancy import occupancy
from roadbed.cli.evaluate_odometry import odometry
from roadbed.cli.options import Frames, Request
from roadbed.cli.screen import Json, print_json, progress, table
from roadbed.cli.spread import spread
from roadbed.cli.warm_up import prepare

if TYPE_CHECKING:
    from roadbed.evaluate.elevation import ElevationJudge
    from roadbed.sources import Source

app = typer.Typer(help="Score results where truth is known.", no_args_is_help=True)
app.command("occupancy")(occupancy)
app.command("odometry")(odometry)
app.command("map")(evaluate_map.map)


@app.command("ground")
@spread
def ground(
    request: Request,
    protocol: Annotated[str, typer.Option(help="patchwork++ or patchwork.")] = "patchwork++",
    frames: Frames = None,
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
    from roadbed.evaluate.ground import evaluate_ground

    scans = request.scans(frames)
    poses = request.odometry_used(scans)
    settings = request.settings()
    prepare(request.source, settings, occupancy=False)
    run = partial(
        evaluate_ground,
        scans,
        protocol_name=protocol,
        elevation=_elevation_judge(scans, elevation, elevation_origin, range_m),
        watch=lambda items: progress(items, "evaluating", len(scans)),
    )
    out = run(settings).as_dict()
    if compare_temporal:
        alone = settings.with_changes(ground={"stcrf": settings.ground.stcrf.with_changes(gamma=0.0).model_dump()})
        scans.sequential = False
        without = run(alone).as_dict()
        out["without_temporal"] = {key: value for key, value in without.items() if key != "per_frame"}
    out["odometry"] = poses
    if as_json:
        print_json(out)
        return
    keys = [key for key in dict.fromkeys(key for row in out["per_frame"] for key in row) if key != "frame"]
    rows = [[row["frame"], *(row.get(key) for key in keys)] for row in out["per_frame"]]
    table(f"{request.source}, protocol {out['protocol']}", ["frame", *keys], rows)
    print(f"odometry: {poses}")
    table("Mean over frames", ["measure", "value"], [(k, v) for k, v in out.items() if isinstance(v, float)])
    for key, unit in (("recall_by_range", "m"), ("recall_by_slope", "")):
        if key in out:
            bands = [(f"{name} {unit}", band["recall"], band["points"]) for name, band in out[key].items()]
            table(key.replace("_", " "), ["band", "recall, %", "ground points"], bands)
    if compare_temporal:
        values = out["without_temporal"].items()
        table("Without the temporal term", ["measure", "value"], [(k, v) for k, v in values if isinstance(v, float)])


def _elevation_judge(
    scans: Source, folder: Path | None, origin: tuple[float, float], range_m: float
) -> ElevationJudge | None:
    """The true surface; arrays of a folder belong to scans by their number in the whole source."""
    from roadbed.evaluate.elevation import elevation_judge

    judge = elevation_judge(scans, folder, origin, range_m)
    numbers = getattr(scans, "numbers", None)
    if judge is None or folder is None or numbers is None:
        return judge
    return lambda index, frame: judge(numbers[index], frame)
