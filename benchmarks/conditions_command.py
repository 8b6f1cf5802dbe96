# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks conditions`."""

from typing import Annotated

import typer

from benchmarks.occupancy_commands import chosen_of
from roadbed.cli.bench import show
from roadbed.cli.screen import Json, progress, table


def conditions(
    sensor: Annotated[list[str] | None, typer.Option(help="Only this sensor; may be repeated.")] = None,
    scene: Annotated[list[str] | None, typer.Option(help="Only this scene; may be repeated.")] = None,
    condition: Annotated[list[str] | None, typer.Option(help="Only this condition; may be repeated.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seed of the scenes; 931 by default.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="Sequences at once; set NUMBA_NUM_THREADS=1 beside it.")] = 1,
    as_json: Json = False,
) -> None:
    """Confidence over sensors, scenes and conditions: frames that are right, sure, and sure and wrong."""
    from benchmarks.conditions import CONDITIONS, SCENES, SENSORS, run_rows, summary, tasks_of
    from roadbed.bench.timing import report

    tasks = tasks_of(
        chosen_of(sensor, SENSORS, "sensor"),
        chosen_of(scene, SCENES, "scene"),
        chosen_of(condition, CONDITIONS, "condition"),
        seed or [931],
    )
    runs = [row for rows in progress(run_rows(tasks, processes), "runs", len(tasks)) for row in rows]
    tables = {key: summary(runs, key) for key in ("sensor", "scene", "condition")}
    for key, rows in tables.items():
        if not as_json:
            table(key, tuple(rows[0]), [list(row.values()) for row in rows])
    if as_json:
        show(report("conditions", tables["sensor"], backend="cpu", **tables, runs=runs), (), True)
        return
    silent = [row for row in runs if row["sure"] and not row["right"]]
    head = ("sensor", "scene", "condition", "seed", "index", "found_m", "mounting_right", "cells", "wrong_cells")
    table("sure and wrong", head, [[row[name] for name in head] for row in silent])
