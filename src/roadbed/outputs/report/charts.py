# SPDX-License-Identifier: Apache-2.0
"""Charts as inline SVG: they scale, print, and follow the page's light or dark colours."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import cycle
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

# Okabe and Ito's colours; the order keeps neighbours apart.
SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 860, 250, 52, 34, 12


def stacked_bars(names: Sequence[str], values: Sequence[NDArray[np.float64]], unit: str) -> str:
    """One bar per frame, one colour per stage; values[stage][frame]."""
    frames = len(values[0])
    total = np.sum(values, axis=0)
    # The first frame includes compilation: bars that are much higher than the others are cut.
    usual = total[total <= 4 * np.median(total)]
    ceiling = max(1.1 * float(usual.max()), 1e-6)
    step = (_WIDTH - _LEFT - 6) / frames
    parts = [_frame(ceiling, unit, frames)]
    base = np.zeros(frames)
    for index, (name, series) in enumerate(zip(names, values)):
        parts.append(f'<g fill="{SERIES[index % len(SERIES)]}">')
        for frame, value in enumerate(series):
            low, high = min(base[frame], ceiling), min(base[frame] + value, ceiling)
            x, y, height = _LEFT + frame * step, _y(high, ceiling), _y(low, ceiling) - _y(high, ceiling)
            tip = f"<title>frame {frame}: {escape(name)} {value:.2f} {unit}</title>"
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(step - 1, 0.8):.1f}" height="{height:.1f}">{tip}</rect>'
            )
        parts.append("</g>")
        base += series
    for frame in np.flatnonzero(total > ceiling).tolist():
        x = _LEFT + (frame + 0.5) * step
        parts.append(f'<text x="{x:.1f}" y="{_TOP - 2}" text-anchor="middle">{total[frame]:.0f}</text>')
    return _svg(parts, f"{unit} per stage and frame")


def lines(names: Sequence[str], values: Sequence[NDArray[np.float64]], unit: str) -> str:
    """One line per series over the frames, on a scale that shows the differences."""
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.1 * max(most - least, 0.5)
    low, high = max(0.0, least - margin), min(100.0, most + margin)
    frames = len(values[0])
    step = (_WIDTH - _LEFT - 12) / max(frames - 1, 1)
    parts = [_frame(high, unit, frames, low)]
    for index, series in enumerate(values):
        known = [frame for frame, value in enumerate(series) if np.isfinite(value)]
        points = [(f"{_LEFT + frame * step:.1f}", f"{_y(series[frame], high, low):.1f}") for frame in known]
        colour, path = SERIES[index % len(SERIES)], " ".join(map(",".join, points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="2.2" fill="{colour}"/>' for x, y in points]
    return _svg(parts, f"{', '.join(names)} per frame")


def key(names: Sequence[str]) -> str:
    """The colours of the series with their names."""
    return f'<p class="key">{swatches(zip(names, cycle(SERIES)))}</p>'


def swatches(entries: Iterable[tuple[str, str]]) -> str:
    """Names with their colours."""
    return "".join(f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in entries)


def _frame(high: float, unit: str, frames: int, low: float = 0.0) -> str:
    """Axis lines, labels and horizontal guides."""
    parts = ['<g class="axis">']
    for tick in _ticks(low, high):
        y = _y(tick, high, low)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 6}">0</text>')
    parts.append(f'<text x="{_WIDTH}" y="{_HEIGHT - 6}" text-anchor="end">{frames - 1}</text>')
    middle = (_LEFT + _WIDTH) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">frame</text>')
    parts.append(
        f'<text x="12" y="{_HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 12 {_HEIGHT / 2})">{unit}</text>'
    )
    return "".join(parts) + "</g>"


def _svg(parts: Sequence[str], title: str) -> str:
    body = "".join(parts)
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">{body}</svg>'
    return f'<div class="chart">{svg}</div>'


def _y(value: float, high: float, low: float = 0.0) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (value - low) / max(high - low, 1e-9))


def _ticks(low: float, high: float) -> list[float]:
    rough = max(high - low, 1e-9) / 4
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [round(k * step, 10) for k in range(ceil(low / step), floor(high / step + 1e-9) + 1)]
