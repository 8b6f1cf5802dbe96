# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks strays`: what stray returns below the ground cost."""

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.bench import CPU, BackendOption, show
from roadbed.cli.screen import Json


def strays(
    data: Annotated[Path | None, typer.Argument(help="Folder with labelled scans; none: the simulator alone.")] = None,
    along_beam: Annotated[
        bool, typer.Option("--along-beam", help="Instead: strays along the beam, sensor by sensor.")
    ] = False,
    seed: Annotated[list[int] | None, typer.Option(help="Seed of the scenes along the beam; 931 and 932.")] = None,
    sensor: Annotated[
        list[str] | None, typer.Option(help="Only this sensor along the beam, by its name or a part of it.")
    ] = None,
    share: Annotated[list[float] | None, typer.Option(help="Share of strays along the beam; 0, 0.05 and 0.1.")] = None,
    backend: BackendOption = CPU,
    as_json: Json = False,
) -> None:
    """Measure what stray returns below the ground cost.

    Sets x share of strays x mounting known or estimated: F1, its loss, the worst scan, the strays that are labelled low
    outliers, and F1 with the strays removed. Then scans of the simulated city with multipath. Or, along the beam: mean
    and least F1 of each sensor in five scenes, and which labels the strays get, in %.
    """
    from benchmarks.multipath import RIG_NAMES, SHARES, multipath_rows
    from benchmarks.strays import city_rows, real_scenes, simulated_scenes, stray_rows
    from roadbed.bench.timing import report

    if along_beam:
        rigs = [name for name in RIG_NAMES if not sensor or any(part in name for part in sensor)]
        if not rigs:
            raise typer.BadParameter(
                f"sensor: found {', '.join(sensor or ())}, expected part of {', '.join(RIG_NAMES)}"
            )
        rows = list(multipath_rows(seed or (931, 932), rigs, shares=share or SHARES, backend=backend))
        show(report("strays", rows, backend=backend), tuple(rows[0]), as_json)
        return
    scenes = chain(real_scenes(data) if data else (), simulated_scenes())
    rows = [*stray_rows(scenes, backend=backend), *city_rows(backend=backend)]
    out = report("strays", rows, backend=backend)
    show(out, ("set", "mounting", "strays", "f1", "loss", "worst", "low_outliers", "bound"), as_json)
