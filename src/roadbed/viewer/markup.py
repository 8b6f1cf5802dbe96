# SPDX-License-Identifier: Apache-2.0
"""The few pieces of HTML that the panel is made of."""

from __future__ import annotations

from html import escape

from roadbed.outputs.pictures import palette


def box(content: str) -> str:
    """Text in the panel."""
    return f'<div style="font-size:0.86em;line-height:1.45;padding:0 0.6em 0.5em">{content}</div>'


def warning(text: str) -> str:
    """The first words of something to look at."""
    return f'<b style="color:{palette.SURFACE}">{escape(text)}</b>'


def patches(entries: list[tuple[str, str]]) -> str:
    """Named colour patches."""
    style = "display:inline-block;width:11px;height:11px;border-radius:2px;border:1px solid #8888;margin-right:5px"
    around = "margin-right:12px;white-space:nowrap"
    return "".join(
        f'<span style="{around}"><i style="{style};background:{colour}"></i>{escape(name)}</span> '
        for name, colour in entries
    )
