# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks live-soak`."""

from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.bench import show
from roadbed.cli.screen import Json


def live_soak(
    transport: Annotated[str, typer.Option(help="stream, ros1 (starts its own rosmaster) or dds.")] = "stream",
    seconds: Annotated[float, typer.Option(min=1, help="Length of the run.")] = 300.0,
    rate: Annotated[float, typer.Option(min=0.1, max=1000, help="Scans per second of the publisher.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Of the moments when publisher and master are killed.")] = 1,
    restarts: Annotated[bool, typer.Option(help="Kill and restart publisher and master.")] = True,
    configuration: Annotated[Path, typer.Option("--config", "-c")] = Path("scripts/soak.yaml"),
    as_json: Json = False,
) -> None:
    """Run live in fast motion; publisher and master are killed and restarted at random: memory, invalid results."""
    from benchmarks.live_soak import DAY_SCANS, live_soak_rows
    from benchmarks.soak import growth
    from roadbed.bench.timing import report

    rows = list(live_soak_rows(transport, seconds, rate, seed, configuration, restarts))
    last = rows[-1]
    facts = {f"{name}_growth": growth(rows, name) for name in ("memory_mb", "handles", "threads")}
    facts["hours_for_a_day"] = round(DAY_SCANS * last["seconds"] / max(last["labelled"], 1) / 3600, 1)
    show(report("live-soak", rows if as_json else rows[::3], backend="cpu", **facts), tuple(last), as_json)
    if not as_json:
        print("; ".join(f"{key} {value:.4g}" for key, value in facts.items() if value is not None))
