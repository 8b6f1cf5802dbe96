# SPDX-License-Identifier: Apache-2.0
"""Arguments that several commands share."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from roadbed.config import Config
    from roadbed.sources import Source

SourceLocation = Annotated[str, typer.Argument(help="A file, folder, bag, or simulated drive such as sim:city.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML configuration.")]
Preset = Annotated[str, typer.Option(help="default or paper; --config wins over it.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")]
Force = Annotated[bool, typer.Option("--force", help="Replace results of Roadbed that are there already.")]
Backend = Annotated[str | None, typer.Option(help="cpu, opencl, cuda or auto.")]


def load_config(file: Path | None, preset: str = "default", backend: str | None = None) -> Config:
    """The configuration a command line asks for."""
    from roadbed.config import Config

    config = Config.load(file) if file else Config.preset(preset)
    return config.with_changes(backend=backend) if backend else config


def command_line() -> str:
    """The command as it was typed, for reports and manifests."""
    return shlex.join(["roadbed", *sys.argv[1:]])


def files_of(source: Source) -> list[str]:
    """What a source reads from: its own path, and those of its options that name files. Results stay off them."""
    named = [source.path, *(str(value) for value in source.options.values())]
    return [path for path in named if os.path.exists(path)]
