# SPDX-License-Identifier: Apache-2.0
"""From the named fields of a file or message to a Scan, under any usual name."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan, SensorMount
from roadbed.core.point_arrays import map_shift, near_origin
from roadbed.io.arrays import check_numbers
from roadbed.sources.units import check_degrees, lost_precision

INTENSITY_NAMES = ("intensity", "i", "remission", "reflectance")
CLASS_NAMES = ("classes", "truth")
RING_NAMES = ("ring", "laser_id", "line", "beam")
TIME_NAMES = ("point_time", "time", "t", "offset_time", "time_offset", "timestamp", "time_stamp", "gps_time")
# float32 resolves 1 mm up to here; map coordinates beyond it are shifted to the origin.
FAR_FROM_ORIGIN_M = 8192.0
# A sweep is much shorter; a clock since a start or an epoch shows much more.
_LONGEST_SWEEP_S = 10.0
# Seconds since 1970 (or since the GPS epoch) are beyond this, a clock since the sensor's start is not.
_EPOCH_CLOCK_S = 1e8
# Values above the first number are an absolute clock in units of the second number.
_CLOCK_UNITS_S = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
# As nanoseconds, a sweep in microseconds would be shorter than any; microseconds since 1970 lie between the last two.
_SHORTEST_SWEEP_S, _FEWEST_US, _EPOCH_US = 1e-3, 5e3, (1e15, 2.2e15)
_COARSE_S = 1e-3  # step of times that deskewing cannot use
_UNPLACED = "points of several sensors (field sensor_index) without their mountings: rays start at the origin"


def scan_from_fields(fields: Mapping[str, NDArray], where: str, time: float | None = None, **more: Any) -> Scan:
    """A Scan from per-point arrays by name: x, y, z, the fields of Scan, and every other one as a channel."""
    rest = {name: check_numbers(values, f"{where}: {name}") for name, values in fields.items()}
    columns = [_take(rest, (axis,)) for axis in "xyz"]
    if any(column is None for column in columns):
        raise InputError(
            f"{where}: fields: expected x, y and z of one number per point, found {', '.join(fields) or 'none'}"
        )
    xyz = [column for column in columns if column is not None]
    check_degrees(xyz, where)
    lost = lost_precision(xyz, FAR_FROM_ORIGIN_M)
    unplaced = _UNPLACED if "sensor_index" in rest else ""
    more["diagnostics"] = (*more.get("diagnostics", ()), *filter(None, (lost, unplaced)))
    shift = map_shift(xyz, FAR_FROM_ORIGIN_M)
    points = near_origin(xyz, shift)
    point_time = None
    for name in TIME_NAMES:
        key = _find(rest, name)
        if key is None:
            continue
        relative = sweep_time(rest[key], time)
        more["diagnostics"] += _notes_on_times(key, rest[key], relative is not None)
        if relative is not None:
            point_time, time = relative
            del rest[key]
            break
    classes = _take(rest, CLASS_NAMES)
    if shift is not None:
        pose = more.get("T_world_sensor")
        more["T_world_sensor"] = shift if pose is None else pose @ shift
        more["has_origin"] = False  # map coordinates
    return Scan(
        points,
        time=time,
        intensity=_take(rest, INTENSITY_NAMES),
        ring=_take(rest, RING_NAMES),
        point_time=point_time,
        classes=None if classes is None else class_numbers(classes, f"{where}: classes"),
        channels=rest,
        **more,
    )


def unit_of_clock(value: float) -> float:
    """Seconds per unit of a clock with this value: nanoseconds, microseconds or milliseconds since an epoch, or 1."""
    return next((unit for limit, unit in _CLOCK_UNITS_S if value > limit), 1.0)


def on_mounts(scan: Scan, mounts: tuple[SensorMount, ...]) -> Scan:
    """The merged scan of these sensors; unchanged where its field sensor_index does not count them."""
    index = scan.channels["sensor_index"]
    if index.shape != (len(scan),) or index.dtype.kind not in "iu" or index.max(initial=0) >= len(mounts):
        return scan
    known = tuple(note for note in scan.diagnostics if note != _UNPLACED)
    return replace(scan, mounts=mounts, sensor="+".join(mount.name for mount in mounts), diagnostics=known)


@np.errstate(invalid="ignore", over="ignore")
def sweep_time(values: NDArray, scan_time: float | None) -> tuple[NDArray, float | None] | None:
    """Seconds relative to the scan's time (N,), and that time; None where the values are not plausible.

    Integers are nanoseconds (Ouster, Livox), or microseconds where a sweep would be too short. The unit of absolute
    clocks (s, ms, us, ns) follows from their size; a zero among stamps since an epoch is a missing return, hence NaN.
    """
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        return None
    known = np.isfinite(values)
    if not known.any():
        return values.astype(np.float64), scan_time
    last = float(values[known].max())
    unit = unit_of_clock(last) if values.dtype.kind == "f" else _unit_of_whole(float(values.min()), last)
    if last * unit <= _LONGEST_SWEEP_S:
        if float(values[known].min()) * unit < -_LONGEST_SWEEP_S:
            return None
        return (values if unit == 1.0 else values.astype(np.float64) * unit), scan_time

    if last * unit > _EPOCH_CLOCK_S:
        known &= values != 0
    first = values[known].min()
    if (last - float(first)) * unit > _LONGEST_SWEEP_S:
        return None
    # Subtract before converting to float64, which does not resolve nanoseconds since 1970.
    seconds = np.full(len(values), np.nan)
    seconds[known] = (values[known] - first).astype(np.float64) * unit
    start = float(first) * unit
    if scan_time is None:
        return seconds, start
    same_clock = abs(start - scan_time) < _LONGEST_SWEEP_S
    return (seconds + (start - scan_time) if same_clock else seconds), scan_time


def _unit_of_whole(first: float, last: float) -> float:
    """Seconds per unit of whole numbers: nanoseconds, unless the sweep is too short for them."""
    in_us = _FEWEST_US <= last < _SHORTEST_SWEEP_S * 1e9 or _EPOCH_US[0] < last < _EPOCH_US[1]
    return 1e-6 if in_us and (last - first) * 1e-9 < _SHORTEST_SWEEP_S else 1e-9


@np.errstate(invalid="ignore")
def _notes_on_times(name: str, values: NDArray, is_used: bool) -> tuple[str, ...]:
    """Where the unit of the times of points is a guess, is not known, or is too coarse."""
    if values.ndim != 1 or values.dtype.kind not in "iuf" or not np.isfinite(values).any():
        return ()
    first, last = float(np.nanmin(values)), float(np.nanmax(values))
    if values.dtype.kind != "f":
        in_us = is_used and _unit_of_whole(first, last) > 1e-9
        return (f"times of points ({name}), {first:.0f} to {last:.0f}, are taken for microseconds",) if in_us else ()
    if is_used and values.dtype == np.float32 and np.spacing(np.float32(last)) > _COARSE_S:
        return (f"times of points ({name}) lost their precision: float32 in steps of {np.spacing(np.float32(last))} s",)
    if not is_used and 0 <= first < 0.05 * last < _EPOCH_CLOCK_S:
        found = f"field {name} is not used as times of points: found {first:g} to {last:g}"
        return (f"{found}, expected seconds of one sweep, or nanoseconds as whole numbers",)
    return ()


def class_numbers(values: NDArray, where: str) -> NDArray[np.uint32]:
    """Semantic labels as uint32; other values are an error."""
    with np.errstate(invalid="ignore"):
        fits = (values >= 0) & (values < 2**32) & (values == np.floor(values))
    if not fits.all():
        raise InputError(f"{where}: found {values[~fits][0]}, expected whole numbers of 32 bits")
    return values.astype(np.uint32, copy=False)


def _find(fields: Mapping[str, NDArray], name: str) -> str | None:
    """The field of this name, else in any case; CloudCompare writes `scalar_` in front of it."""
    if name in fields:
        return name
    return next((key for key in fields if key.lower().removeprefix("scalar_") == name), None)


def _take(fields: dict[str, NDArray], names: tuple[str, ...]) -> NDArray | None:
    """Remove and return the first field with one of these names (case-insensitive)."""
    for name in names:
        key = _find(fields, name)
        if key is not None and fields[key].ndim == 1:
            return fields.pop(key)
    return None
