# SPDX-License-Identifier: Apache-2.0
"""A labelled scan from above and from the side, before anything was estimated from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from roadbed.core.frames import Scan
from roadbed.io.atomic import atomic_write
from roadbed.outputs.images import palette
from roadbed.outputs.images.decoration import legend


def draw_scan(
    scan: Scan, label: ArrayLike, file: Path | str, *, reach: float = 50.0, strip: float = 12.0, title: str = ""
) -> None:
    """Write a PNG: the top view within `reach` metres, and the side view of the points within `strip` m of the axis."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    label = np.asarray(label)
    points = scan.points if scan.T_vehicle_sensor is None else scan.T_vehicle_sensor @ scan.points
    colours = palette.label_colours(label) / 255
    size = 0.6 if len(points) > 20_000 else 3.0
    figure = Figure(figsize=(11, 13), layout="constrained")
    top, side = figure.subplots(2, 1, height_ratios=(3.6, 1))
    inside = np.abs(points[:, :2]).max(axis=1) < reach
    top.scatter(points[inside, 0], points[inside, 1], s=size, c=colours[inside], linewidths=0)
    top.plot([0], [0], marker=(3, 0, -90), color=palette.VEHICLE, markersize=8)
    top.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="x forward / m", ylabel="y left / m")
    legend(top, [entry for kind, entry in palette.LABELS.items() if (label == kind).any()])
    inside &= np.abs(points[:, 1]) < strip
    side.scatter(points[inside, 0], points[inside, 2], s=size, c=colours[inside], linewidths=0)
    side.set(xlim=(-reach, reach), ylim=(-6, 9), aspect="equal", xlabel="x forward / m", ylabel="z up / m")
    figure.suptitle(title or scan.name)
    FigureCanvasAgg(figure)
    with atomic_write(file) as stream:
        figure.savefig(stream, format="png", dpi=100)
