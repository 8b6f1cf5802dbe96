# SPDX-License-Identifier: Apache-2.0
"""Errors of third-party libraries on damaged files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roadbed.core.errors import InputError


@contextmanager
def foreign_errors(path: str | Path, what: str) -> Iterator[None]:
    """Turn any exception of a format library into InputError with one line; libraries document no closed list."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{path}: not a readable {what} ({_one_line(error)})") from error
    except BaseException as error:
        # Rust panics are BaseExceptions; KeyboardInterrupt passes.
        if type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{path}: not a readable {what} ({_one_line(error)})") from error


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "a record promises more bytes than there is memory"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__
