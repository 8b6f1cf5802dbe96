# SPDX-License-Identifier: Apache-2.0
"""Binary PCD files with every channel of a scan in its own type, and the label of each point."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import PER_POINT, Scan
from roadbed.core.geometry import Pose
from roadbed.core.point_arrays import selection
from roadbed.io.atomic import atomic_write
from roadbed.outputs.npz import scan_facts
from roadbed.sources.formats.pcd import FACTS


def write_pcd(
    path: str | Path,
    scan: Scan,
    label: ArrayLike | None = None,
    extra: Mapping[str, ArrayLike] | None = None,
    keep: ArrayLike | None = None,
) -> None:
    """Write x, y, z, all channels, then `label` (uint8) and `extra` per-point values; `keep` selects points.

    The sensor's pose goes into VIEWPOINT, its time, name and mounting into a comment. A channel that label or extra
    also names is replaced by it.
    """
    columns = _columns(path, scan, label, extra)
    chosen = slice(None) if keep is None else selection(keep, len(scan), f"{path}: keep")
    count = len(columns["x"][chosen])
    table = np.empty(count, [(name, values.dtype, values.shape[1:]) for name, values in columns.items()])
    for name, values in columns.items():
        table[name] = values[chosen]
    with atomic_write(path) as file:  # a large scan is not copied again
        file.write(_header(columns, count, scan))
        file.write(table.data)


def _columns(
    path: str | Path, scan: Scan, label: ArrayLike | None, extra: Mapping[str, ArrayLike] | None
) -> dict[str, NDArray]:
    named: dict[str, ArrayLike] = {axis: scan.points[:, k] for k, axis in enumerate("xyz")}
    named.update({name: getattr(scan, part) for name, part in _of_scan(scan).items()})
    named.update(scan.channels)
    if label is not None:
        named["label"] = np.asarray(label).astype(np.uint8)
        if not np.array_equal(named["label"], label):
            raise InputError(f"{path}: label: expected whole numbers from 0 to 255")
    named.update(extra or {})
    return {name: _storable(path, name, np.asarray(values), len(scan)) for name, values in named.items()}


def _of_scan(scan: Scan) -> dict[str, str]:
    """Name of a field -> what it is of the scan; the others are channels. Other programs call `point_time` time."""
    names = [name for name in PER_POINT if getattr(scan, name) is not None]
    return {"time" if name == "point_time" and "time" not in scan.channels else name: name for name in names}


def _storable(path: str | Path, name: str, values: NDArray, count: int) -> NDArray:
    """Values (N, COUNT) in a little-endian type that PCD has."""
    if not name or name == "_" or any(character.isspace() for character in name) or not name.isprintable():
        raise InputError(f"{path}: channel {name!r}: expected a name of one printable word")
    if values.ndim not in (1, 2) or len(values) != count:
        raise InputError(f"{path}: channel {name}: found shape {values.shape}, expected ({count},) or ({count}, k)")
    if values.dtype.kind not in "biuf":
        raise InputError(f"{path}: channel {name}: found {values.dtype}, expected numbers")
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "b":  # as uint8
        kind = "u"
    if kind == "f":  # as float32 or float64
        size = min(max(size, 4), 8)
    columns = values[:, None] if values.ndim == 1 else values
    return columns.astype(f"<{kind}{size}", copy=False)


def _header(columns: dict[str, NDArray], count: int, scan: Scan) -> bytes:
    pose = scan.T_world_sensor
    x, y, z, w = (pose or Pose.identity()).quaternion
    viewpoint = [0, 0, 0, 1, 0, 0, 0] if pose is None else [*pose.xyz, float(w), float(x), float(y), float(z)]
    facts = {name: values.tolist() for name, values in scan_facts(scan).items()} | {"fields": _of_scan(scan)}
    lines = [
        "# .PCD v0.7 - Point Cloud Data file format",
        f"{FACTS}{json.dumps(facts)}",
        "VERSION 0.7",
        "FIELDS " + " ".join(columns),
        "SIZE " + " ".join(str(values.dtype.itemsize) for values in columns.values()),
        "TYPE " + " ".join(values.dtype.kind.upper() for values in columns.values()),
        "COUNT " + " ".join(str(values.shape[1]) for values in columns.values()),
        f"WIDTH {count}",
        "HEIGHT 1",
        "VIEWPOINT " + " ".join(map(repr, viewpoint)),
        f"POINTS {count}",
        "DATA binary",
    ]
    return ("\n".join(lines) + "\n").encode()
