# SPDX-License-Identifier: Apache-2.0
"""Scans with their ground and occupancy as compressed NumPy archives: plain arrays only, read back by `np.load`."""

import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, OccupancyFrame, Scan
from roadbed.core.geometry import Grid, Pose
from roadbed.io.atomic import atomic_write
from roadbed.sources.formats.npy import CHANNEL_PREFIX


def write_npz(
    path: str | Path, scan: Scan, ground: GroundFrame | None = None, occupancy: OccupancyFrame | None = None
) -> None:
    """Names: points, intensity, ..., `channel.NAME`; those of `result_arrays`."""
    write_arrays(path, scan_arrays(scan) | result_arrays(ground, occupancy))


def result_arrays(ground: GroundFrame | None, occupancy: OccupancyFrame | None) -> dict[str, NDArray]:
    """`ground.LAYER` and `occupancy.LAYER` of the frames that are given."""
    frames = {"ground": ground, "occupancy": occupancy}
    return {
        f"{prefix}.{name}": values
        for prefix, frame in frames.items()
        if frame is not None
        for name, values in frame_arrays(frame).items()
    }


def write_arrays(path: str | Path, arrays: dict[str, NDArray]) -> None:
    """An npz archive of plain arrays; object arrays are refused."""
    for name, values in arrays.items():
        if values.dtype.hasobject:
            raise InputError(f"{path}: {name}: found Python objects, expected plain numbers")
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy_format.write_array(member, np.asanyarray(values), allow_pickle=False)


def scan_arrays(scan: Scan) -> dict[str, NDArray]:
    """Every part of a scan as an array, under the names of the reader."""
    arrays: dict[str, NDArray] = {"points": scan.points}
    for name in ("intensity", "ring", "point_time", "classes"):
        values = getattr(scan, name)
        if values is not None:
            arrays[name] = np.asarray(values)
    arrays.update({f"{CHANNEL_PREFIX}{name}": np.asarray(values) for name, values in scan.channels.items()})
    return arrays | scan_facts(scan)


def scan_facts(scan: Scan) -> dict[str, NDArray]:
    """What a scan has beside its points: sensor, time, poses."""
    arrays = {"sensor": np.array(scan.sensor), "front": np.array(scan.front, np.float64)}
    if scan.time is not None:
        arrays["time"] = np.array(scan.time, np.float64)
    if scan.has_origin is not None:
        arrays["has_origin"] = np.array(scan.has_origin)
    for name in ("T_world_sensor", "T_vehicle_sensor"):
        pose = getattr(scan, name)
        if pose is not None:
            arrays[name] = pose.matrix
    if scan.mounts:
        arrays["mount_names"] = np.array([mount.name for mount in scan.mounts])
        arrays["mount_poses"] = np.stack([mount.T_vehicle_sensor.matrix for mount in scan.mounts])
    return arrays


def frame_arrays(frame: GroundFrame | OccupancyFrame) -> dict[str, NDArray]:
    """Arrays, grid (x0, y0, spacing, columns, rows), poses and time of a frame; its other fields are not numbers."""
    arrays: dict[str, NDArray] = {}
    for field in fields(frame):
        value = getattr(frame, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        elif isinstance(value, Grid):
            arrays[field.name] = np.array([value.x0, value.y0, value.spacing, value.columns, value.rows])
        elif isinstance(value, Pose):
            arrays[field.name] = value.matrix
        elif isinstance(value, float):
            arrays[field.name] = np.array(value)
    if isinstance(frame, OccupancyFrame):
        arrays |= {"occupied": frame.occupied, "unknown": frame.unknown}
    if isinstance(frame, GroundFrame):
        arrays["T_vehicle_sensor"] = frame.mounting.T_vehicle_sensor.matrix
        drivable = frame.traversability()
        arrays |= {"traversability": drivable.score, "traversability_reason": drivable.reason}
    return arrays
