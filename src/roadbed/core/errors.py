# SPDX-License-Identifier: Apache-2.0
"""Errors a caller can act on: each message is one line that names what was found and what was expected."""

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


def missing_extra(package: str, extra: str, purpose: str) -> DeviceError:
    """The error for an optional dependency that is not installed."""
    return DeviceError(f"{purpose} needs the package {package}: in the checkout, pip install -e '.[{extra}]'")
