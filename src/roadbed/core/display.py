# SPDX-License-Identifier: Apache-2.0
"""Frames that can be drawn: `frame.plot()`, and the image at the end of a notebook cell."""

from collections.abc import Callable
from typing import Any

_load_renderer: Callable[[], Any]


def register_renderer(load: Callable[[], Any]) -> None:
    """`load()` returns the module that draws frames; `roadbed/__init__.py` registers it: core imports no plotting."""
    global _load_renderer
    _load_renderer = load


class Drawable:
    """A frame that can be drawn."""

    def plot(self, *others: Any) -> Any:
        """An image with `figure` (matplotlib) and `save(path)`; notebooks show it.

        A ground frame also takes the occupancy frame of the same scan, and draws both.
        """
        return _load_renderer().image_of(self, *others)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles hold no device data."""
        return {**self.__dict__, "device": None}

    def _repr_html_(self) -> str:
        return _load_renderer().html_of(self)
