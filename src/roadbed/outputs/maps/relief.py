# SPDX-License-Identifier: Apache-2.0
"""A hill-shaded image of a map with contour lines."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from roadbed.core.geometry import Float32, Grid
from roadbed.io.atomic import atomic_write
from roadbed.mapping.cache import SIDE
from roadbed.mapping.reader import MapReader
from roadbed.outputs.maps.geotiff import Georeference

_MOST_NODES = 500_000  # in the image; a larger map is thinned
_LINES = 12  # contour lines, about
_LIGHT = (-0.54, 0.54, 0.64)  # east, north, up: from the north-west, 40 degrees high
_STEPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # m between them


def thinned_surface(stored: MapReader, most: int = _MOST_NODES) -> tuple[Grid, Float32]:
    """Elevation and slopes (3, rows, columns) of the whole map on about `most` nodes at most, by a stride."""
    grid = stored.extent
    stride = 1
    while grid.size / stride**2 > most and stride < SIDE:
        stride *= 2
    (first_row, _), (first, _) = stored.ground.block
    surface = np.full((3, grid.rows // stride, grid.columns // stride), np.nan, np.float32)
    side = SIDE // stride
    for key in stored.ground.keys:
        row, column = (key[0] - first_row) * side, (key[1] - first) * side
        planes = stored.planes(key)
        for layer, values in zip(surface, (planes.elevation, planes.slope_x, planes.slope_y)):
            layer[row : row + side, column : column + side] = values[::stride, ::stride]
    return Grid(grid.x0, grid.y0, grid.spacing * stride, surface.shape[2], surface.shape[1]), surface


def save_relief(path: Path, stored: MapReader, georeference: Georeference) -> None:
    grid, surface = trimmed(*thinned_surface(stored))
    grid = replace(grid, x0=grid.x0 + georeference.easting, y0=grid.y0 + georeference.northing)
    surface[0] += georeference.height
    x_min, x_max, y_min, y_max = grid.extent
    aspect = (y_max - y_min) / (x_max - x_min)
    width = 12.0 if aspect <= 1 else max(4.0, 12.0 / aspect)
    figure = Figure(figsize=(width, np.clip(width * aspect, 2.0, 14.0) + 0.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw_relief(axes, grid, surface)
    axes.set_title(f"{area_text(np.isfinite(surface[0]).sum() * grid.spacing**2)} of ground", loc="left")
    with atomic_write(path) as file:
        figure.savefig(file, format="png")


def area_text(square_metres: float) -> str:
    """An area in hectares, below one in square metres."""
    return f"{square_metres / 1e4:.1f} ha" if square_metres >= 1e4 else f"{square_metres:.0f} m\N{SUPERSCRIPT TWO}"


def draw_relief(axes: Axes, grid: Grid, surface: Float32) -> None:
    """Shaded by a light from the north-west, coloured by height, with contour lines at round heights."""
    elevation, slope_x, slope_y = surface
    known = np.isfinite(elevation)
    low, high = (float(v) for v in np.nanpercentile(elevation, (0.5, 99.5))) if known.any() else (0.0, 1.0)
    high = max(high, low + 0.1)
    tint = colormaps["gist_earth"](0.25 + 0.6 * Normalize(low, high, clip=True)(np.where(known, elevation, low)))
    exaggeration = float(np.clip(40 / (high - low), 1, 5))
    # By the slopes of the planes themselves: differences between nodes would draw a rim around unknown areas.
    across, along = (np.nan_to_num(exaggeration * slope) for slope in (slope_x, slope_y))
    east, north, up = _LIGHT
    shade = np.clip((up - east * across - north * along) / np.sqrt(1 + across**2 + along**2), 0, 1)
    image = np.dstack([np.clip(tint[..., :3] * (0.45 + 0.85 * shade[..., None]), 0, 1), known])
    axes.imshow(image, extent=grid.extent, origin="lower", interpolation="nearest")
    step = next((step for step in _STEPS if (high - low) / step <= _LINES), _STEPS[-1])
    levels = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    if len(levels) and min(elevation.shape) > 1:
        lines = axes.contour(
            *grid.mesh(), np.ma.masked_invalid(elevation), levels, colors="#2b1d0e", linewidths=0.6, alpha=0.75
        )
        axes.clabel(lines, fmt="%g m", fontsize=7)
    axes.set_aspect("equal")
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.set_xlabel("x, m")
    axes.set_ylabel("y, m")


def trimmed(grid: Grid, surface: Float32) -> tuple[Grid, Float32]:
    """Without the unknown rows and columns around the map."""
    rows, columns = (_extent(np.isfinite(surface[0]).any(axis=axis)) for axis in (1, 0))
    part = surface[:, rows, columns]
    moved = grid.shifted(columns.start, rows.start)
    return Grid(moved.x0, moved.y0, grid.spacing, part.shape[2], part.shape[1]), part


def _extent(known: Any) -> slice:
    where = np.flatnonzero(known)
    return slice(int(where[0]), int(where[-1]) + 1) if len(where) else slice(0, len(known))
