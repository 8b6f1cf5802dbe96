# SPDX-License-Identifier: Apache-2.0
"""Files appear whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from roadbed.core.errors import OutputError

_PREFIX, _SUFFIX = ".roadbed-", ".tmp"
_FILES_PER_WRITE = 16  # names looked at per write, on average: folders of many files stay cheap to write into
_writes_until_look: dict[Path, int] = {}


@contextmanager
def atomic_write(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file that replaces `path` when the block ends well and leaves no trace when it raises."""
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


@contextmanager
def output_errors(path: str | Path) -> Iterator[None]:
    """Turn what the system says about full disks, read-only folders and impossible names into one line on `path`."""
    try:
        yield
    except OutputError:
        raise
    except (FileExistsError, NotADirectoryError) as error:
        raise OutputError(f"{path}: cannot be written (a file lies where a folder is expected)") from error
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


def _create_locked(folder: Path) -> tuple[Path, int]:
    """A new temporary file, locked while this process lives: the kernel lets go of the lock of a killed one."""
    while True:
        temporary = folder / f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # where a file system has no locks, nobody can take the file for abandoned either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # removed as abandoned in the moment before it was locked


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of processes that were killed; those still being written are locked and stay."""
    wait = _writes_until_look.get(folder, 0)
    if wait:
        _writes_until_look[folder] = wait - 1
        return
    try:
        names = os.listdir(folder)
    except OSError:  # a folder may be open to writing but not to reading
        return
    _writes_until_look[folder] = len(names) // _FILES_PER_WRITE
    for name in names:
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            with suppress(OSError):  # locked, gone already, or somebody else's
                _remove_unlocked(folder / name)


def _remove_unlocked(temporary: Path) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        temporary.unlink()
    finally:
        os.close(descriptor)
