# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks peers`: the ground filter next to other projects."""

from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.bench import show
from roadbed.cli.screen import Json, progress, table


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
    from benchmarks import peers as bench
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
