# SPDX-License-Identifier: Apache-2.0
"""Clouds as images: a hundred thousand points become pixels in milliseconds, whatever draws them afterwards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import Label
from roadbed.outputs.pictures.palette import label_colours

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
