# SPDX-License-Identifier: Apache-2.0
"""`roadbed config`: show the defaults or a preset, check a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roadbed.cli.options import PresetName
from roadbed.cli.screen import Json, print_json
from roadbed.core.errors import InputError

if TYPE_CHECKING:
    from roadbed.config.base import Stage

app = typer.Typer(help="Show or check configurations.", no_args_is_help=True)


@app.command("show")
def show(
    file: Annotated[Path | None, typer.Argument(help="A YAML file; without it the defaults.")] = None,
    preset: Annotated[PresetName | None, typer.Option(help="A preset in place of the defaults.")] = None,
    as_json: Json = False,
) -> None:
    """Print a configuration as YAML with every parameter explained."""
    from roadbed.config import Config

    if file and preset:
        raise InputError(f"{file} and --preset {preset}: expected one of them, found both")
    config = Config.load(file) if file else Config.preset(str(preset or PresetName.default))
    if as_json:
        print_json(config.model_dump(mode="json"))
    else:
        print("\n".join(_explained(config)))


@app.command("check")
def check(file: Annotated[Path, typer.Argument(help="A YAML file.")], as_json: Json = False) -> None:
    """Check a configuration file; exit status 2 if it is invalid."""
    from roadbed.config import Config

    config = Config.load(file)
    if as_json:
        print_json({"file": str(file), "valid": True, "method": config.ground.method})
    else:
        print(f"{file}: valid ({config.ground.method}, backend {config.backend})")


def _explained(stage: Stage, indent: str = "") -> Iterator[str]:
    """Lines of YAML, each with the description of its parameter or stage as a comment."""
    import yaml

    from roadbed.config.base import Stage

    values = stage.model_dump(mode="json")
    for name, field in type(stage).model_fields.items():
        value = getattr(stage, name)
        meaning = (value.__doc__ if isinstance(value, Stage) else field.description) or ""
        comment = f"  # {' '.join(meaning.split())}" if meaning else ""
        if isinstance(value, Stage):
            yield f"{indent}{name}:{comment}"
            yield from _explained(value, f"{indent}  ")
        else:
            text = yaml.safe_dump(values[name], default_flow_style=True, width=1000).removesuffix("...\n").strip()
            yield f"{indent}{name}: {text}{comment}"
