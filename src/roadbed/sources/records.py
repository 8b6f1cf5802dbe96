# SPDX-License-Identifier: Apache-2.0
"""Reading files whole, with the checks every format shares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.errors import InputError


def read_bytes(path: Path) -> bytes:
    """The whole file; missing, unreadable or a folder: one line."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def read_text(path: Path) -> str:
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected text, found byte 0x{data[error.start]:02x} at {error.start}") from None


def read_rows(path: Path, columns: int, dtype: DTypeLike = "<f4") -> NDArray:
    """A headerless file of records of `columns` numbers, shape (N, columns)."""
    data = read_bytes(path)
    record = columns * np.dtype(dtype).itemsize
    if len(data) % record:
        raise InputError(
            f"{path}: length: found {len(data)} bytes, expected a multiple of {record} "
            f"({columns} x {np.dtype(dtype).name}); {len(data) // record} whole points and {len(data) % record} bytes"
        )
    return np.frombuffer(data, dtype).reshape(-1, columns)


@contextmanager
def foreign_errors(path: str | Path, what: str) -> Iterator[None]:
    """Turn whatever a format's own library raises on a damaged file into one line; it documents no closed list."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{path}: not a readable {what} ({_one_line(error)})") from error
    except BaseException as error:
        # Rust extensions raise their panics outside the Exception tree; an interrupt stays an interrupt.
        if type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{path}: not a readable {what} ({_one_line(error)})") from error


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "a record promises more bytes than there is memory"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__
