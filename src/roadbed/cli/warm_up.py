# SPDX-License-Identifier: Apache-2.0
"""`roadbed warm-up`, and what other commands do before their first frame: compile in parallel, with progress."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from roadbed.cli.screen import Json, print_json
from roadbed.core.errors import RoadbedError

if TYPE_CHECKING:
    from roadbed.config import Config


def warm_up(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="ground, occupancy, simulator, mounting, variance, pictures, files; all of them if none."),
    ] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes at a time; one per core.")] = None,
    as_json: Json = False,
) -> None:
    """Compile for this machine now, so that the first drive starts at once. Done once; repeating it costs a second."""
    from roadbed.kernels.cache import folder
    from roadbed.warm_up.processes import JOBS
    from roadbed.warm_up.processes import warm_up as compile_all

    begun = time.monotonic()
    kernels = compile_all(parts or JOBS, processes)
    facts = {"kernels": kernels, "seconds": round(time.monotonic() - begun, 1), "folder": str(folder())}
    if as_json:
        print_json(facts)
    elif kernels:
        print(f"compiled {kernels} kernels in {facts['seconds']} s, kept in {facts['folder']}")
    else:
        print(f"everything is compiled, in {facts['folder']}")


def prepare(source: str, settings: Config, *, occupancy: bool = True) -> None:
    """Before a command's first frame: where several parts are cold, all cores compile them."""
    from roadbed.warm_up.processes import cold
    from roadbed.warm_up.processes import warm_up as compile_all

    wanted = ["simulator"] if source.startswith("sim:") else []
    if settings.backend == "cpu":
        wanted += ["variance"] if settings.ground.method == "variance" else ["ground", "mounting"]
    wanted += ["occupancy"] if occupancy else []
    waiting = cold(wanted)
    if len(waiting) > 1:  # one part alone is compiled by the command itself, as it goes
        with suppress(RoadbedError, OSError):  # and so is everything where no process can be started
            compile_all(waiting)
