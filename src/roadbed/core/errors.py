# SPDX-License-Identifier: Apache-2.0
"""Errors a caller can act on: each message is one line that names what was found and what was expected."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST_MESSAGE = 2000


class RoadbedError(Exception):
    """Base of every error Roadbed raises on purpose; the command line prints it and exits with 2."""

    def __init__(self, message: str) -> None:
        # Messages quote untrusted names: control characters are escaped, long ones are cut.
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[: _LONGEST_MESSAGE // 2]} ... {message[-_LONGEST_MESSAGE // 2 :]}"
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class InputError(RoadbedError, ValueError):
    """A file, folder or array that cannot be used as it is."""


class OutputError(RoadbedError, OSError):
    """A file or folder that cannot be written, or must not be."""


class ConfigError(RoadbedError, ValueError):
    """A configuration value that is out of bounds, of the wrong type, or unknown."""


class DeviceError(RoadbedError, RuntimeError):
    """An accelerator, driver or optional part that is missing or fails."""


@contextmanager
def needs_extra(package: str, extra: str, purpose: str) -> Iterator[None]:
    """Around the imports of an optional dependency: the error says how to install it."""
    try:
        yield
    except ImportError:
        raise DeviceError(
            f"{purpose} needs the package {package}: in the checkout, pip install -e '.[{extra}]'"
        ) from None


@contextmanager
def errors_at(where: str) -> Iterator[None]:
    """Put `where` in front of the message of an InputError."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


@contextmanager
def foreign_errors(path: str | Path, what: str) -> Iterator[None]:
    """Turn any exception of a format library into InputError with one line; libraries document no closed list."""
    try:
        yield
    except InputError:
        raise
    except BaseException as error:
        # SystemExit and panics of Rust are no Exceptions; KeyboardInterrupt passes.
        if not isinstance(error, Exception | SystemExit) and type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{path}: not a readable {what} ({_one_line(error)})") from error


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "a record promises more bytes than there is memory"
    if isinstance(error, UnicodeDecodeError):
        return f"found bytes that are no text: {error.object[error.start : error.start + 8]!r}"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__
