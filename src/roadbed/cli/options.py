# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share: which source to open, with which configuration, on which device."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from roadbed.core.errors import ConfigError, InputError, RoadbedError

if TYPE_CHECKING:
    from roadbed.config import Config
    from roadbed.core.frames import Scan
    from roadbed.sources import Source
    from roadbed.sources.read_options import ReadOptions

# Enumerations, so that --help lists the choices. The values are those of the configuration.
BackendName = StrEnum("BackendName", ["cpu", "opencl", "cuda", "auto"])
PresetName = StrEnum("PresetName", ["default", "paper", "small"])
MethodName = StrEnum("MethodName", ["stcrf", "variance"])

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")]
Force = Annotated[bool, typer.Option("--force", help="Replace earlier results.")]
Frames = Annotated[int | None, typer.Option(min=1, help="Stop after this many scans.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML configuration; see roadbed config show.")]
Preset = Annotated[PresetName | None, typer.Option(help="Built-in configuration, in place of --config.")]
Backend = Annotated[BackendName | None, typer.Option(help="Where to compute; overrides the configuration.")]
Device = Annotated[str | None, typer.Option(help="Accelerator: index or part of its name; see roadbed info.")]
Layers = Annotated[bool, typer.Option(help="Write labels and layers of every frame.")]
Kind = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="Kind of source, if unclear; see roadbed info.")
]
FrameIndex = Annotated[int, typer.Option(help="Which scan of a sequence, from 0.")]
Occupancy = Annotated[bool, typer.Option(help="Also estimate occupancy and moving objects.")]


def load_settings(
    config: Path | None, preset: str | None = None, backend: str | None = None, device: str | None = None
) -> Config:
    """The configuration of a file or a preset, with the backend and device of the command line."""
    from roadbed.config import Config

    if config and preset:
        raise ConfigError(f"--config {config} and --preset {preset}: expected one of them, found both")
    loaded = Config.load(config) if config else Config.preset(str(preset or PresetName.default))
    changes = {"backend": backend and str(backend), "device": device}
    loaded = loaded.with_changes(**{name: value for name, value in changes.items() if value is not None})
    if device is not None and loaded.backend == "cpu":
        raise ConfigError(f"device {device!r}: expected a backend with devices: opencl, cuda or auto")
    return loaded


@dataclass(frozen=True, kw_only=True)
class Processing:
    """Options of every command that processes scans: the mounting of the sensor, and the configuration."""

    mounting: Annotated[
        tuple[float, float, float, float, float, float] | None,
        typer.Option(metavar="X Y Z ROLL PITCH YAW", help="Sensor over the road: m, degrees; positive pitch is down."),
    ] = None
    height: Annotated[float | None, typer.Option(help="Sensor height, m; tilt is still estimated.")] = None
    config: ConfigFile = None
    preset: Preset = None
    method: Annotated[MethodName | None, typer.Option(help="Ground: surface over time, or variance per cell.")] = None
    backend: Backend = None
    device: Device = None

    def settings(self) -> Config:
        """The configuration with the changes of the options."""
        config = load_settings(self.config, self.preset, self.backend, self.device)
        if self.method is not None:
            config = config.with_changes(ground={"method": str(self.method)})
        if self.height is not None:
            config = config.with_changes(ground={"mounting": {"height": self.height}})
        return config


@dataclass(frozen=True, kw_only=True)
class Perception(Processing):
    """Options of every command that reads a source: how to read the scans and how to process them."""

    kind: Kind = None
    start: Annotated[int, typer.Option(min=0, help="Index of the first scan.")] = 0
    stride: Annotated[int, typer.Option(min=1, help="Use every STRIDE-th scan.")] = 1
    odometry: Annotated[
        str | None,
        typer.Option(
            metavar="kiss-icp|FILE|TOPIC|none",
            help="Poses: estimated, TUM or KITTI file, bag topic; else the source's.",
        ),
    ] = None
    deskew: Annotated[bool, typer.Option(help="Remove motion distortion where point times are known.")] = True

    def read_options(self, frames: int | None = None) -> ReadOptions:
        """How to read a source, at most `frames` scans of it."""
        from roadbed.sources.read_options import ReadOptions

        return ReadOptions(
            self.kind, self.start, self.stride, frames, self.mounting, self.height, self.odometry, self.deskew
        )


@dataclass(frozen=True)
class Request(Perception):
    """One source with the options for it."""

    source: Annotated[str, typer.Argument(help="File, folder, bag, or simulated sequence such as sim:city.")]

    def scans(self, frames: int | None = None) -> Source:
        """The scans from `start` on, every `stride`-th, at most `frames`, with their mounting."""
        return self.read_options(frames).open(self.source)

    def scan(self, scans: Source, index: int) -> Scan:
        """The scan that `--frame` names."""
        if not 0 <= index < len(scans):
            raise InputError(f"{self.source}: --frame {index}: expected 0 to {len(scans) - 1}")
        return scans[index]

    def odometry_used(self, source: Source) -> str:
        """One line for the screen."""
        from roadbed.sources.odometry import describe_odometry

        return describe_odometry(source, self.odometry)


def command_line() -> str:
    """The command as it was typed, for reports and manifests."""
    return shlex.join(["roadbed", *sys.argv[1:]])


def prepare(source: str, settings: Config, *, occupancy: bool = True) -> None:
    """Compile the kernels of a command on all cores before its first frame."""
    from roadbed.warm_up.processes import cold, warm_up

    parts = ["simulator"] if source.startswith("sim:") else []
    if settings.backend == "cpu":
        parts += ["variance"] if settings.ground.method == "variance" else ["ground", "labels", "mounting"]
    parts += ["occupancy"] if occupancy else []
    missing = cold(parts)
    if len(missing) > 1:  # the command compiles a single part by itself
        try:
            warm_up(missing)
        except (RoadbedError, OSError) as error:  # of a job, or no process can be started
            print(f"roadbed: {error}; kernels are compiled when they are used", file=sys.stderr, flush=True)


def expand_options(command: Callable[..., None], without: Collection[str] = ()) -> Callable[..., None]:
    """Make a command for typer: each field of a parameter that is a dataclass becomes an option, except `without`."""
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for parameter in _parameters(command):
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += [option for option in _parameters(parameter.annotation) if option.name not in without]
        else:
            parameters.append(parameter)

    def call(**values: Any) -> None:
        for name, group in groups.items():
            fields = [field.name for field in _parameters(group) if field.name not in without]
            values[name] = group(**{field: values.pop(field) for field in fields})
        command(**values)

    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def _parameters(of: Any) -> list[Parameter]:
    """The parameters of a function, or the fields of a dataclass, with their types."""
    hints = get_type_hints(of, include_extras=True)
    return [
        parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY)
        for parameter in signature(of).parameters.values()
    ]
