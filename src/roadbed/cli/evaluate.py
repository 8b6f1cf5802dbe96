# SPDX-License-Identifier: Apache-2.0
"""`roadbed evaluate`: accuracy against ground truth."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import Frames, Request, expand_options, prepare
from roadbed.cli.screen import Json, print_json, progress, table

if TYPE_CHECKING:
    from roadbed.evaluate.elevation import ElevationScorer
    from roadbed.sources import Source

app = typer.Typer(help="Score results against ground truth.", no_args_is_help=True)
_MOVER_COLUMNS = (
    "id",
    "kind",
    "true_speed",
    "estimated_speed",
    "error_percent",
    "within_10_percent",
    "found_after_s",
    "settled_after_s",
    "settled_seeds",
    "dynamic_share_percent",
    "missed_frames",
    "unseen_frames",
    "missed_percent",
)


@app.command("ground")
@expand_options
def ground(
    request: Request,
    protocol: Annotated[str, typer.Option(help="patchwork++ or patchwork: which classes are ground.")] = "patchwork++",
    frames: Frames = None,
    elevation: Annotated[Path | None, typer.Option(help="Folder of true elevations, see docs/data.md.")] = None,
    elevation_origin: Annotated[
        tuple[float, float], typer.Option(metavar="X Y", help="Position of their first node, m.")
    ] = (
        -49.5,
        -49.5,
    ),
    range_m: Annotated[float, typer.Option("--range", help="Score elevation up to this range, m.")] = 40.0,
    compare_temporal: Annotated[
        bool, typer.Option("--compare-temporal", help="Also score each scan without the earlier ones.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score labels and elevation against ground truth."""
    from roadbed.evaluate.ground import evaluate_ground

    scans = request.scans(frames)
    poses = request.odometry_used(scans)
    settings = request.settings()
    prepare(request.source, settings, occupancy=False)
    run = partial(
        evaluate_ground,
        scans,
        protocol_name=protocol,
        elevation=_elevation_scorer(scans, elevation, elevation_origin, range_m),
        watch=lambda items: progress(items, "evaluating", len(scans)),
    )
    out = run(settings)
    if compare_temporal:
        scans.sequential = False
        without = run(settings.with_changes(ground={"stcrf": {"gamma": 0.0}}))
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


def _elevation_scorer(
    scans: Source, folder: Path | None, origin: tuple[float, float], range_m: float
) -> ElevationScorer | None:
    """The true surface; arrays of a folder belong to scans by their number in the whole source."""
    from roadbed.evaluate.elevation import ReferenceElevation, SimulatedElevation

    if folder is None:
        return SimulatedElevation(scans, range_m) if hasattr(scans, "truth") else None
    reference = ReferenceElevation(folder, *origin)
    numbers = getattr(scans, "numbers", None)
    return reference if numbers is None else lambda index, frame: reference(numbers[index], frame)


@app.command("occupancy")
@expand_options
def occupancy(
    request: Request,
    frames: Frames = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of random seeds to average over.")] = 1,
    masks: Annotated[
        Path | None, typer.Option(help="JSON file of unannotated moving objects, see docs/occupancy.md.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score occupancy against annotated boxes or simulated truth."""
    from roadbed.evaluate.occupancy import evaluate_occupancy, mean_over_seeds

    settings = request.settings()
    scans = request.scans(frames)
    prepare(request.source, settings)
    runs = [
        evaluate_occupancy(
            scans,
            settings.with_changes(seed=settings.seed + k),
            masks,
            watch=lambda items: progress(items, "evaluating", len(scans)),
        )
        for k in range(seeds)
    ]
    out = mean_over_seeds(runs)
    if as_json:
        print_json(out)
        return
    _print_tables(out)


def _print_tables(out: dict[str, Any]) -> None:
    if out["movers"]:
        table("Movers", _MOVER_COLUMNS, [[row[name] for name in _MOVER_COLUMNS] for row in out["movers"]])
    if out["standing"]:
        rows = [[row["id"], row["kind"], row["dynamic_share_percent"]] for row in out["standing"]]
        table("Standing", ("id", "kind", "dynamic %"), rows)
    values = [(key, value) for key, value in out.items() if isinstance(value, int | float)]
    table(f"{out['source']}, against {out['against']}", ("measure", "value"), values)
