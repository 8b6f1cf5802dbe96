# SPDX-License-Identifier: Apache-2.0
"""`roadbed evaluate occupancy`: speeds, false alarms and cells against simulated truth or annotated boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from roadbed.cli.options import Frames, Request
from roadbed.cli.screen import Json, print_json, progress, table
from roadbed.cli.spread import spread
from roadbed.cli.warm_up import prepare

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


@spread
def occupancy(
    request: Request,
    frames: Frames = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs with different random seeds; figures are their means.")] = 1,
    masks: Annotated[
        Path | None,
        typer.Option(help="JSON file of places where something moves without a box: see docs/occupancy.md."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score the occupancy of a drive with annotated boxes, or of a simulated one."""
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
