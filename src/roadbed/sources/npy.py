# SPDX-License-Identifier: Apache-2.0
"""NumPy files: `.npy` of points, `.npz` as Roadbed writes them or with points under any usual name."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from roadbed.errors import InputError
from roadbed.frames import Scan, SensorMount
from roadbed.geometry import Pose
from roadbed.sources.fields import near_origin, scan_from_fields
from roadbed.sources.files import FileSource
from roadbed.sources.records import foreign_errors, read_bytes

POINTS_NAMES = ("points", "xyz", "pts", "cloud", "arr_0")
CHANNEL_PREFIX = "channel."
# Deflate cannot shrink data further than this, so a member that promises more is not believed.
_GREATEST_DEFLATE = 1040


class NumpySource(FileSource):
    """One array file or a folder of them. Nothing is ever unpickled."""

    name = "numpy"
    suffixes = (".npy", ".npz")

    def read(self, path: Path) -> Scan:
        return read_npy(path) if path.suffix.lower() == ".npy" else read_npz(path)

    def carries_pose(self, path: Path) -> bool:
        return path.suffix.lower() == ".npz" and "T_world_sensor" in read_arrays(path)


def read_npy(path: str | Path) -> Scan:
    """(N, 3 or more) numbers: x, y, z, intensity, further columns; or a structured array with named fields."""
    path = Path(path)
    return _scan_of_array(parse_array(read_bytes(path), str(path)), str(path), path.stem)


def read_npz(path: str | Path) -> Scan:
    """The points and every array with one row per point; arrays of other lengths (grids) are left aside."""
    path = Path(path)
    arrays = read_arrays(path)
    key = next((name for name in POINTS_NAMES if name in arrays), None)
    if key is None and not {"x", "y", "z"} <= arrays.keys():
        raise InputError(f"{path}: expected points or x, y and z, found {', '.join(arrays) or 'no arrays'}")
    if key != "points" or arrays["points"].dtype.names or arrays["points"].shape[1:] != (3,):
        return _scan_of_foreign_arrays(arrays, key, path)
    count = len(arrays["points"])
    prefixed = len(CHANNEL_PREFIX)
    points, _ = near_origin(list(_numbers(arrays["points"], f"{path}: points").T))
    return Scan(
        points,
        time=_number(arrays, "time", path),
        T_world_sensor=_pose(arrays, "T_world_sensor", path),
        T_vehicle_sensor=_pose(arrays, "T_vehicle_sensor", path),
        sensor=str(arrays.get("sensor", "lidar")),
        name=path.stem,
        intensity=_per_point(arrays, "intensity", count, path),
        ring=_per_point(arrays, "ring", count, path),
        point_time=_per_point(arrays, "point_time", count, path),
        classes=_per_point(arrays, "classes", count, path),
        channels={
            name[prefixed:]: values
            for name, values in arrays.items()
            if name.startswith(CHANNEL_PREFIX) and values.shape[:1] == (count,)
        },
        mounts=_mounts(arrays, path),
    )


def read_arrays(path: Path) -> dict[str, NDArray]:
    """Every array of an npz by name, each checked against what the archive can hold."""
    data = read_bytes(path)
    arrays = {}
    with foreign_errors(path, "npz archive"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            name = member.filename.removesuffix(".npy")
            if member.file_size > _GREATEST_DEFLATE * member.compress_size + 1024:
                raise InputError(
                    f"{path}: {name}: promises {member.file_size} bytes, "
                    f"which {member.compress_size} compressed bytes cannot hold"
                )
            arrays[name] = parse_array(archive.read(member), f"{path}: {name}")
    return arrays


def parse_array(data: bytes, where: str) -> NDArray:
    """One array in NumPy's file format, its size checked against the bytes that follow before it is made."""
    if not data:
        raise InputError(f"{where}: found an empty file, expected a NumPy array")
    stream = io.BytesIO(data)
    with foreign_errors(where, "NumPy array"):
        version = npy_format.read_magic(stream)
        readers = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
        if version not in readers:
            raise InputError(f"{where}: format version {version}: expected 1.0 or 2.0")
        shape, fortran_order, dtype = readers[version](stream)
    if dtype.hasobject:
        raise InputError(f"{where}: dtype: found Python objects, expected plain numbers (nothing is unpickled)")
    count = 1
    for size in shape:
        count *= size
    expected, found = count * dtype.itemsize, len(data) - stream.tell()
    if min(shape, default=0) < 0 or expected > found:
        raise InputError(f"{where}: shape {shape} of {dtype.name}: found {found} bytes, expected {expected}")
    if not expected:
        return np.zeros(shape, dtype) if np.prod(shape) == 0 else np.empty(shape, dtype)
    values = np.frombuffer(data, dtype, count, stream.tell())
    return values.reshape(shape, order="F" if fortran_order else "C")


def _scan_of_array(array: NDArray, where: str, name: str) -> Scan:
    if array.dtype.names:
        flat = array.reshape(-1)
        return scan_from_fields({field: flat[field] for field in array.dtype.names}, where, name=name)
    if array.ndim < 2 or array.shape[-1] < 3:
        raise InputError(f"{where}: shape: found {array.shape}, expected (N, 3) or more columns")
    rows = _numbers(array, where).reshape(-1, array.shape[-1])
    if rows.shape[1] > 256:
        raise InputError(f"{where}: shape: found {array.shape}, expected (N, 3) to (N, 256)")
    names = ["x", "y", "z", "intensity", *(f"column_{k}" for k in range(4, rows.shape[1]))]
    return scan_from_fields({n: np.ascontiguousarray(column) for n, column in zip(names, rows.T)}, where, name=name)


def _scan_of_foreign_arrays(arrays: dict[str, NDArray], key: str | None, path: Path) -> Scan:
    """Points under some name, or x, y, z arrays, with further per-point arrays beside them."""
    if key is None:
        count = len(np.atleast_1d(arrays["x"]))
        fields = {name: values for name, values in arrays.items() if values.shape[:1] == (count,)}
        return scan_from_fields(fields, str(path), name=path.stem)
    scan = _scan_of_array(arrays.pop(key), f"{path}: {key}", path.stem)
    named = scan.all_channels()
    named.update({name: values for name, values in arrays.items() if values.shape[:1] == (len(scan),)})
    x, y, z = scan.points.T
    return scan_from_fields(
        {**named, "x": x, "y": y, "z": z}, str(path), time=scan.time, T_world_sensor=scan.T_world_sensor, name=path.stem
    )


def _numbers(values: NDArray, where: str) -> NDArray:
    if values.dtype.kind not in "fiub":
        raise InputError(f"{where}: dtype: found {values.dtype}, expected numbers")
    return values


def _number(arrays: dict[str, NDArray], name: str, path: Path) -> float | None:
    if name not in arrays:
        return None
    value = _numbers(arrays[name], f"{path}: {name}")
    if value.size != 1:
        raise InputError(f"{path}: {name}: found {value.size} numbers, expected one")
    return float(value.reshape(()))


def _per_point(arrays: dict[str, NDArray], name: str, count: int, path: Path) -> NDArray | None:
    values = arrays.get(name)
    if values is not None and values.shape != (count,):
        raise InputError(f"{path}: {name}: found shape {values.shape}, expected ({count},)")
    return values


def _pose(arrays: dict[str, NDArray], name: str, path: Path) -> Pose | None:
    if name not in arrays:
        return None
    try:
        return Pose.from_matrix(_numbers(arrays[name], f"{path}: {name}"))
    except InputError as error:
        raise InputError(f"{path}: {name}: {error}") from None


def _mounts(arrays: dict[str, NDArray], path: Path) -> tuple[SensorMount, ...]:
    names, matrices = arrays.get("mount_names"), arrays.get("mount_poses")
    if names is None or matrices is None:
        return ()
    if matrices.shape != (names.size, 4, 4):
        raise InputError(f"{path}: mount_poses: found shape {matrices.shape}, expected ({names.size}, 4, 4)")
    return tuple(SensorMount(str(name), Pose.from_matrix(matrix)) for name, matrix in zip(names.ravel(), matrices))
