# SPDX-License-Identifier: Apache-2.0
"""A scan from above and from the side: ground green, obstacles pink."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.atomic import atomic_write
from roadbed.frames import Scan

GROUND_COLOUR, OBSTACLE_COLOUR, SPURIOUS_COLOUR = "#2ca02c", "#ff69b4", "#4050c0"


def draw_scan(
    scan: Scan,
    is_ground: NDArray[np.bool_],
    file: Path | str,
    *,
    reach: float = 50.0,
    strip: float = 12.0,
    spurious: NDArray[np.bool_] | None = None,
    title: str = "",
) -> None:
    """Write a PNG: the top view within `reach` metres, and the side view of the points within `strip` m of the axis."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    points = scan.points if scan.T_vehicle_sensor is None else scan.T_vehicle_sensor @ scan.points
    colours = np.where(is_ground, GROUND_COLOUR, OBSTACLE_COLOUR)
    if spurious is not None:
        colours[spurious] = SPURIOUS_COLOUR
    size = 0.6 if len(points) > 20_000 else 3.0
    figure = Figure(figsize=(11, 13), layout="constrained")
    top, side = figure.subplots(2, 1, height_ratios=(3.6, 1))
    inside = np.abs(points[:, :2]).max(axis=1) < reach
    top.scatter(points[inside, 0], points[inside, 1], s=size, c=colours[inside], linewidths=0)
    top.plot([0], [0], marker=(3, 0, -90), color="black", markersize=8)
    top.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="x forward / m", ylabel="y left / m")
    inside &= np.abs(points[:, 1]) < strip
    side.scatter(points[inside, 0], points[inside, 2], s=size, c=colours[inside], linewidths=0)
    side.set(xlim=(-reach, reach), ylim=(-6, 9), aspect="equal", xlabel="x forward / m", ylabel="z up / m")
    figure.suptitle(title or scan.name)
    FigureCanvasAgg(figure)
    with atomic_write(file) as stream:
        figure.savefig(stream, format="png", dpi=100)
