# SPDX-License-Identifier: Apache-2.0
"""Objects that hold a device, a file or a socket: `with` closes them."""

from typing import Any, Self

from roadbed.core.errors import DeviceError


class Closing:
    """A context manager whose end calls `close`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        if "_turn" in vars(self):
            raise TypeError(f"{type(self).__name__}: cannot be copied or pickled; create one from its configuration")
        return vars(self)

    def close(self) -> None:
        """Release all resources; it may be called twice."""


class Closed:
    """Replaces an engine after `close`: every use raises an error."""

    def __init__(self, owner: object) -> None:
        self._owner = type(owner).__name__

    def __getattr__(self, name: str) -> Any:
        raise DeviceError(f"this {self._owner} is closed: create a new one")
