# SPDX-License-Identifier: Apache-2.0
"""`roadbed config`: show the defaults or a preset, check a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadbed.cli.screen import Json, print_json

app = typer.Typer(help="Show or check configurations.", no_args_is_help=True)


@app.command("show")
def show(
    file: Annotated[Path | None, typer.Argument(help="A YAML file; without it the defaults.")] = None,
    preset: Annotated[str, typer.Option(help="default or paper")] = "default",
    as_json: Json = False,
) -> None:
    """Print a complete configuration: every parameter with its value."""
    from roadbed.config import Config

    config = Config.load(file) if file else Config.preset(preset)
    if as_json:
        print_json(config.model_dump(mode="json"))
    else:
        print(config.dumps(), end="")


@app.command("check")
def check(file: Annotated[Path, typer.Argument(help="A YAML file.")], as_json: Json = False) -> None:
    """Say whether a file is a valid configuration; one line and status 2 when it is not."""
    from roadbed.config import Config

    config = Config.load(file)
    if as_json:
        print_json({"file": str(file), "valid": True, "method": config.ground.method})
    else:
        print(f"{file}: valid ({config.ground.method}, backend {config.backend})")
