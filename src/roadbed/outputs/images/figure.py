# SPDX-License-Identifier: Apache-2.0
"""Figures of a frame: all panels, and the overview in three steps."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.outputs.images import palette, panels, scene3d
from roadbed.outputs.images.perspective import Camera

_MARGIN, _MAP, _GAP, _STRIP = 0.35, 3.75, 0.75, 1.6  # inches on the page of a frame
_CAPTION = 110  # pixels over the views of the overview
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

    rows = 1 if occupancy is None else 2
    with matplotlib.rc_context(STYLE):
        sheet = _Sheet(Figure, rows)
        panels.cloud_from_above(sheet.map_panel(0, 0), ground)
        panels.elevation(sheet.map_panel(0, 1), ground)
        panels.uncertainty(sheet.map_panel(0, 2), ground)
        if occupancy is not None:
            panels.observation(sheet.map_panel(1, 0), ground, occupancy)
            panels.probability(sheet.map_panel(1, 1), ground, occupancy)
            panels.motion(sheet.map_panel(1, 2), ground, occupancy)
        panels.cloud_from_the_side(sheet.strip(), ground)
        sheet.figure.suptitle(title or _describe(ground), x=_MARGIN / sheet.width, ha="left", fontsize=12)
    return sheet.figure


class _Sheet:
    """A page of square maps in three columns over one wide strip, in inches: faster than an automatic layout."""

    def __init__(self, figure_class: Any, rows: int) -> None:
        self.rows = rows
        self.width = _MARGIN + 3 * (_MAP + _GAP) + 0.15  # room for the numbers of the last colour bar
        self.height = 0.45 + rows * (_MAP + 0.4) + _STRIP + 0.95
        self.figure = figure_class(figsize=(self.width, self.height), dpi=96)

    def map_panel(self, row: int, column: int) -> Any:
        bottom = self.height - 0.75 - _MAP - row * (_MAP + 0.4)
        return self._axes(_MARGIN + column * (_MAP + _GAP), bottom, _MAP, _MAP)

    def strip(self) -> Any:
        return self._axes(_MARGIN + 0.2, 0.5, self.width - _MARGIN - 0.5, _STRIP)

    def _axes(self, left: float, bottom: float, width: float, height: float) -> Any:
        box = (left / self.width, bottom / self.height, width / self.width, height / self.height)
        return self.figure.add_axes(box)


def overview_figure(
    ground: GroundFrame, occupancy: OccupancyFrame, camera: Camera | None = None, size: tuple[int, int] = (760, 580)
) -> Any:
    """The raw cloud, the ground found in it, and the occupancy with moving objects, side by side in one perspective."""
    import matplotlib
    from matplotlib.figure import Figure

    camera = camera or scene3d.chase_camera(ground)
    steps: tuple[tuple[str, NDArray[np.uint8], list[tuple[str, str]]], ...] = (
        ("Raw LiDAR scan", scene3d.raw_view(ground, camera, size), []),
        (
            "Ground, obstacles, elevation",
            scene3d.ground_view(ground, camera, size),
            [
                ("ground", palette.GROUND),
                ("obstacle", palette.OBSTACLE),
                ("overhang", palette.OVERHANG),
                ("elevation", palette.SURFACE),
            ],
        ),
        (
            "Occupancy with velocities",
            scene3d.occupancy_view(ground, occupancy, camera, size),
            list(palette.CELLS),
        ),
    )
    width, height = 3 * size[0], size[1] + _CAPTION
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width / 100, height / 100), dpi=100)
        for index, (name, image, colours) in enumerate(steps):
            axes = figure.add_axes((index / 3, 0, 1 / 3, size[1] / height))
            axes.imshow(image, interpolation="nearest")
            axes.set_axis_off()
            _caption(figure, index, name, colours, size[1] / height)
        _arrows_between(figure, 0.45 * size[1] / height)
    return figure


def _caption(figure: Any, index: int, name: str, colours: list[tuple[str, str]], base: float) -> None:
    from matplotlib.patches import Patch

    left = index / 3 + 0.012
    figure.text(left, base + (1 - base) * 0.68, f"{index + 1}  {name}", fontsize=26, fontweight="bold", va="center")
    if colours:
        patches = [Patch(facecolor=colour, edgecolor="#808080", lw=0.6, label=text) for text, colour in colours]
        figure.legend(
            handles=patches,
            loc="center left",
            bbox_to_anchor=(left - 0.008, base + (1 - base) * 0.18),
            ncols=len(patches),
            frameon=False,
            fontsize=19,
            handlelength=1.0,
            handletextpad=0.4,
            columnspacing=0.9,
        )


def _arrows_between(figure: Any, height: float) -> None:
    """From each step to the next, over everything else."""
    over = figure.add_axes((0, 0, 1, 1), zorder=10)
    over.set(xlim=(0, 1), ylim=(0, 1))
    over.set_axis_off()
    style = {"arrowstyle": "simple,head_width=2.6,head_length=2.2,tail_width=1.1", "fc": palette.VEHICLE, "ec": "white"}
    for edge in (1 / 3, 2 / 3):
        over.annotate("", (edge + 0.013, height), (edge - 0.013, height), arrowprops=style)


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
    """A matplotlib figure as PNG."""
    from io import BytesIO

    buffer = BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def save_frame_image(
    path: str | Path, ground: GroundFrame, occupancy: OccupancyFrame | None = None, title: str = ""
) -> Path:
    """Write the figure of a frame as PNG; the file appears whole or not at all."""
    from roadbed.io.atomic import write_file

    data = png_bytes(frame_figure(ground, occupancy, title))
    write_file(path, data)
    return Path(path)


def _describe(ground: GroundFrame) -> str:
    name = f"Scan {ground.scan.name}: " if ground.scan is not None and ground.scan.name else ""
    share = 100 * float(np.mean(ground.is_ground)) if len(ground.label) else 0.0
    return f"{name}{len(ground.label):,} points, {share:.0f} % ground"
