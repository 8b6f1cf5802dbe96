# SPDX-License-Identifier: Apache-2.0
"""Coordinates in other units than metres: by the file's reference system where it has one, else by their extent."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError

FOOT_M, SURVEY_FOOT_M = 0.3048, 1200 / 3937
_GEOGRAPHIC = 2  # value of GTModelTypeGeoKey
_MODEL_KEY, _LINEAR_KEY, _VERTICAL_KEY = 1024, 3076, 4099
_KEY_UNITS_M = {9001: 1.0, 9002: FOOT_M, 9003: SURVEY_FOOT_M}
_WKT_UNIT = re.compile(r'UNIT\s*\[\s*"[^"]*"\s*,\s*([0-9.eE+-]+)', re.IGNORECASE)


def check_degrees(columns: list[NDArray], where: str) -> None:
    """Refuse longitude and latitude: a few hundredths wide at numbers like 11.6 and 48.1, but metres high."""
    with np.errstate(over="ignore", invalid="ignore"):
        x, y, z = (known.astype(np.float64) for known in map(_some, columns))
    if min(len(x), len(y), len(z)) < 100:
        return
    (west, east), (south, north), (low, high) = (np.quantile(axis, [0.01, 0.99]) for axis in (x, y, z))
    span = max(east - west, north - south)
    within = max(abs(west), abs(east)) <= 180 and max(abs(south), abs(north)) <= 90
    away = min(abs(west), abs(east)) > 5 * span or min(abs(south), abs(north)) > 5 * span
    if within and away and 0 < span < 0.3 and high - low > 50 * span:
        raise degrees(where, f"{west:.4f} to {east:.4f} and {south:.4f} to {north:.4f}")


def _some(column: NDArray) -> NDArray:
    """About a thousand finite numbers of a column."""
    sample = column[:: max(len(column) // 1000, 1)]
    return sample[np.isfinite(sample)]


def degrees(where: str, found: str) -> InputError:
    return InputError(f"{where}: x and y: found degrees ({found}), expected metres; project them first, e.g. to UTM")


def las_units(vlrs: Any, where: str) -> tuple[float, float]:
    """Metres per unit of x and y, and of z, as the reference system of a LAS file says; degrees are refused."""
    keys: dict[int, int] = {key.id: key.value_offset for vlr in vlrs.get("GeoKeyDirectoryVlr") for key in vlr.geo_keys}
    if keys.get(_MODEL_KEY) == _GEOGRAPHIC:
        raise degrees(where, "geographic coordinates by its reference system")
    across = _KEY_UNITS_M.get(keys.get(_LINEAR_KEY, 0), 1.0)
    up = _KEY_UNITS_M.get(keys.get(_VERTICAL_KEY, 0), across)
    for vlr in vlrs.get("WktCoordinateSystemVlr"):
        horizontal, _, vertical = re.sub("VERT_?(CS|CRS)", "\0", str(vlr.string), count=1).partition("\0")
        if re.search("GEOG(CS|CRS)", horizontal) and not re.search("PROJ(CS|CRS)", horizontal):
            raise degrees(where, "geographic coordinates by its reference system")
        across = _last_length(horizontal, 1.0)
        up = _last_length(vertical, across)
    return across, up


def _last_length(text: str, default: float) -> float:
    """The last unit of a WKT text that is a metre or a foot; others are angles."""
    found = [float(number) for number in _WKT_UNIT.findall(text) if re.fullmatch(r"[0-9.]+([eE][+-]?\d+)?", number)]
    lengths = [number for number in found if number == 1.0 or 0.3 < number < 0.31]
    return lengths[-1] if lengths else default


@np.errstate(over="ignore")  # the median of huge numbers
def lost_precision(columns: list[NDArray], far: float) -> str:
    """A line where float32 coordinates are too far from the origin for millimetres; empty otherwise."""
    steps = []
    for axis, column in zip("xyz", columns):
        if column.dtype != np.float32:
            continue
        known = _some(column)
        middle = np.abs(np.median(known)) if len(known) else np.float32(0)
        if far < middle < 1e9:
            steps.append(f"{axis} in steps of {float(np.spacing(middle)):.2g} m")
    if not steps:
        return ""
    return f"map coordinates stored as float32 lost their precision: {', '.join(steps)}; store float64 or an offset"
