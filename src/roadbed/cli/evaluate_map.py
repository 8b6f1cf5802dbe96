# SPDX-License-Identifier: Apache-2.0
"""`roadbed evaluate map`: a map beside the terrain of the simulated drive it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.screen import Json, print_json, progress, table


def map(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the map.")],
    source: Annotated[str, typer.Argument(help="The simulated drive, as it was given to roadbed run --map.")],
    stride: Annotated[int, typer.Option(min=1, help="Every so many-th scan, as it was given to roadbed run.")] = 1,
    drive: Annotated[bool, typer.Option("--drive", help="Make the map first, in a new folder.")] = False,
    as_json: Json = False,
) -> None:
    """Errors of the elevation where the ground was seen."""
    from roadbed.evaluate.map import evaluate_map
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
