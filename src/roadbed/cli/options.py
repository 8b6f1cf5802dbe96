# SPDX-License-Identifier: Apache-2.0
"""Arguments that several commands share, and the one way to open what they name."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roadbed.core.errors import ConfigError

if TYPE_CHECKING:
    from roadbed.config import Config
    from roadbed.sources import Source
    from roadbed.sources.read_options import ReadOptions

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")]
Force = Annotated[bool, typer.Option("--force", help="Replace results of Roadbed that are there already.")]
Frames = Annotated[int | None, typer.Option(min=1, help="Stop after this many scans.")]
Backend = Annotated[str | None, typer.Option(help="cpu, opencl, cuda or auto.")]
Device = Annotated[str | None, typer.Option(help="Which accelerator: its index or a part of its name.")]


@dataclass(frozen=True, kw_only=True)
class Perception:
    """How scans are read and perceived: what every command that reads sources can be told."""

    kind: Annotated[
        str | None,
        typer.Option("--source", metavar="NAME", help="Kind of source, where the path alone does not tell."),
    ] = None
    start: Annotated[int, typer.Option(min=0, help="Number of the first scan to use.")] = 0
    stride: Annotated[int, typer.Option(min=1, help="Use every so many-th scan.")] = 1
    mounting: Annotated[
        tuple[float, float, float, float, float, float] | None,
        typer.Option(
            metavar="X Y Z ROLL PITCH YAW",
            help="Where the sensor sits over the road: m and degrees, a positive pitch lowers the view.",
        ),
    ] = None
    height: Annotated[
        float | None, typer.Option(help="m of the sensor over the road; the rest of its mounting is estimated.")
    ] = None
    odometry: Annotated[
        str | None,
        typer.Option(
            metavar="kiss-icp|FILE|TOPIC|none",
            help="Poses: estimated, of a TUM or KITTI file, of a bag's topic, or none; the source's own by default.",
        ),
    ] = None
    deskew: Annotated[
        bool, typer.Option(help="Remove motion distortion where times of the points and motion are known.")
    ] = True
    config: Annotated[Path | None, typer.Option("--config", "-c", help="YAML configuration.")] = None
    preset: Annotated[str, typer.Option(help="default or paper; --config wins over it.")] = "default"
    method: Annotated[str | None, typer.Option(help="stcrf or variance; the configuration's by default.")] = None
    backend: Backend = None
    device: Device = None

    def settings(self) -> Config:
        """The configuration asked for."""
        from roadbed.config import Config

        config = Config.load(self.config) if self.config else Config.preset(self.preset)
        wanted = {"backend": self.backend, "device": self.device}
        config = config.with_changes(**{name: value for name, value in wanted.items() if value is not None})
        if self.device is not None and config.backend == "cpu":
            raise ConfigError(f"device {self.device!r}: expected a backend with devices: opencl, cuda or auto")
        if self.method is not None:
            config = config.with_changes(ground={"method": self.method})
        if self.height is not None:
            mounting = config.ground.mounting.with_changes(height=self.height)
            config = config.with_changes(ground={"mounting": mounting.model_dump()})
        return config

    def opening(self, frames: int | None = None) -> ReadOptions:
        """How a source is to be read, at most `frames` scans of it."""
        from roadbed.sources.read_options import ReadOptions

        return ReadOptions(
            self.kind, self.start, self.stride, frames, self.mounting, self.height, self.odometry, self.deskew
        )


@dataclass(frozen=True)
class Request(Perception):
    """Which scans, and how to perceive them."""

    source: Annotated[str, typer.Argument(help="A file, folder, bag, or simulated drive such as sim:city.")]

    def scans(self, frames: int | None = None) -> Source:
        """The source asked for: its scans from `start` on, every `stride`-th, at most `frames`, with their mounting."""
        return self.opening(frames).open(self.source)

    def odometry_used(self, source: Source) -> str:
        """One line for the screen."""
        from roadbed.sources.odometry import describe_odometry

        return describe_odometry(source, self.odometry)


def command_line() -> str:
    """The command as it was typed, for reports and manifests."""
    return shlex.join(["roadbed", *sys.argv[1:]])
