# SPDX-License-Identifier: Apache-2.0
"""NumPy files: `.npy` of points, `.npz` of Roadbed or with points under any usual name."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError, errors_at, foreign_errors
from roadbed.core.frames import Scan, SensorMount
from roadbed.core.geometry import Pose
from roadbed.io.arrays import NUMBERS, check_numbers, read_array, read_arrays
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.formats.columns import KITTI, RAW_OPTIONS, SKIPPED, Layout, given_layout
from roadbed.sources.formats.files import FileSource

POINTS_NAMES = ("points", "xyz", "pts", "cloud", "arr_0")
CHANNEL_PREFIX = "channel."
# Results that Roadbed stores with a scan; the grids may be much larger than it.
_RESULT_PREFIXES = ("ground.", "occupancy.")
_SINGLE = ("sensor", "time", "front", "has_origin")  # per point in archives of others
_FACTS = (*_SINGLE, "T_world_sensor", "T_vehicle_sensor", "mount_names", "mount_poses")  # of a scan, not per point
_USUAL_COLUMNS = 8  # of an organised cloud; images with channels first are wider
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
    return scan_from_fields(_columns(read_array(path), str(path), layout), str(path), name=path.stem)


def read_npz(path: str | Path) -> Scan:
    """The points and every array with one row per point; arrays of other lengths (grids) are ignored."""
    path = Path(path)
    arrays = read_arrays(path, lambda name: not name.startswith(_RESULT_PREFIXES))
    key = next((name for name in POINTS_NAMES if name in arrays), None)
    if key is None and not {"x", "y", "z"} <= arrays.keys():
        raise InputError(f"{path}: expected points or x, y and z, found {', '.join(arrays) or 'no arrays'}")
    if key is None:
        fields = {axis: np.atleast_1d(arrays.pop(axis)) for axis in "xyz"}
    else:
        fields = _columns(arrays.pop(key), f"{path}: {key}")
    count = len(next(iter(fields.values())))
    of_points = {name: arrays.pop(name) for name in _SINGLE if name in arrays and arrays[name].shape == (count,)}
    facts = read_facts(arrays, str(path))
    arrays = {name: values for name, values in arrays.items() if name not in _FACTS} | of_points
    for name in ("intensity", "ring", "point_time", "classes"):
        if name in arrays:
            fields[name] = _per_point(arrays, name, count, path)
    # In archives of Roadbed they are what they are; others may have a clock of their own.
    is_ours = "sensor" in facts and "point_time" in fields
    known: Any = {"point_time": fields.pop("point_time")} if is_ours else {}
    channels: dict[str, NDArray] = {}
    left_out: tuple[str, ...] = ()
    for name, values in arrays.items():
        if values.shape[:1] != (count,):
            continue
        if name.startswith(CHANNEL_PREFIX):
            channels[name.removeprefix(CHANNEL_PREFIX)] = check_numbers(values, f"{path}: {name}")
        elif values.dtype.kind in NUMBERS:
            fields.setdefault(name, values)
        else:
            left_out += (f"array {name} left out: found {values.dtype}, expected numbers",)
    mounts = facts.pop("mounts")
    scan = scan_from_fields(fields, str(path), name=path.stem, diagnostics=left_out, **facts)
    return replace(scan, channels={**scan.channels, **channels}, mounts=mounts, **known)


def read_facts(arrays: Mapping[str, NDArray], where: str) -> dict[str, Any]:
    """The fields of a Scan beside its points, from the arrays that `outputs.npz.scan_facts` makes of them."""
    facts: dict[str, Any] = {name: _pose(arrays, name, where) for name in ("T_world_sensor", "T_vehicle_sensor")}
    for name, kind in (("front", float), ("has_origin", bool), ("time", float)):
        if name in arrays:
            facts[name] = kind(_number(arrays[name], f"{where}: {name}"))
    if "sensor" in arrays:
        facts["sensor"] = _names(arrays, "sensor", where)[0]
    return facts | {"mounts": _mounts(arrays, where)}


def _columns(array: NDArray, where: str, layout: Layout | None = None) -> dict[str, NDArray]:
    if array.dtype.names:
        flat = array.reshape(-1)
        return {field: flat[field] for field in array.dtype.names}
    if array.ndim < 2 or array.shape[-1] < 3:
        raise InputError(f"{where}: shape: found {array.shape}, expected (N, 3) or more columns")
    if array.ndim == 2 and array.shape[0] == 3 < array.shape[1]:
        raise InputError(f"{where}: shape: found {array.shape}, which looks transposed, expected (N, 3) or more")
    if array.ndim > 2 and (array.shape[-3] == 3 or array.shape[-3] <= _USUAL_COLUMNS < array.shape[-1]):
        raise InputError(
            f"{where}: shape: found {array.shape}, whose x, y and z may be in the axis of {array.shape[-3]}, "
            f"expected them in the last axis: np.moveaxis(array, -3, -1); or (N, {array.shape[-1]}) points"
        )
    if array.shape[-1] > _MOST_COLUMNS:
        raise InputError(f"{where}: shape: found {array.shape}, expected (N, 3) to (N, {_MOST_COLUMNS})")
    rows = check_numbers(array, where).reshape(-1, array.shape[-1])
    names = [*KITTI, *(f"column_{k}" for k in range(4, rows.shape[1]))]
    if layout is not None and len(layout.names) != rows.shape[1]:
        raise InputError(f"{where}: columns: found {rows.shape[1]}, expected {len(layout.names)} by ?columns=")
    columns = {n: np.ascontiguousarray(column) for n, column in zip(layout.names if layout else names, rows.T)}
    columns.pop(SKIPPED, None)
    return columns if layout is None else layout.named(columns, where)


def _number(values: NDArray, where: str) -> float:
    if check_numbers(values, where).size != 1 or not np.isfinite(values).all():
        found = f"{values.size} numbers" if values.size != 1 else str(values.item())
        raise InputError(f"{where}: found {found}, expected one finite number")
    return float(values.item())


def _per_point(arrays: dict[str, NDArray], name: str, count: int, path: Path) -> NDArray:
    values = check_numbers(arrays.pop(name), f"{path}: {name}")
    if values.shape != (count,):
        raise InputError(f"{path}: {name}: found shape {values.shape}, expected ({count},)")
    return values


def _pose(arrays: Mapping[str, NDArray], name: str, where: str) -> Pose | None:
    if name not in arrays:
        return None
    matrix = check_numbers(arrays[name], f"{where}: {name}")
    with errors_at(f"{where}: {name}"):
        return Pose.from_matrix(matrix)


def _mounts(arrays: Mapping[str, NDArray], where: str) -> tuple[SensorMount, ...]:
    if not {"mount_names", "mount_poses"} <= arrays.keys():
        return ()
    names, matrices = (
        _names(arrays, "mount_names", where),
        check_numbers(arrays["mount_poses"], f"{where}: mount_poses"),
    )
    if matrices.shape != (len(names), 4, 4):
        raise InputError(f"{where}: mount_poses: found shape {matrices.shape}, expected ({len(names)}, 4, 4)")
    with errors_at(f"{where}: mount_poses"):
        return tuple(SensorMount(name, Pose.from_matrix(matrix)) for name, matrix in zip(names, matrices))


def _names(arrays: Mapping[str, NDArray], name: str, where: str) -> list[str]:
    values = arrays[name]
    if values.dtype.kind != "U" or not values.size:
        raise InputError(f"{where}: {name}: found {values.size} values of {values.dtype}, expected text")
    with foreign_errors(f"{where}: {name}", "text"):  # invalid Unicode characters
        return [str(value) for value in values.ravel()]
