# SPDX-License-Identifier: Apache-2.0
"""What a source holds, as facts for `roadbed info SOURCE`."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roadbed.core.errors import InputError

if TYPE_CHECKING:
    from roadbed.core.frames import Scan
    from roadbed.sources import Source

_SCANS = 10  # read for the rate and the ranges of fields
_UNIX_TIME_S = 1e8
_MOST_RINGS = 256
_OPTIONS = {
    "poses": "poses from this file (TUM or KITTI)",
    "times": "times of the scans from this file, s",
    "topic": "read this topic of scans, or several: /a,/b",
    "odometry": "poses from this topic; none: without poses",
    "columns": "names of the columns in order; _ skips one",
    "dtype": "type of the numbers, or one per column: float32, uint16, ...",
    "scale": "factor of x, y and z, one or three",
    "offset": "m added to x, y and z after scaling, one or three",
    "metadata": "the JSON file of an Ouster",
    "sensor": "serial number of one sensor of several",
    "calibration": "the angle correction file of a Hesai",
    "origin": "none: a map or an aerial tile, without a sensor at the origin; sensor: a scan",
}
# The first bytes of formats, for files that cannot be opened.
_SIGNATURES = (
    (b"# .PCD", "PCD"),
    (b"VERSION", "PCD"),
    (b"ply", "PLY"),
    (b"LASF", "LAS or LAZ"),
    (b"\x93NUMPY", "NumPy array"),
    (b"PK\x03\x04", "zip archive (.npz?)"),
    (b"#ROSBAG", "ROS 1 bag"),
    (b"\x89MCAP", "MCAP"),
    (b"SQLite format 3", "SQLite database (ROS 2 bag?)"),
    (b"ARROW1", "Arrow or Feather table"),
    (b"\xd4\xc3\xb2\xa1", "pcap capture"),
    (b"\x4d\x3c\xb2\xa1", "pcap capture, ns"),
    (b"\x0a\x0d\x0d\x0a", "pcapng capture"),
    (b"ASTM-E57", "E57"),
    (b"\x1f\x8b", "gzip: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd: unpack it first"),
    (b"\x89HDF", "HDF5"),
)


def recognised(location: str, kind: str | None) -> str:
    """What can be said of a source that does not open: its kind by name, else its first bytes."""
    from roadbed.sources import registered
    from roadbed.sources.location import parse_location

    path = Path(parse_location(location)[0])
    with suppress(InputError, OSError):
        named = kind or next((name for name, source in registered().items() if source.matches(str(path))), None)
        if named is not None:
            return f"a source of kind {named}"
    with suppress(InputError, OSError, ValueError):
        if path.is_file():
            from roadbed.io.files import open_regular

            with open_regular(path) as file:
                start = file.read(16)
            name = next((name for signature, name in _SIGNATURES if start.startswith(signature)), None)
            return name or f"unknown format, first bytes {start.hex(' ')}"
        if path.is_dir():
            kinds = Counter(file.suffix or "(no suffix)" for file in path.iterdir() if file.is_file())
            listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(5))
            return f"a folder without a known layout ({listed or 'no files'})"
    return "nothing"


def describe(source: Source) -> dict[str, Any]:
    """Facts on a recording and its first scans; every value is plain JSON."""
    scans = list(islice(source, _SCANS))
    if not scans:
        raise InputError(f"{source.location}: found no scans, expected at least one")
    first = scans[0]
    notes = dict.fromkeys([*source.diagnostics, *(note for scan in scans for note in scan.diagnostics)])
    mounting, doubts = _mounting(first)
    facts = {
        "source": source.location,
        "format": source.name,
        "scans": len(source),
        "sensor": sensor_guess(first),
        **source.details(),
        "points": [len(scan) for scan in scans],
        "fields": _fields(scans),
        **_times(scans),
        "poses": any(scan.T_world_sensor is not None for scan in scans) and source.sequential,
        **_position(first, source),
        "deskew": _deskew(first, source),
        "mounting": mounting,
        "notes": [*notes, *doubts],
        "options": {name: _OPTIONS.get(name, "") for name in source.accepts},
    }
    return facts


def _fields(scans: list[Scan]) -> list[dict[str, Any]]:
    """Name, type and range of every field over the scans."""
    columns = [{**dict(zip("xyz", scan.points.T)), **scan.all_channels()} for scan in scans]
    found = []
    for name, first in columns[0].items():
        values = np.concatenate([of_scan[name].ravel() for of_scan in columns if name in of_scan])
        values = values[np.isfinite(values)]
        lowest, highest = (float(values.min()), float(values.max())) if len(values) else (None, None)
        found.append({"name": name, "type": first.dtype.name, "min": lowest, "max": highest})
    return found


def _times(scans: list[Scan]) -> dict[str, Any]:
    times = [scan.time for scan in scans if scan.time is not None]
    if not times:
        return {"time_base": "none", "rate_hz": None}
    steps = np.diff(times)
    rate = 1 / float(np.median(steps)) if len(steps) and np.median(steps) > 0 else None
    return {
        "time_base": "Unix time" if times[0] > _UNIX_TIME_S else "seconds since a start",
        "start_s": times[0],
        "rate_hz": None if rate is None else round(rate, 3),
    }


def _position(scan: Scan, source: Source) -> dict[str, Any]:
    """The place of a single scan: its scanner, or what was taken off map coordinates."""
    if scan.T_world_sensor is None or source.sequential:
        return {}
    return {"position_m": [round(value, 3) for value in scan.T_world_sensor.xyz]}


def _deskew(scan: Scan, source: Source) -> str:
    if scan.point_time is None:
        return "no: the points have no times"
    known = scan.point_time[np.isfinite(scan.point_time)]
    if not len(known) or np.ptp(known) == 0:
        return "no: the times of all points are equal"
    sweep = f"points from {known.min():.3f} to {known.max():.3f} s relative to the scan"
    if scan.T_world_sensor is None or not source.sequential:
        return f"with --odometry kiss-icp, or poses: {sweep}"
    return f"yes: {sweep}"


def sensor_guess(scan: Scan) -> str:
    """Beams, field of view and range, from the points."""
    points = scan.points[np.isfinite(scan.points).all(axis=1)].astype(np.float64)
    reach = np.hypot(points[:, 0], points[:, 1])
    points, reach = points[reach > 0.5], reach[reach > 0.5]
    if not len(points):
        return "unknown: no points"
    elevation = np.degrees(np.arctan2(points[:, 2], reach))
    low, high = np.quantile(elevation, [0.001, 0.999])
    around = 5 * len(np.unique((np.degrees(np.arctan2(points[:, 1], points[:, 0])) // 5).astype(int)))
    beams = f"{len(np.unique(scan.ring))} beams, " if scan.ring is not None and scan.ring.max() < _MOST_RINGS else ""
    return (
        f"{scan.sensor}: {beams}elevation {low:.0f} to {high:.0f} degrees, {min(around, 360)} degrees around, "
        f"99% within {np.quantile(reach, 0.99):.0f} m"
    )


def _mounting(scan: Scan) -> tuple[dict[str, Any], list[str]]:
    """Height and tilt as the scan gives them or as estimated from it, with the confidence."""
    from roadbed.config import Config
    from roadbed.ground.cloud.origin import why_no_origin
    from roadbed.ground.mounting.estimator import Mountings

    if scan.mounts:
        rig = {mount.name: round(mount.T_vehicle_sensor.xyz[2], 3) for mount in scan.mounts}
        return {"found": "given", "heights_m": rig}, []
    if scan.has_origin is False:
        return {"found": "none: map coordinates, several returns per pulse, or as given"}, []
    estimate = Mountings(Config().ground.mounting).of(scan)
    if why := why_no_origin(scan, estimate, Config().ground):
        return {"found": f"none: {why}"}, []
    mounting, pose = estimate.mounting, estimate.mounting.T_vehicle_sensor
    return {
        "found": "given" if not mounting.estimated else "estimated" if mounting.quality > 0 else "no, assumed",
        "confidence": round(mounting.quality, 2),
        "height_m": round(mounting.height, 3),
        "pitch_deg": round(math.degrees(pose.pitch), 2),
        "roll_deg": round(math.degrees(pose.roll), 2),
    }, [estimate.note] if estimate.note else []
