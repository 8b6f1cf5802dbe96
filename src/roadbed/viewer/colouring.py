# SPDX-License-Identifier: Apache-2.0
"""Colours of the cloud and their legends, as HTML for the panel."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import GroundFrame, Scan
from roadbed.outputs.images import palette


def box(content: str) -> str:
    return f'<div style="font-size:0.86em;line-height:1.45;padding:0 0.6em 0.5em">{content}</div>'


def warning(text: str) -> str:
    return f'<b style="color:{palette.SURFACE}">{escape(text)}</b>'


def patches(entries: Iterable[tuple[str, str]]) -> str:
    """Named colour patches."""
    style = "display:inline-block;width:11px;height:11px;border-radius:2px;border:1px solid #8888;margin-right:5px"
    around = "margin-right:12px;white-space:nowrap"
    return "".join(
        f'<span style="{around}"><i style="{style};background:{colour}"></i>{escape(name)}</span> '
        for name, colour in entries
    )


SURFACE_KEY = patches([("elevation, the fainter the less certain", palette.SURFACE)])
GRID_KEY = patches(palette.CELLS)
MOTION_KEY = patches([("arrow: one second of travel, box: number and speed", palette.VEHICLE)])
COLOURINGS = ("label", "probability", "height above ground", "ring", "intensity", "truth")


@dataclass(frozen=True, eq=False)
class Coloured:
    """A colour per point, and the legend as HTML."""

    colours: NDArray[np.uint8]  # (N, 3)
    key: str


def colourings_of(scan: Scan) -> tuple[str, ...]:
    """The colourings that this scan has data for."""
    missing = {
        name
        for name, values in (("ring", scan.ring), ("intensity", scan.intensity), ("truth", scan.classes))
        if values is None
    }
    return tuple(way for way in COLOURINGS if way not in missing)


def coloured(way: str, scan: Scan, ground: GroundFrame) -> Coloured:
    """Colours of the cloud; falls back to the labels if the scan lacks the channel."""
    if way == "probability":
        return _scale(ground.ground_probability, 0.0, 1.0, "probability of ground")
    if way == "height above ground":
        return _scale(ground.height_above_ground, -0.5, 3.0, "m above ground")
    if way == "ring" and scan.ring is not None:
        return _scale(scan.ring, 0.0, float(max(scan.ring.max(initial=0), 1)), "ring")
    if way == "intensity" and scan.intensity is not None:
        high = float(np.percentile(scan.intensity, 98)) if len(scan) else 1.0
        return _scale(scan.intensity, 0.0, max(high, 1e-6), "intensity")
    if way == "truth" and scan.classes is not None:
        return _truth(scan, ground)
    names = [entry for kind, entry in palette.LABELS.items() if (ground.label == kind).any()]
    return Coloured(palette.label_colours(ground.label), patches(names))


def _truth(scan: Scan, ground: GroundFrame) -> Coloured:
    """True and false positives and negatives of the ground."""
    from roadbed.evaluate.protocols import protocol

    actual, scored = protocol("patchwork++")(scan)
    entries = [
        ("ground, found", palette.GROUND),
        ("not ground, found", palette.OBSTACLE),
        ("ground, missed", palette.STATIC),
        ("wrongly ground", palette.SURFACE),
        ("not scored", palette.UNKNOWN),
    ]
    case = np.select([~scored, actual & ground.is_ground, actual, ground.is_ground], [4, 0, 2, 3], 1)
    return Coloured(np.stack([palette.rgb(colour) for _, colour in entries])[case], patches(entries))


def _scale(values: NDArray, low: float, high: float, name: str) -> Coloured:
    """Numbers between `low` and `high` as colours; NaN gets the colour of the unknown."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    viridis = colormaps["viridis"]
    stops = ", ".join(to_hex(viridis(k / 8)) for k in range(9))
    bar = f'<div style="height:10px;border-radius:3px;background:linear-gradient(to right, {stops})"></div>'
    ends = f'<div style="display:flex;justify-content:space-between"><span>{low:g}</span>'
    ends += f"<span>{escape(name)}</span><span>{high:g}</span></div>"
    shares = np.clip((values.astype(np.float64) - low) / (high - low), 0, 1)
    colours = np.where(np.isnan(shares)[:, None], palette.rgb(palette.UNKNOWN), viridis(shares, bytes=True)[:, :3])
    return Coloured(colours, bar + ends)
