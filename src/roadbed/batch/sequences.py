# SPDX-License-Identifier: Apache-2.0
"""Finds the sequences of a batch (locations, globs, lists, manifests), and hashes their input files."""

import glob
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from roadbed.config.base import Stage
from roadbed.core.errors import InputError
from roadbed.io.files import open_regular, read_text
from roadbed.sources.location import parse_location
from roadbed.sources.read_options import ReadOptions, files_of
from roadbed.sources.registry import Source

_PIECE = 1 << 20  # bytes read at a time
_NAME = r"[A-Za-z0-9][A-Za-z0-9._=-]{0,99}"


class ManifestLine(Stage):
    """One line of a manifest: a source with its own options."""

    source: str
    name: Annotated[str, Field(pattern=f"^{_NAME}$")] | None = None  # of its folder
    kind: str | None = None
    start: Annotated[int, Field(ge=0)] | None = None
    stride: Annotated[int, Field(ge=1)] | None = None
    frames: Annotated[int, Field(ge=1)] | None = None
    mounting: tuple[float, float, float, float, float, float] | None = None
    odometry: str | None = None


@dataclass(frozen=True)
class InputSequence:
    """One sequence of scans in time order."""

    name: str  # of its folder
    location: str
    read_options: ReadOptions


def find_sequences(arguments: Sequence[str], read_options: ReadOptions) -> list[InputSequence]:
    """Locations, globs such as 'sequences/*.mcap', and @FILE: a list of locations or a manifest of JSON lines."""
    sequences: dict[str, InputSequence] = {}
    read_options = _with_absolute_odometry(read_options, Path())
    for argument in arguments:
        for sequence in _of_argument(argument, read_options):
            known = sequences.setdefault(sequence.name, sequence)
            if known != sequence:
                raise InputError(
                    f"sequence {sequence.name}: found {known.location} and {sequence.location}, expected one"
                )
    if not sequences:
        raise InputError(f"{' '.join(arguments)}: found no sequence, expected at least one")
    return sorted(sequences.values(), key=lambda sequence: sequence.name)


def _of_argument(argument: str, read_options: ReadOptions) -> Iterator[InputSequence]:
    if argument.startswith("@"):
        file = Path(argument[1:])
        for number, line in enumerate(read_text(file).splitlines(), 1):
            line = line.strip()
            if line and not line.startswith("#"):
                yield from _of_line(line, file, number, read_options)
    else:
        yield from (_sequence(location, read_options) for location in _expanded(argument, Path()))


def _of_line(line: str, file: Path, number: int, read_options: ReadOptions) -> Iterator[InputSequence]:
    if not line.startswith("{"):
        yield from (_sequence(location, read_options) for location in _expanded(line, file.parent))
        return
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: line {number}: expected an object of JSON ({error})") from None
    given: ManifestLine = ManifestLine.parse(values, f"{file}: line {number}")
    own = given.model_dump(exclude={"source", "name"}, exclude_none=True)
    options = _with_absolute_odometry(replace(read_options, **own), file.parent)
    for location in _expanded(given.source, file.parent):
        yield _sequence(location, options, given.name)


def _with_absolute_odometry(read_options: ReadOptions, home: Path) -> ReadOptions:
    """A file of poses that lies at `home` by its absolute path; other odometry as it is."""
    if read_options.odometry is None or not os.path.isfile(home / read_options.odometry):
        return read_options
    return replace(read_options, odometry=os.path.abspath(home / read_options.odometry))


def _expanded(location: str, home: Path) -> list[str]:
    """A location, or those that a glob names; paths become absolute, as workers run in other folders."""
    path, mark, query = location.partition("?")
    if os.path.exists(home / location):
        return [os.path.abspath(home / location)]
    if any(sign in path for sign in "*[") and ":" not in path:
        found = sorted(glob.glob(str(home / path)))
        if not found:
            raise InputError(f"{location}: found nothing of that name, expected at least one sequence")
        return [os.path.abspath(name) + mark + query for name in found]
    return [(os.path.abspath(home / path) if os.path.exists(home / path) else path) + mark + query]


def _sequence(location: str, read_options: ReadOptions, name: str | None = None) -> InputSequence:
    if name is None:
        path, _ = parse_location(location)
        words = re.sub(r"[^A-Za-z0-9._=-]+", "-", Path(path.removeprefix("sim:")).name).strip("-.")[:60]
        digest = hashlib.sha256(f"{location} {read_options}".encode()).hexdigest()
        name = f"{words or 'sequence'}-{digest[:8]}"
    return InputSequence(name, location, read_options)


def input_files(sequence: InputSequence, source: Source) -> list[Path]:
    """Every input file of a sequence in a fixed order; none if it is simulated."""
    named = [*files_of(source), *([sequence.read_options.odometry] if sequence.read_options.odometry else [])]
    return [path for name in dict.fromkeys(named) for path in _below(Path(name))]


def input_hash(sequence: InputSequence, files: Iterable[Path]) -> str:
    """Hash of options, file names and contents; without files, e.g. simulated, of the location."""
    address, options = parse_location(sequence.location)
    found = hashlib.sha256(repr(sorted(options.items())).encode())
    if not os.path.exists(address):
        found.update(address.encode())
    for path in files:
        with open_regular(path) as file:
            found.update(f"{path.name}\0{os.fstat(file.fileno()).st_size}\0".encode())
            while piece := file.read(_PIECE):
                found.update(piece)
    return found.hexdigest()


def input_stamp(files: Iterable[Path]) -> str:
    """Hash of file names, sizes and modification times, without reading the files."""
    found = hashlib.sha256()
    for path in files:
        status = path.stat()
        found.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return found.hexdigest()


def _below(path: Path) -> Iterator[Path]:
    if path.is_dir():
        for folder, folders, names in os.walk(path):
            folders.sort()
            yield from (Path(folder, name) for name in sorted(names) if Path(folder, name).is_file())
    elif path.is_file():
        yield path
