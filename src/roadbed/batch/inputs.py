# SPDX-License-Identifier: Apache-2.0
"""What a drive was made from: a hash of every byte, and a stamp that tells quickly whether anything was touched."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from roadbed.batch.drives import Drive
from roadbed.io.files import open_regular
from roadbed.sources.location import parse_location
from roadbed.sources.read_options import files_of
from roadbed.sources.source import Source

_PIECE = 1 << 20  # bytes read at a time


def input_files(drive: Drive, source: Source) -> list[Path]:
    """Every file that a drive may be read from, in a fixed order; none of a simulated one."""
    named = [*files_of(source), *([drive.opening.odometry] if drive.opening.odometry else [])]
    return [path for name in dict.fromkeys(named) for path in _below(Path(name))]


def input_hash(drive: Drive, files: Iterable[Path]) -> str:
    """Of options, names and contents; where a drive has no file of its own, of its address: it is simulated again."""
    address, options = parse_location(drive.location)
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
    """Of names, sizes and times of the last change: no file is opened."""
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
