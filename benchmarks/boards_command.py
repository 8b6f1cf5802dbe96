# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks boards`."""

from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.bench import show
from roadbed.cli.screen import Json, progress
from roadbed.core.errors import ConfigError


def boards(
    ghz: Annotated[float | None, typer.Option(min=0.1, help="Clock of this machine's cores.")] = None,
    sensor: Annotated[list[str] | None, typer.Option(help="Only this sensor; may be repeated.")] = None,
    frames: Annotated[int, typer.Option(min=20, help="Scans of each recording.")] = 40,
    as_json: Json = False,
) -> None:
    """Measure which sensor runs on a small board.

    Cores, clock and memory of a process are limited by control groups of Linux, which needs root. Compile the kernels
    before, with roadbed warm-up.
    """
    from benchmarks.boards import BOARDS, SENSORS, WORK, board_rows, clock_ghz
    from roadbed.bench.timing import report

    clock, sensors = ghz or clock_ghz(Path("/proc/cpuinfo").read_text()), sensor or list(SENSORS)
    if clock is None:
        raise ConfigError("--ghz: this machine does not say its clock, expected it given")
    count = len(sensors) * len(BOARDS) * len(WORK)
    rows = list(progress(board_rows(clock, BOARDS, sensors, frames), "boards", count))
    show(report("boards", rows, backend="cpu", machine_ghz=round(clock, 2)), tuple(rows[0]), as_json)
