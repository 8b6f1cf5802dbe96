# SPDX-License-Identifier: Apache-2.0
"""Which drives: locations, globs, lists and manifests, each with a name that stays the same from call to call."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from roadbed.config.base import Stage
from roadbed.core.errors import InputError
from roadbed.io.files import read_text
from roadbed.sources.location import parse_location
from roadbed.sources.read_options import ReadOptions

_NAME = r"[A-Za-z0-9][A-Za-z0-9._=-]{0,99}"


class ManifestLine(Stage):
    """A line of a manifest: what differs from drive to drive."""

    source: str
    name: Annotated[str, Field(pattern=f"^{_NAME}$")] | None = None  # of its folder
    kind: str | None = None
    start: Annotated[int, Field(ge=0)] | None = None
    stride: Annotated[int, Field(ge=1)] | None = None
    frames: Annotated[int, Field(ge=1)] | None = None
    mounting: tuple[float, float, float, float, float, float] | None = None
    odometry: str | None = None


@dataclass(frozen=True)
class Drive:
    """One drive: its frames belong together and come in order."""

    name: str  # of its folder
    location: str
    opening: ReadOptions


def find_drives(arguments: Sequence[str], opening: ReadOptions) -> list[Drive]:
    """Locations, globs such as 'drives/*.mcap', and @FILE: a list of locations or a manifest of JSON lines."""
    drives: dict[str, Drive] = {}
    for argument in arguments:
        for drive in _of_argument(argument, opening):
            known = drives.setdefault(drive.name, drive)
            if known != drive:
                raise InputError(f"drive {drive.name}: found {known.location} and {drive.location}, expected one")
    if not drives:
        raise InputError(f"{' '.join(arguments)}: found no drive, expected at least one")
    return sorted(drives.values(), key=lambda drive: drive.name)


def _of_argument(argument: str, opening: ReadOptions) -> Iterator[Drive]:
    if argument.startswith("@"):
        file = Path(argument[1:])
        for number, line in enumerate(read_text(file).splitlines(), 1):
            line = line.strip()
            if line and not line.startswith("#"):
                yield from _of_line(line, file, number, opening)
    else:
        yield from (_drive(location, opening) for location in _expanded(argument, Path()))


def _of_line(line: str, file: Path, number: int, opening: ReadOptions) -> Iterator[Drive]:
    if not line.startswith("{"):
        yield from (_drive(location, opening) for location in _expanded(line, file.parent))
        return
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: line {number}: expected an object of JSON ({error})") from None
    given: ManifestLine = ManifestLine.parse(values, f"{file}: line {number}")
    own = given.model_dump(exclude={"source", "name"}, exclude_none=True)
    for location in _expanded(given.source, file.parent):
        yield _drive(location, replace(opening, **own), given.name)


def _expanded(location: str, home: Path) -> list[str]:
    """A location, or those that a glob names; paths become absolute, as workers run in other folders."""
    path, mark, query = location.partition("?")
    if os.path.exists(home / location):
        return [os.path.abspath(home / location)]
    if any(sign in path for sign in "*[") and ":" not in path:
        found = sorted(glob.glob(str(home / path)))
        if not found:
            raise InputError(f"{location}: found nothing of that name, expected at least one drive")
        return [os.path.abspath(place) + mark + query for place in found]
    return [(os.path.abspath(home / path) if os.path.exists(home / path) else path) + mark + query]


def _drive(location: str, opening: ReadOptions, name: str | None = None) -> Drive:
    if opening.odometry is not None and os.path.isfile(opening.odometry):
        opening = replace(opening, odometry=os.path.abspath(opening.odometry))
    if name is None:
        path, _ = parse_location(location)
        words = re.sub(r"[^A-Za-z0-9._=-]+", "-", Path(path.removeprefix("sim:")).name).strip("-.")[:60]
        digest = hashlib.sha256(f"{location} {opening}".encode()).hexdigest()
        name = f"{words or 'drive'}-{digest[:8]}"
    return Drive(name, location, opening)
