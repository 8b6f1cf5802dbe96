# SPDX-License-Identifier: Apache-2.0
"""Read regular files whole: no pipes or devices, nothing larger than the free memory."""

import io
import os
import stat
from pathlib import Path
from typing import BinaryIO

from roadbed.core.errors import InputError
from roadbed.core.memory import available_bytes

_SURELY_FITS = 64 << 20  # bytes; below it free memory is not checked
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a folder"),
)


class _BoundedFile(io.BufferedReader):
    """Limits reads to the file size: Python allocates the requested size before it reads."""

    def __init__(self, descriptor: int, size: int) -> None:
        super().__init__(io.FileIO(descriptor))
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size if size is None else min(size, self._size))


def open_regular(path: str | Path) -> BinaryIO:
    """The file, open for reading; a missing, unreadable or irregular file is an InputError."""
    try:
        # O_NONBLOCK: do not wait for the writer of a pipe; no effect on regular files.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    status = os.fstat(descriptor)
    mode = status.st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        found = next((name for matches, name in _KINDS if matches(mode)), "something else")
        raise InputError(f"{path}: found {found}, expected a regular file")
    return _BoundedFile(descriptor, status.st_size)


def check_regular(path: str | Path) -> int:
    """The size of a readable regular file; for files that a library opens by name."""
    with open_regular(path) as file:
        return os.fstat(file.fileno()).st_size


def read_bytes(path: str | Path) -> bytes:
    """The content of the file; InputError where it cannot be read."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        free = available_bytes() if size > _SURELY_FITS else None
        if free is not None and size > free:
            raise InputError(f"{path}: found {size} bytes, expected at most {free}, the free memory")
        try:
            return file.read()
        except MemoryError:
            raise too_large(path) from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def too_large(path: str | Path) -> InputError:
    """The error for a file that does not fit into memory."""
    return InputError(f"{path}: found {os.stat(path).st_size} bytes, expected a file that fits into the free memory")


def read_text(path: str | Path) -> str:
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected text, found byte 0x{data[error.start]:02x} at {error.start}") from None
