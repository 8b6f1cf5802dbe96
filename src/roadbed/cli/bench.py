# SPDX-License-Identifier: Apache-2.0
"""`roadbed bench`: speed, with the papers' numbers beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from roadbed.cli.screen import Json, print_json, progress, table

app = typer.Typer(help="Measure speed; the papers' numbers stand beside ours.", no_args_is_help=True)
BackendOption = Annotated[str, typer.Option(help="cpu, opencl, cuda or auto")]


@app.command("ground")
def ground(
    backend: BackendOption = "cpu",
    soak: Annotated[int, typer.Option(help="Also drive this many frames in a loop.")] = 0,
    as_json: Json = False,
) -> None:
    """Both ground methods: HDL-64E and 4 x LUX, cold and warm, and how cost grows with points and cells."""
    from roadbed.bench.ground import ground_rows
    from roadbed.bench.ground import soak as soak_drive
    from roadbed.bench.timing import report

    rows = list(progress(ground_rows(backend), "measuring"))
    endless = {"soak": soak_drive(soak, backend)} if soak else {}
    columns = ("case", "points", "cells", "iterations", "median_ms", "p95_ms", "paper_ms", "ns_per_point")
    _show("ground", backend, rows, columns, as_json, report("ground", rows, backend=backend, **endless))


def _show(
    name: str, backend: str, rows: Sequence[dict[str, Any]], columns: Sequence[str], as_json: bool, out: Any
) -> None:
    if as_json:
        print_json(out)
        return
    table(f"roadbed bench {name} --backend {backend}", columns, [[row.get(key) for key in columns] for row in rows])
    if "soak" in out:
        print("; ".join(f"{key} {value}" for key, value in out["soak"].items()))
