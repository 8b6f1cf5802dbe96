# SPDX-License-Identifier: Apache-2.0
"""One set of colours for images, report and viewer, from Okabe and Ito's palette for colour-blind readers."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.frames import Label, OccupancyFrame

GROUND = "#009E73"
OBSTACLE = "#CC79A7"
OVERHANG = "#56B4E9"
LOW_OUTLIER = "#E69F00"
UNKNOWN = "#A9A9A9"
SURFACE = "#D55E00"  # the elevation mesh
STATIC = "#0072B2"
MOVING = "#E69F00"
FREE = "#FFFFFF"
UNSEEN = "#C9CDD2"
VEHICLE = "#2B2B2B"
RAW = "#4A5A6A"  # a cloud before anything is known about it

LABELS: dict[Label, tuple[str, str]] = {
    Label.GROUND: ("ground", GROUND),
    Label.OBSTACLE: ("obstacle", OBSTACLE),
    Label.OVERHANG: ("overhang", OVERHANG),
    Label.LOW_OUTLIER: ("low outlier", LOW_OUTLIER),
    Label.UNKNOWN: ("unknown", UNKNOWN),
}
DRAWN_LABELS = (Label.GROUND, Label.OBSTACLE, Label.OVERHANG)  # in the key of views in perspective
CELLS = (("static", STATIC), ("moving", MOVING), ("free", FREE), ("unseen", UNSEEN))  # of an occupancy grid


def rgb(colour: str) -> NDArray[np.uint8]:
    """`#rrggbb` as three bytes."""
    return np.frombuffer(bytes.fromhex(colour[1:]), np.uint8)


_BY_LABEL = np.stack([rgb(LABELS[label][1]) for label in sorted(LABELS)])


def label_colours(label: ArrayLike) -> NDArray[np.uint8]:
    """(N,) labels -> (N, 3) colours."""
    return _BY_LABEL[np.asarray(label)]


def occupancy_colours(frame: OccupancyFrame) -> NDArray[np.uint8]:
    """The four shares of each cell, mixed: white free, grey unseen, blue static, orange moving."""
    parts = ((frame.static, STATIC), (frame.dynamic, MOVING), (frame.free, FREE), (frame.unknown, UNSEEN))
    mixed = sum(share.astype(np.float64)[..., None] * rgb(colour) for share, colour in parts)
    return np.clip(mixed, 0, 255).astype(np.uint8)


# Later ones are drawn over earlier ones: the few obstacle points must not drown in ground.
_ORDER = (Label.UNKNOWN, Label.GROUND, Label.OVERHANG, Label.LOW_OUTLIER, Label.OBSTACLE)


def label_image(
    across: NDArray,
    up: NDArray,
    label: NDArray[np.uint8],
    extent: tuple[float, float, float, float],
    shape: tuple[int, int],
) -> NDArray[np.uint8]:
    """Points at (across, up) metres as an RGBA image of `shape` (rows, columns), row 0 at the bottom."""
    left, right, bottom, top = extent
    rows, columns = shape
    column = np.floor((across - left) / (right - left) * columns)
    row = np.floor((up - bottom) / (top - bottom) * rows)
    inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    column, row, label = column[inside].astype(int), row[inside].astype(int), label[inside]
    image = np.zeros((rows, columns, 4), np.uint8)
    for kind in _ORDER:
        chosen = label == kind
        image[row[chosen], column[chosen], :3] = label_colours(kind)
        image[row[chosen], column[chosen], 3] = 255
    return image
