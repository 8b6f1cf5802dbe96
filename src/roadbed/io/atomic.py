# SPDX-License-Identifier: Apache-2.0
"""Atomic writes: files and folders are written under a temporary name, then renamed."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from roadbed.core.errors import OutputError

_PREFIX, _SUFFIX = ".roadbed-", ".tmp"
_FILES_PER_WRITE = 16  # names checked per write, on average: writing into large folders stays cheap
_writes_until_check: dict[Path, int] = {}


@contextmanager
def atomic_write(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file that replaces `path` when the block ends, and is removed when it raises."""
    path = Path(path)
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise OutputError(f"{path}: found a folder or a device, expected a file or a new name")
        _remove_abandoned(path.parent)
        temporary, lock = _create_locked(path.parent)
        try:
            with os.fdopen(os.dup(lock), "wb") as file:
                yield file
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(lock)


def write_file(path: str | Path, data: bytes | str) -> None:
    """Write a whole file atomically; text as UTF-8."""
    with atomic_write(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def output_errors(path: str | Path) -> Iterator[None]:
    """Turn OSError (full disk, read-only folder, invalid name) into OutputError with one line on `path`."""
    try:
        yield
    except OutputError:
        raise
    except (FileExistsError, NotADirectoryError) as error:
        raise OutputError(f"{path}: cannot be written (a file lies where a folder is expected)") from error
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


def _create_locked(folder: Path) -> tuple[Path, int]:
    """A new temporary file, locked while this process lives; the kernel releases the lock of a killed process."""
    while True:
        temporary = folder / f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # file systems without locks: no file counts as abandoned there
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # another process removed it as abandoned before it was locked


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of killed processes; files being written are locked and stay."""
    wait = _writes_until_check.get(folder, 0)
    if wait:
        _writes_until_check[folder] = wait - 1
        return
    try:
        names = os.listdir(folder)
    except OSError:  # a folder may be writable but not readable
        return
    _writes_until_check[folder] = len(names) // _FILES_PER_WRITE
    for name in names:
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            with suppress(OSError):  # locked, already removed, or owned by another user
                _remove_unlocked(folder / name)


def _remove_unlocked(temporary: Path) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        temporary.unlink()
    finally:
        os.close(descriptor)


@contextmanager
def atomic_folder(target: Path, beside: Path, foreign: Callable[[Path], str | None]) -> Iterator[Path]:
    """A new folder in `beside` that becomes `target` at the end of the block; it is removed if the block raises.

    An earlier `target` is replaced unless `foreign` names a file in it that Roadbed did not write. If another worker
    was faster, its result stays.
    """
    with output_errors(target):
        beside.mkdir(parents=True, exist_ok=True)
        folder = beside / f"{target.name}~{os.urandom(6).hex()}"
        folder.mkdir()
        try:
            yield folder
            _replace_folder(folder, target, foreign)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _replace_folder(folder: Path, target: Path, foreign: Callable[[Path], str | None]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    old = folder.with_name(f"{folder.name}-old")
    if target.exists():
        name = foreign(target)
        if name is not None:
            raise OutputError(f"{target / name}: was not written by Roadbed, and its folder is to be replaced")
        target.rename(old)
    try:
        folder.rename(target)
    except OSError:
        if not target.exists():
            raise
    shutil.rmtree(old, ignore_errors=True)
