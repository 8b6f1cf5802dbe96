# SPDX-License-Identifier: Apache-2.0
"""One function per panel: each draws a frame's subject on matplotlib axes."""

from typing import Any

import numpy as np

from roadbed.core.frames import GroundFrame, OccupancyFrame
from roadbed.core.geometry import Float64, Pose
from roadbed.outputs.images import palette
from roadbed.outputs.images.decoration import annotate_objects, legend, map_axes, scale_bar
from roadbed.outputs.images.palette import label_image
from roadbed.outputs.images.scene3d import LENGTH, box_corners, height_at, moving_cells, outline

_HALF_WIDTH = 40.0  # m shown around the vehicle
_MOST_ARROWS = 150
_PIXELS = 360  # of a square panel, as on the page


def shown_extent(ground: GroundFrame) -> tuple[float, float, float, float]:
    """The same square around the vehicle in every map, so that panels can be compared."""
    x, y, _ = ground.T_grid_vehicle.translation.tolist()
    left, right, bottom, top = ground.grid.extent
    half = min(_HALF_WIDTH, max(right - left, top - bottom) / 2)
    return x - half, x + half, y - half, y + half


def cloud_from_above(axes: Any, ground: GroundFrame) -> None:
    """Every point in the colour of its label, obstacles on top."""
    extent = shown_extent(ground)
    points = ground.points_grid
    image = label_image(points[:, 0], points[:, 1], ground.label, extent, (_PIXELS, _PIXELS))
    axes.imshow(image, origin="lower", extent=extent, interpolation="nearest")
    _around_vehicle(axes, "Segmented cloud, from above", ground)
    legend(axes, [entry for kind, entry in palette.LABELS.items() if (ground.label == kind).any()])


def cloud_from_the_side(axes: Any, ground: GroundFrame, half_width: float = 4.0) -> None:
    """A strip along the vehicle's heading: points, and the elevation with two standard deviations."""
    tilted = ground.T_grid_vehicle
    pose = Pose.from_euler(*tilted.translation, yaw=tilted.yaw)  # level: a slope must look like one
    points = pose.inverse() @ ground.points_grid
    strip = np.abs(points[:, 1]) < half_width
    x_min, x_max = -45.0, 60.0
    profile_x = np.arange(x_min, x_max, ground.grid.spacing / 2)
    along = pose @ np.column_stack([profile_x, np.zeros_like(profile_x), np.zeros_like(profile_x)])
    z = height_at(ground.grid, ground.elevation, along[:, 0], along[:, 1]) - pose.translation[2]
    deviation = np.sqrt(height_at(ground.grid, ground.variance, along[:, 0], along[:, 1]))
    known = z[np.isfinite(z)]
    bottom, top = (known.min() - 1.0, known.max() + 4.0) if len(known) else (-2.0, 4.0)
    extent = (x_min, x_max, bottom, top)
    image = label_image(points[strip, 0], points[strip, 2], ground.label[strip], extent, (180, 1050))
    axes.imshow(image, origin="lower", extent=extent, interpolation="nearest", aspect="auto", zorder=2)
    sure = np.minimum(deviation, 3.0)
    axes.fill_between(profile_x, z - 2 * sure, z + 2 * sure, color=palette.SURFACE, alpha=0.2, lw=0, zorder=1)
    axes.plot(profile_x, z, color=palette.SURFACE, lw=1.2, zorder=3, label="elevation ± 2 standard deviations")
    sides = [(-LENGTH / 2, 0.15), (LENGTH / 2, 0.15), (LENGTH / 2, 1.4), (-LENGTH / 2, 1.4)]
    body = pose.inverse() @ (tilted @ np.array([(x, 0.0, height) for x, height in sides]))
    axes.fill(body[:, 0], body[:, 2], color=palette.VEHICLE, zorder=4)
    axes.set(xlim=(x_min, x_max), ylim=(bottom, top), xlabel="m ahead of the vehicle", ylabel="height, m")
    axes.set_title(f"From the side: {2 * half_width:g} m wide strip along the heading (heights enlarged)", loc="left")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def elevation(axes: Any, ground: GroundFrame) -> None:
    """Height of the ground with contour lines."""
    from matplotlib.ticker import MaxNLocator

    base = ground.T_grid_vehicle.translation[2]
    height = np.ma.masked_invalid(ground.elevation - base)
    sure = np.ma.masked_where(~(ground.variance < 0.2**2), height)
    low, high = _value_range(sure, smallest=1.0)
    shown = axes.imshow(height, origin="lower", extent=ground.grid.extent, cmap="cividis", vmin=low, vmax=high)
    if sure.count() > 3 and min(sure.shape) > 1:
        levels = MaxNLocator(nbins=7).tick_values(low, high)
        lines = axes.contour(
            ground.grid.x, ground.grid.y, sure, levels=levels, colors="white", linewidths=0.7, alpha=0.9
        )
        axes.clabel(lines, fontsize=6.5, fmt=lambda value: f"{value:g}")
    _bar(axes, shown)
    _around_vehicle(axes, "Elevation over the vehicle's road, m", ground)
    _unseen(axes)


def uncertainty(axes: Any, ground: GroundFrame) -> None:
    """Standard deviation of the elevation, on a logarithmic scale."""
    from matplotlib.colors import LogNorm

    deviation = np.ma.masked_where(~np.isfinite(ground.elevation), np.sqrt(ground.variance))
    shown = axes.imshow(
        deviation, origin="lower", extent=ground.grid.extent, cmap="magma", norm=LogNorm(0.005, 1.0, clip=True)
    )
    bar = _bar(axes, shown)
    bar.set_ticks([0.005, 0.01, 0.03, 0.1, 0.3, 1.0], labels=["≤ 0.005", "0.01", "0.03", "0.1", "0.3", "≥ 1"])
    _around_vehicle(axes, "Standard deviation of the elevation, m", ground, colour="white")
    _unseen(axes)


def observation(axes: Any, ground: GroundFrame, occupancy: OccupancyFrame) -> None:
    """Occupancy of each cell by this frame's sensors alone; grey where they see nothing."""
    p = occupancy.occupied if occupancy.observation is None else occupancy.observation
    seen = np.ones_like(p) if occupancy.observedness is None else np.clip(occupancy.observedness, 0, 1)
    strength = seen[..., None].astype(np.float64)
    grey = np.clip(1 - p.astype(np.float64), 0, 1)[..., None] * 255
    image = (strength * grey + (1 - strength) * palette.rgb(palette.UNSEEN)).astype(np.uint8)
    axes.imshow(image, origin="lower", extent=occupancy.grid.extent, interpolation="nearest")
    _around_vehicle(axes, "Observation of this frame", ground)
    legend(axes, [("occupied", "#000000"), ("free", palette.FREE), ("not seen", palette.UNSEEN)])


def probability(axes: Any, ground: GroundFrame, occupancy: OccupancyFrame) -> None:
    """P(occupied) of the filter."""
    shown = axes.imshow(occupancy.occupied, origin="lower", extent=occupancy.grid.extent, cmap="Greys", vmin=0, vmax=1)
    _bar(axes, shown)
    _around_vehicle(axes, "P(occupied), filtered over time", ground)


def motion(
    axes: Any,
    ground: GroundFrame | None,
    occupancy: OccupancyFrame,
    extent: tuple[float, float, float, float] | None = None,
) -> None:
    """Static and moving cells, velocity arrows (one second long) and tracked objects, around the vehicle or within
    `extent` (x_min, x_max, y_min, y_max); without a ground frame the whole grid, without the vehicle."""
    extent = extent or (occupancy.grid.extent if ground is None else shown_extent(ground))
    image = palette.occupancy_colours(occupancy)
    axes.imshow(image, origin="lower", extent=occupancy.grid.extent, interpolation="nearest")
    cells, velocity = moving_cells(occupancy, _MOST_ARROWS)
    if len(cells):
        arrows = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.003}
        axes.quiver(*cells.T, *velocity.T, color=palette.SURFACE, **arrows)
    speeds: list[tuple[Float64, str]] = []
    left, right, bottom, top = extent
    shown = [t for t in occupancy.objects if left < t.position[0] < right and bottom < t.position[1] < top]
    for item in sorted(shown, key=lambda item: -np.hypot(*item.velocity)):
        corners, tip = box_corners(item), item.position + item.velocity
        axes.fill(*corners.T, facecolor="none", edgecolor=palette.VEHICLE, lw=1.2)
        arrow = {"arrowstyle": "-|>", "color": palette.VEHICLE, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", tip, item.position, arrowprops=arrow)
        speeds.append((np.vstack([corners, tip]), f"{np.hypot(*item.velocity):.1f} m/s"))
    map_axes(axes, "Static and moving, arrows = 1 s of travel", extent)
    vehicle = [] if ground is None else [_vehicle(axes, ground)]
    colours = [("static", palette.STATIC), ("moving", palette.MOVING), ("free", palette.FREE)]
    legend(axes, [*colours, ("not seen", palette.UNSEEN)])
    annotate_objects(axes, speeds, keep_clear=(*vehicle, scale_bar(axes)))


def _around_vehicle(axes: Any, title: str, ground: GroundFrame, colour: str = palette.VEHICLE) -> None:
    """Title, limits, vehicle and scale of a map."""
    map_axes(axes, title, shown_extent(ground))
    _vehicle(axes, ground, colour)
    scale_bar(axes)


def _vehicle(axes: Any, ground: GroundFrame, colour: str = palette.VEHICLE) -> Any:
    return axes.fill(*outline(ground).T, facecolor=colour, edgecolor="white", lw=0.6, zorder=5)[0]


def _unseen(axes: Any) -> None:
    """The colour of unseen cells as background, which shows where a layer is unknown."""
    axes.set_facecolor(palette.UNSEEN)
    legend(axes, [("not seen", palette.UNSEEN)])


def _bar(axes: Any, shown: Any) -> Any:
    bar = axes.figure.colorbar(shown, cax=axes.inset_axes((1.015, 0, 0.03, 1)))
    bar.ax.tick_params(labelsize=8)
    return bar


def _value_range(values: Any, smallest: float) -> tuple[float, float]:
    """The range of the middle 96 % of the values, at least `smallest` wide."""
    known = np.ma.compressed(values)
    if not len(known):
        return -smallest, smallest
    low, high = np.percentile(known, [2, 98])
    middle, half = (low + high) / 2, max(high - low, smallest) / 2
    return float(middle - half), float(middle + half)
