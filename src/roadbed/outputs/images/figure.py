# SPDX-License-Identifier: Apache-2.0
"""Figures of a frame: all panels, the overview in three steps, and what notebooks show."""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.io.atomic import write_file
from roadbed.outputs.images import palette, panels, scene3d
from roadbed.outputs.images.decoration import colour_patches
from roadbed.outputs.images.perspective import Camera

_MARGIN, _MAP, _GAP, _TEXTS, _STRIP = 0.35, 3.75, 0.75, 0.6, 1.6  # inches on the page of a frame
_CAPTION = 110  # pixels over the views of the overview
_SIDE = 6.0  # inches of the map of a lone occupancy grid
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.edgecolor": "#808080",
    "figure.facecolor": "white",
}


def frame_figure(ground: GroundFrame, occupancy: OccupancyFrame | None = None, title: str = "") -> Any:
    """All results of a frame: cloud from above and from the side, elevation, variance, occupancy, motion."""
    import matplotlib
    from matplotlib.figure import Figure

    # Square maps in three columns over one wide strip, in inches: faster than an automatic layout.
    width = _MARGIN + 3 * (_MAP + _GAP) + 0.15  # room for the numbers of the last colour bar
    height = 2.8 + (1 if occupancy is None else 2) * (_MAP + _TEXTS)

    def axes_at(left: float, bottom: float, wide: float, high: float) -> Any:
        return figure.add_axes((left / width, bottom / height, wide / width, high / height))

    def map_axes(row: int, column: int) -> Any:
        bottom = height - 0.75 - _MAP - row * (_MAP + _TEXTS)
        return axes_at(_MARGIN + column * (_MAP + _GAP), bottom, _MAP, _MAP)

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), dpi=96)
        panels.cloud_from_above(map_axes(0, 0), ground)
        panels.elevation(map_axes(0, 1), ground)
        panels.uncertainty(map_axes(0, 2), ground)
        if occupancy is not None:
            panels.observation(map_axes(1, 0), ground, occupancy)
            panels.probability(map_axes(1, 1), ground, occupancy)
            panels.motion(map_axes(1, 2), ground, occupancy)
        panels.cloud_from_the_side(axes_at(_MARGIN + 0.2, 0.5, width - _MARGIN - 0.5, _STRIP), ground)
        name = f"Scan {ground.scan.name}: " if ground.scan is not None and ground.scan.name else ""
        figure.suptitle(title or name + _points(ground), x=_MARGIN / width, ha="left", fontsize=12)
    return figure


def overview_figure(
    ground: GroundFrame, occupancy: OccupancyFrame, camera: Camera | None = None, size: tuple[int, int] = (760, 580)
) -> Any:
    """The raw cloud, the ground found in it, and the occupancy with moving objects, side by side in one perspective."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch

    camera = camera or scene3d.chase_camera(ground)
    labels = [palette.LABELS[label] for label in palette.DRAWN_LABELS]
    steps: Iterable[tuple[str, NDArray[np.uint8], list[tuple[str, str]]]] = (
        ("Raw LiDAR scan", scene3d.raw_view(ground, camera, size), []),
        (
            "Ground, obstacles, elevation",
            scene3d.ground_view(ground, camera, size),
            [*labels, ("elevation", palette.SURFACE)],
        ),
        ("Occupancy with velocities", scene3d.occupancy_view(ground, occupancy, camera, size), list(palette.CELLS)),
    )
    width, height = 3 * size[0], size[1] + _CAPTION
    base = size[1] / height
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width / 100, height / 100), dpi=100)
        for index, (name, image, colours) in enumerate(steps):
            left = index / 3
            axes = figure.add_axes((left, 0, 1 / 3, base))
            axes.imshow(image, interpolation="nearest")
            axes.set_axis_off()
            heading = f"{index + 1}  {name}"
            figure.text(left + 0.012, base + 0.68 * (1 - base), heading, fontsize=26, fontweight="bold", va="center")
            figure.legend(
                handles=colour_patches(colours),
                loc="center left",
                bbox_to_anchor=(left + 0.004, base + 0.18 * (1 - base)),
                ncols=len(colours) or 1,
                frameon=False,
                fontsize=19,
                handlelength=1.0,
                handletextpad=0.4,
                columnspacing=0.9,
            )
        for edge in (1 / 3, 2 / 3):
            ends = (edge - 0.013, 0.45 * base), (edge + 0.013, 0.45 * base)
            style: Any = {"arrowstyle": "simple,head_width=23,head_length=20,tail_width=10", "fc": palette.VEHICLE}
            figure.add_artist(FancyArrowPatch(*ends, transform=figure.transFigure, ec="white", zorder=10, **style))
    return figure


def quick_image(
    ground: GroundFrame, occupancy: OccupancyFrame | None = None, size: tuple[int, int] = (560, 460)
) -> NDArray[np.uint8]:
    """A frame in perspective in a fraction of a second: the ground and, if given, the occupancy."""
    camera = scene3d.chase_camera(ground)
    views = [scene3d.ground_view(ground, camera, size)]
    if occupancy is not None:
        views.append(scene3d.occupancy_view(ground, occupancy, camera, size))
    return np.hstack(views)


def png_bytes(figure: Any) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


@dataclass(frozen=True)
class FrameImage:
    figure: Any

    def save(self, path: str | Path) -> Path:
        """Write it as PNG; the file appears whole or not at all."""
        write_file(path, self._repr_png_())
        return Path(path)

    def _repr_png_(self) -> bytes:
        return png_bytes(self.figure)


def save_frame_image(path: str | Path, ground: GroundFrame, occupancy: OccupancyFrame | None = None) -> Path:
    """Write the figure of a frame as PNG; the file appears whole or not at all."""
    return FrameImage(frame_figure(ground, occupancy)).save(path)


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


def _points(frame: GroundFrame) -> str:
    share = 100 * float(np.mean(frame.is_ground)) if len(frame.label) else 0.0
    return f"{len(frame.label):,} points, {share:.0f} % ground"


def _ground_facts(frame: GroundFrame) -> str:
    known = 100 * float(np.mean(np.isfinite(frame.elevation))) if frame.elevation.size else 0.0
    how = "estimated" if frame.mounting.estimated else "given"
    return (
        f"{_points(frame)}; surface known on {known:.0f} % of {frame.grid.rows} x "
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
        panels.motion(figure.add_axes((0.02, 0.06, 0.96, 0.88)), None, frame)
    return figure
