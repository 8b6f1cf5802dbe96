# SPDX-License-Identifier: Apache-2.0
"""Locations with options: `bag.mcap?topic=/points`, `sim:city?sensor=hdl64e&frames=100`."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from roadbed.core.errors import InputError


def parse_location(
    location: str | Path, allowed: Sequence[str] | None = None, given: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """The path and the options after `?`, joined with `given` keywords (which win); unknown options are refused.

    Values after `?` stay text. `of=` takes the rest of the text: a location within a location.
    An existing file with a `?` in its name is a plain path.
    """
    location = str(location)
    path, mark, query = location.partition("?")
    if mark and _exists(location):
        path, query = location, ""
    query, nested, inner = f"&{query}".partition("&of=")
    options: dict[str, Any] = {"of": inner} if nested else {}
    for item in filter(None, query.split("&")):
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise InputError(f"{location}: option {item!r}: expected name=value")
        if name in options:
            raise InputError(f"{location}: option {name!r} is given twice, expected once")
        options[name] = value
    options.update({name: value for name, value in (given or {}).items() if value is not None})
    if allowed is not None:
        for name in options:
            _check_name(path, name, allowed)
    return path, options


def _check_name(path: str, name: str, allowed: Sequence[str]) -> None:
    if name in allowed:
        return
    if not allowed:
        raise InputError(f"{path}: option {name!r}: this source has no options")
    near = get_close_matches(name, allowed, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InputError(f"{path}: unknown option {name!r}, expected one of {', '.join(allowed)}{hint}")


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long or with a null byte: not a file name
        return False
