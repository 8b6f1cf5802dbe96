# SPDX-License-Identifier: Apache-2.0
"""The command line. Heavy imports live inside the commands, so that `--help` answers at once."""

from __future__ import annotations

import sys

import typer

from roadbed.cli import bench, config, demo, evaluate, info, run, segment, simulate, view
from roadbed.errors import RoadbedError

app = typer.Typer(
    name="roadbed",
    help="Ground, obstacles, elevation and dynamic occupancy from raw LiDAR.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("segment")(segment.segment)
app.add_typer(evaluate.app, name="evaluate")
app.add_typer(bench.app, name="bench")
app.command("simulate")(simulate.simulate)
app.command("info")(info.info)
app.command("view")(view.view)
app.add_typer(config.app, name="config")


def main() -> None:
    """Run a command; bad input ends in one line and status 2, an interrupt in status 130."""
    try:
        app()
    except RoadbedError as error:
        print(f"roadbed: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("roadbed: interrupted", file=sys.stderr)
        sys.exit(130)
