# SPDX-License-Identifier: Apache-2.0
"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from roadbed.config import Config

SourceLocation = Annotated[str, typer.Argument(help="A file, folder, bag, or simulated drive such as sim:city.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML configuration.")]
Preset = Annotated[str, typer.Option(help="default or paper; --config wins over it.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")]
Backend = Annotated[str | None, typer.Option(help="cpu, opencl, cuda or auto.")]


def load_config(file: Path | None, preset: str = "default", backend: str | None = None) -> Config:
    """The configuration a command line asks for."""
    from roadbed.config import Config

    config = Config.load(file) if file else Config.preset(preset)
    return config.with_changes(backend=backend) if backend else config
