# SPDX-License-Identifier: Apache-2.0
"""Result folders with a manifest of the files that Roadbed wrote; no other file is ever replaced."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from roadbed import __version__
from roadbed.config import Config
from roadbed.core.errors import ConfigError, OutputError
from roadbed.io.atomic import output_errors, write_file

_TAKEN = "{}: another run has begun to write there"
MANIFEST = "roadbed-manifest.jsonl"  # a line about the run, then one line per file, written before the file is


class OutputFolder:
    """A folder for results. It is checked at once, and created with the first file.

    `parts` are the files and folders that will be written, `inputs` must never be changed. `force` replaces old results
    of Roadbed; files that Roadbed did not write are never replaced.
    """

    def __init__(
        self,
        folder: str | Path,
        parts: Sequence[str],
        *,
        command: str,
        inputs: Iterable[str | Path] = (),
        force: bool = False,
    ) -> None:
        self.path, self.command = Path(folder), command
        self._parts = (*parts, MANIFEST)
        self._written: set[str] = set()
        with output_errors(self.path):
            if self.path.exists() and not self.path.is_dir():
                raise OutputError(f"{self.path}: found a file, expected a folder or a new name")
            self._old = _read_manifest(self.path / MANIFEST)
            self._own = {MANIFEST, *self._old[1]} if self._old is not None else set()
            for source in inputs:
                self._check_input(Path(source).resolve(), source)
            self._check(force)

    def file(self, *names: str) -> Path:
        """The path of one result, e.g. `file("labels", "000000.label")`; it is entered into the manifest."""
        name = "/".join(names)
        path = self.path / name
        with output_errors(path):
            if not self._written:
                self._begin()
            if name not in self._written:
                if os.path.lexists(path):
                    raise OutputError(f"{path}: found a file that Roadbed did not write, expected none")
                with (self.path / MANIFEST).open("r+", encoding="utf-8") as manifest:
                    if os.fstat(manifest.fileno()).st_ino != self._inode:
                        raise OutputError(_TAKEN.format(self.path))
                    manifest.seek(0, os.SEEK_END)
                    manifest.write(json.dumps(name) + "\n")
                self._written.add(name)
        return path

    def _check(self, force: bool) -> None:
        """Refuse to replace results without `force`, and foreign files in any case."""
        if self._old is not None and not force:
            raise OutputError(
                f"{self.path}: holds the results of {self._old[0]!r}; "
                f"name another folder with -o, or replace them with --force"
            )
        for part in self._parts:
            foreign = next((name for name in _files_under(self.path, part) if name not in self._own), None)
            if foreign is not None:
                raise OutputError(
                    f"{self.path / foreign}: would be in the way and was not written by Roadbed; "
                    f"name another folder with -o"
                )

    def _check_input(self, source: Path, named: str | Path) -> None:
        """Refuse a folder in which results would overwrite or mix with their input."""
        home = self.path.resolve()
        if source in home.parents:
            touched = self._old is None and home.exists() and any(home.iterdir())
        else:
            targets = [home / name for name in {*self._parts, *self._own}]
            touched = home == source or any(_overlap(target, source) for target in targets)
        if touched:
            raise OutputError(
                f"{self.path}: results would lie in their source {named}, which is never written to; "
                f"name another folder with -o"
            )

    def _begin(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        manifest = self.path / MANIFEST
        started = datetime.now(UTC).isoformat("T", "seconds")
        line = json.dumps({"roadbed": __version__, "command": self.command, "started": started}) + "\n"
        if self._old is None:
            try:
                with manifest.open("x", encoding="utf-8") as file:
                    file.write(line)
            except FileExistsError:
                raise OutputError(_TAKEN.format(self.path)) from None
        else:
            if _read_manifest(manifest) != self._old:
                raise OutputError(_TAKEN.format(self.path))
            _remove(self.path, self._old[1])
            write_file(manifest, line)
        self._inode = manifest.stat().st_ino  # another run with `force` would replace the manifest
        self._written.add(MANIFEST)


def _read_manifest(path: Path) -> tuple[str, set[str]] | None:
    """The command and the files of an earlier run; None without a manifest."""
    if not path.is_file():
        return None
    command, files = "an unknown command", set[str]()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):  # a killed run may leave half a line, whose file was not begun
            entry = json.loads(line)
            if isinstance(entry, dict):
                command = str(entry.get("command", command))
            elif isinstance(entry, str) and _is_relative(entry):
                files.add(entry)
    return command, files


def foreign_file(folder: Path) -> str | None:
    """The first file in a folder of results that Roadbed did not write; None where all are its own."""
    known = _read_manifest(folder / MANIFEST)
    own = {MANIFEST, *known[1]} if known is not None else set()
    names = (name for entry in sorted(os.listdir(folder)) for name in _files_under(folder, entry))
    return next((name for name in names if name not in own), None)


def claim_configuration(path: Path, force: bool = False) -> Path:
    """A path a configuration may be saved to: a new one, or with `force` that of another configuration."""
    with output_errors(path):
        if not os.path.lexists(path):
            return path
        if not force:
            raise OutputError(f"{path}: exists; name another file, or replace it with --force")
        try:
            Config.load(path)
        except ConfigError:
            raise OutputError(f"{path}: exists and is not a configuration; name another file") from None
    return path


def unused_name(path: Path) -> Path:
    """`path`, or the first of `path-2`, `path-3`, ... that does not exist."""
    number = 1
    candidate = path
    while candidate.exists():
        number += 1
        candidate = path.with_stem(f"{path.stem}-{number}")
    return candidate


def _files_under(folder: Path, part: str) -> Iterator[str]:
    """Names relative to `folder` of everything but true folders at and below `part`."""
    top = folder / part
    if top.is_dir() and not top.is_symlink():
        for entry in sorted(os.listdir(top)):
            yield from _files_under(folder, f"{part}/{entry}")
    elif os.path.lexists(top):
        yield part


def _remove(folder: Path, files: Iterable[str]) -> None:
    """Remove files by their names in a manifest, then the folders that are empty without them."""
    home = folder.resolve()
    emptied = set()
    for name in files:
        target = folder / name
        inside = target.parent.resolve() == home / PurePosixPath(name).parent  # not through a link
        if inside and target.is_file() and not target.is_symlink():
            target.unlink()
            emptied |= {folder / parent for parent in PurePosixPath(name).parents[:-1]}
    for parent in sorted(emptied, key=lambda path: -len(path.parts)):
        with suppress(OSError):  # it holds other files
            parent.rmdir()


def _is_relative(name: str) -> bool:
    return not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts and name not in ("", ".")


def _overlap(one: Path, other: Path) -> bool:
    """Whether one of two paths is the other or lies in it."""
    return one == other or one in other.parents or other in one.parents
