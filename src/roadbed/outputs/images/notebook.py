# SPDX-License-Identifier: Apache-2.0
"""Frames in notebooks: a line of facts and an image inside the page."""

from base64 import b64encode
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.io.atomic import write_file
from roadbed.outputs.images import panels
from roadbed.outputs.images.figure import STYLE, frame_figure, png_bytes

_SIDE = 6.0  # inches of the map of a lone occupancy grid


@dataclass(frozen=True)
class FrameImage:
    """A drawn frame."""

    figure: Any

    def save(self, path: str | Path) -> Path:
        """Write it as PNG; the file appears whole or not at all."""
        write_file(path, self._repr_png_())
        return Path(path)

    def _repr_png_(self) -> bytes:
        return png_bytes(self.figure)


def image_of(frame: GroundFrame | OccupancyFrame, *others: Any) -> FrameImage:
    """All panels of a ground frame, with those of the occupancy if it is given; or an occupancy grid alone."""
    if isinstance(frame, OccupancyFrame) and not others:
        return FrameImage(_grid_figure(frame))
    with_it = [type(other) for other in others]
    if isinstance(frame, GroundFrame) and with_it in ([], [OccupancyFrame]):
        return FrameImage(frame_figure(frame, *others))
    found = ", ".join(kind.__name__ for kind in with_it)
    raise InputError(f"{type(frame).__name__}.plot({found}): expected nothing, or a ground frame's occupancy frame")


def html_of(frame: GroundFrame | OccupancyFrame) -> str:
    """Facts and image; facts alone for a ground frame without its scan."""
    facts = _ground_facts(frame) if isinstance(frame, GroundFrame) else _occupancy_facts(frame)
    lines = "".join(f"<li>{escape(message)}</li>" for message in frame.diagnostics)
    text = f"<p><b>{type(frame).__name__}</b>: {escape(facts)}</p>" + (f"<ul>{lines}</ul>" if lines else "")
    if isinstance(frame, GroundFrame) and frame.scan is None:
        return text
    image = b64encode(image_of(frame)._repr_png_()).decode()
    return f'{text}<img alt="{escape(facts)}" style="max-width:100%" src="data:image/png;base64,{image}">'


def _ground_facts(frame: GroundFrame) -> str:
    share = 100 * float(np.mean(frame.is_ground)) if len(frame.label) else 0.0
    known = 100 * float(np.mean(np.isfinite(frame.elevation))) if frame.elevation.size else 0.0
    how = "estimated" if frame.mounting.estimated else "given"
    return (
        f"{len(frame.label):,} points, {share:.0f} % ground; surface known on {known:.0f} % of {frame.grid.rows} x "
        f"{frame.grid.columns} nodes; sensor {frame.mounting.height:.2f} m over the road ({how})"
    )


def _occupancy_facts(frame: OccupancyFrame) -> str:
    moving = len(frame.objects)
    return (
        f"{frame.grid.rows} x {frame.grid.columns} cells of {frame.grid.spacing:g} m at {frame.time:.2f} s, "
        f"{int(frame.moving.sum())} of them moving, {moving} moving object{'' if moving == 1 else 's'}"
    )


def _grid_figure(frame: OccupancyFrame) -> Any:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(_SIDE, _SIDE + 0.3), dpi=96)
        panels.motion(figure.add_axes((0.02, 0.02, 0.96, 0.92)), None, frame)
    return figure
