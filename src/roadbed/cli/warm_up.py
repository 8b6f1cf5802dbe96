# SPDX-License-Identifier: Apache-2.0
"""`roadbed warm-up`: compile all kernels in parallel."""

import time
from typing import Annotated

import typer

from roadbed.cli.screen import Json, print_json


def warm_up(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="ground, labels, occupancy, simulator, mounting, variance, pictures, files; default: all."),
    ] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Parallel processes; one per core by default.")] = None,
    as_json: Json = False,
) -> None:
    """Compile all kernels now, not at their first use."""
    from roadbed.kernels.cache import folder
    from roadbed.warm_up.processes import JOBS
    from roadbed.warm_up.processes import warm_up as compile_all

    begun = time.monotonic()
    kernels = compile_all(parts or JOBS, processes)
    facts = {"kernels": kernels, "seconds": round(time.monotonic() - begun, 1), "folder": str(folder())}
    if as_json:
        print_json(facts)
    elif kernels:
        print(f"compiled {kernels} kernels in {facts['seconds']} s into {facts['folder']}")
    else:
        print(f"all kernels are compiled already, in {facts['folder']}")
