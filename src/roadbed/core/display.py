# SPDX-License-Identifier: Apache-2.0
"""Frames that show themselves: `frame.plot()`, and a picture at the end of a notebook's cell."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Shown:
    """A frame that can be drawn. Pictures lie floors above the frames, so they are looked up by name when asked for."""

    def plot(self, *others: Any) -> Any:
        """A picture with `figure` (matplotlib's), `save(path)`, and what notebooks show.

        A ground frame takes the occupancy frame of the same scan too, and draws both.
        """
        return import_module("roadbed.outputs.pictures.notebook").picture_of(self, *others)

    def _repr_html_(self) -> str:
        return import_module("roadbed.outputs.pictures.notebook").html_of(self)
