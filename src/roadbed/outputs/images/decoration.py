# SPDX-License-Identifier: Apache-2.0
"""Shared by map panels: bare axes, a scale bar, a legend of colours, texts that do not overlap."""

from collections.abc import Iterable, Iterator, Sequence
from math import floor, log10
from typing import Any

import numpy as np

from roadbed.core.geometry import Float64

_INK = "#2B2B2B"


def map_axes(axes: Any, title: str, extent: tuple[float, float, float, float]) -> None:
    """A title, fixed limits and no ticks: the scale bar shows the size."""
    axes.set_xlim(extent[:2])
    axes.set_ylim(extent[2:])
    axes.set_title(title, loc="left")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_color("#B0B0B0")


def scale_bar(axes: Any) -> Any:
    """A bar of 1, 2 or 5 times a power of ten metres, about a fifth of the panel wide, readable on any ground."""
    from matplotlib.patheffects import withStroke

    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    length = round_length((right - left) / 5)
    x, y = right - 0.04 * (right - left) - length, bottom + 0.045 * (top - bottom)
    halo = [withStroke(linewidth=4.5, foreground="white", alpha=0.9)]
    axes.plot([x, x + length], [y, y], color=_INK, lw=2.5, solid_capstyle="butt", zorder=6, path_effects=halo)
    middle = (x + length / 2, y + 0.018 * (top - bottom))
    halo = [withStroke(linewidth=2.5, foreground="white", alpha=0.9)]
    return axes.text(
        *middle, f"{length:g} m", ha="center", va="bottom", color=_INK, fontsize=8, zorder=6, path_effects=halo
    )


def round_length(value: float) -> float:
    """The largest 1, 2 or 5 times a power of ten that is not above `value`."""
    power = 10.0 ** floor(log10(value))
    return max(step * power for step in (1, 2, 5) if step * power <= value * 1.000001)


def colour_patches(entries: Iterable[tuple[str, str]]) -> list[Any]:
    """Names with their colours, as the handles of a legend."""
    from matplotlib.patches import Patch

    return [Patch(facecolor=colour, edgecolor="#808080", lw=0.5, label=name) for name, colour in entries]


def legend(axes: Any, entries: Iterable[tuple[str, str]]) -> None:
    """Named colour patches in a line below the axes, where they cover nothing."""
    below: Any = {"loc": "upper left", "bbox_to_anchor": (0, 0), "borderaxespad": 0.2, "borderpad": 0.2}
    patches = colour_patches(entries)
    spacing: Any = {"handlelength": 1.0, "columnspacing": 1.0, "handletextpad": 0.4}
    axes.legend(handles=patches, ncols=5, fontsize=8, frameon=False, **below, **spacing)


def annotate_objects(axes: Any, objects: Sequence[tuple[Float64, str]], keep_clear: Iterable[Any]) -> None:
    """A text next to each object, which is given by points (N, 2) around it; earlier objects come first.

    A text that would cover another, an object, or an artist of `keep_clear` is left out. Axes must have their limits.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patheffects import withStroke
    from matplotlib.transforms import Bbox

    axes.apply_aspect()
    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    corners = [axes.transData.transform(points) for points, _ in objects]
    outlines = [Bbox(np.vstack([pixels.min(0), pixels.max(0)])) for pixels in corners]
    taken = [*outlines, *(artist.get_window_extent(renderer) for artist in keep_clear)]
    for outline, (_, text) in zip(outlines, objects):
        for anchor, alignment in _anchors_around(outline):
            label = axes.annotate(
                text,
                axes.transData.inverted().transform(anchor),
                annotation_clip=False,
                fontsize=7,
                path_effects=[withStroke(linewidth=2, foreground="white", alpha=0.8)],
                **alignment,
            )
            extent = label.get_window_extent(renderer)
            inside = np.all(extent.min >= axes.bbox.min) and np.all(extent.max <= axes.bbox.max)
            if inside and not any(extent.overlaps(other) for other in taken):
                taken.append(extent)
                break
            label.remove()


def _anchors_around(outline: Any, gap: float = 3.0) -> Iterator[tuple[tuple[float, float], dict[str, str]]]:
    """Points above, below, right and left of a box in pixels, with the alignment of a text there."""
    (left, bottom), (right, top) = outline.min, outline.max
    x, y = (left + right) / 2, (bottom + top) / 2
    yield (x, top + gap), {"ha": "center", "va": "bottom"}
    yield (x, bottom - gap), {"ha": "center", "va": "top"}
    yield (right + gap, y), {"ha": "left", "va": "center"}
    yield (left - gap, y), {"ha": "right", "va": "center"}
