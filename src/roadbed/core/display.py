# SPDX-License-Identifier: Apache-2.0
"""Frames that can be drawn: `frame.plot()`, and the image at the end of a notebook cell."""

from collections.abc import Callable
from typing import Any, Protocol


class Renderer(Protocol):
    """Draws frames. `roadbed/__init__.py` registers the one of the package, so that core imports no plotting code."""

    def image_of(self, frame: Any, *others: Any) -> Any: ...

    def html_of(self, frame: Any) -> str: ...


_load: Callable[[], Any] | None = None


def register_renderer(load: Callable[[], Any]) -> None:
    """`load()` returns the renderer; it is called when the first frame is drawn."""
    global _load
    _load = load


def _renderer() -> Renderer:
    if _load is None:
        raise RuntimeError("no renderer is registered: import roadbed before drawing frames")
    return _load()


class Drawable:
    """A frame that can be drawn."""

    def plot(self, *others: Any) -> Any:
        """An image with `figure` (matplotlib) and `save(path)`; notebooks show it.

        A ground frame also takes the occupancy frame of the same scan, and draws both.
        """
        return _renderer().image_of(self, *others)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles hold no device data."""
        return {**self.__dict__, "device": None}

    def _repr_html_(self) -> str:
        return _renderer().html_of(self)
