# SPDX-License-Identifier: Apache-2.0
"""NumPy files: `.npy` of points, `.npz` of Roadbed or with points under any usual name."""

from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError, errors_at, foreign_errors
from roadbed.core.frames import Scan, SensorMount
from roadbed.core.geometry import Pose
from roadbed.core.point_arrays import map_shift, near_origin
from roadbed.io.arrays import check_numbers, read_array, read_arrays
from roadbed.sources.fields import FAR_FROM_ORIGIN_M, class_numbers, scan_from_fields
from roadbed.sources.formats.columns import KITTI, RAW_OPTIONS, SKIPPED, Layout, given_layout
from roadbed.sources.formats.files import FileSource

POINTS_NAMES = ("points", "xyz", "pts", "cloud", "arr_0")
CHANNEL_PREFIX = "channel."
# Results that Roadbed stores with a scan; the grids may be much larger than it.
_RESULT_PREFIXES = ("ground.", "occupancy.")
_MOST_COLUMNS = 32  # a wider array is a grid or an image


class NumpySource(FileSource):
    """One array file or a folder of them. Nothing is unpickled."""

    name = "numpy"
    suffixes = (".npy", ".npz")
    accepts: ClassVar[tuple[str, ...]] = (*FileSource.accepts, *(name for name in RAW_OPTIONS if name != "dtype"))

    def read(self, path: Path) -> Scan:
        if path.suffix.lower() == ".npz":
            return read_npz(path)
        return read_npy(path, given_layout(self.options, self.location))

    def carries_pose(self, path: Path) -> bool:
        return path.suffix.lower() == ".npz" and bool(read_arrays(path, lambda name: name == "T_world_sensor"))


def read_npy(path: str | Path, layout: Layout | None = None) -> Scan:
    """(N, 3 or more) numbers: x, y, z, intensity, further columns, or those of `layout`; or an array with names."""
    path = Path(path)
    return _scan_of_array(read_array(path), str(path), path.stem, layout)


def read_npz(path: str | Path) -> Scan:
    """The points and every array with one row per point; arrays of other lengths (grids) are ignored."""
    path = Path(path)
    arrays = read_arrays(path, lambda name: not name.startswith(_RESULT_PREFIXES))
    key = next((name for name in POINTS_NAMES if name in arrays), None)
    if key is None and not {"x", "y", "z"} <= arrays.keys():
        raise InputError(f"{path}: expected points or x, y and z, found {', '.join(arrays) or 'no arrays'}")
    if key != "points" or arrays["points"].dtype.names or arrays["points"].shape[1:] != (3,):
        return _scan_of_foreign_arrays(arrays, key, path)
    count = len(arrays["points"])
    prefixed = len(CHANNEL_PREFIX)
    classes = _per_point(arrays, "classes", count, path)
    columns = list(check_numbers(arrays["points"], f"{path}: points").T)
    shift = map_shift(columns, FAR_FROM_ORIGIN_M)
    pose = _pose(arrays, "T_world_sensor", path)
    if shift is not None:
        pose = shift if pose is None else pose @ shift
    return Scan(
        near_origin(columns, shift),
        time=_number(arrays, "time", path),
        T_world_sensor=pose,
        T_vehicle_sensor=_pose(arrays, "T_vehicle_sensor", path),
        sensor=_names(arrays, "sensor", path)[0] if "sensor" in arrays else "lidar",
        name=path.stem,
        intensity=_per_point(arrays, "intensity", count, path),
        ring=_per_point(arrays, "ring", count, path),
        point_time=_per_point(arrays, "point_time", count, path),
        classes=None if classes is None else class_numbers(classes, f"{path}: classes"),
        channels={
            name[prefixed:]: check_numbers(values, f"{path}: {name}")
            for name, values in arrays.items()
            if name.startswith(CHANNEL_PREFIX) and values.shape[:1] == (count,)
        },
        mounts=_mounts(arrays, path),
    )


def _scan_of_array(array: NDArray, where: str, name: str, layout: Layout | None = None) -> Scan:
    if array.dtype.names:
        flat = array.reshape(-1)
        return scan_from_fields({field: flat[field] for field in array.dtype.names}, where, name=name)
    if array.ndim < 2 or array.shape[-1] < 3:
        raise InputError(f"{where}: shape: found {array.shape}, expected (N, 3) or more columns")
    if array.ndim == 2 and array.shape[0] == 3 < array.shape[1]:
        raise InputError(f"{where}: shape: found {array.shape}, which looks transposed, expected (N, 3) or more")
    if array.shape[-1] > _MOST_COLUMNS:
        raise InputError(f"{where}: shape: found {array.shape}, expected (N, 3) to (N, {_MOST_COLUMNS})")
    rows = check_numbers(array, where).reshape(-1, array.shape[-1])
    names = [*KITTI, *(f"column_{k}" for k in range(4, rows.shape[1]))]
    if layout is not None and len(layout.names) != rows.shape[1]:
        raise InputError(f"{where}: columns: found {rows.shape[1]}, expected {len(layout.names)} by ?columns=")
    columns = {n: np.ascontiguousarray(column) for n, column in zip(layout.names if layout else names, rows.T)}
    columns.pop(SKIPPED, None)
    return scan_from_fields(columns if layout is None else layout.named(columns, where), where, name=name)


def _scan_of_foreign_arrays(arrays: dict[str, NDArray], key: str | None, path: Path) -> Scan:
    """Points under another name, or x, y, z arrays, and further per-point arrays."""
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


def _number(arrays: dict[str, NDArray], name: str, path: Path) -> float | None:
    if name not in arrays:
        return None
    value = check_numbers(arrays[name], f"{path}: {name}")
    if value.size != 1 or not np.isfinite(value).all():
        found = f"{value.size} numbers" if value.size != 1 else str(value.item())
        raise InputError(f"{path}: {name}: found {found}, expected one finite number")
    return float(value.item())


def _per_point(arrays: dict[str, NDArray], name: str, count: int, path: Path) -> NDArray | None:
    if name not in arrays:
        return None
    values = check_numbers(arrays[name], f"{path}: {name}")
    if values.shape != (count,):
        raise InputError(f"{path}: {name}: found shape {values.shape}, expected ({count},)")
    return values


def _pose(arrays: dict[str, NDArray], name: str, path: Path) -> Pose | None:
    if name not in arrays:
        return None
    matrix = check_numbers(arrays[name], f"{path}: {name}")
    with errors_at(f"{path}: {name}"):
        return Pose.from_matrix(matrix)


def _mounts(arrays: dict[str, NDArray], path: Path) -> tuple[SensorMount, ...]:
    if not {"mount_names", "mount_poses"} <= arrays.keys():
        return ()
    names, matrices = _names(arrays, "mount_names", path), check_numbers(arrays["mount_poses"], f"{path}: mount_poses")
    if matrices.shape != (len(names), 4, 4):
        raise InputError(f"{path}: mount_poses: found shape {matrices.shape}, expected ({len(names)}, 4, 4)")
    with errors_at(f"{path}: mount_poses"):
        return tuple(SensorMount(name, Pose.from_matrix(matrix)) for name, matrix in zip(names, matrices))


def _names(arrays: dict[str, NDArray], name: str, path: Path) -> list[str]:
    values = arrays[name]
    if values.dtype.kind != "U" or not values.size:
        raise InputError(f"{path}: {name}: found {values.size} values of {values.dtype}, expected text")
    with foreign_errors(f"{path}: {name}", "text"):  # invalid Unicode characters
        return [str(value) for value in values.ravel()]
