# SPDX-License-Identifier: Apache-2.0
"""What users and files give as arrays, checked, and points near enough to the origin for float32."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.device_arrays import lies_on_device
from roadbed.core.errors import InputError
from roadbed.core.geometry import FARTHEST_M, Pose

DESKEWED_TIME = "deskewed_time"  # the channel of times that deskewing has undone; movers are still where they were then
_LARGEST_WHOLE = 2.0**24  # float32 has every whole number up to it


def as_array(values: ArrayLike, what: str) -> NDArray:
    """The values as an array; masked floats become NaN."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{what}: expected rows of one length, found a ragged list") from None
    if not np.ma.is_masked(values):
        return array
    if array.dtype.kind != "f":
        raise InputError(f"{what}: found masked values of {array.dtype}, expected floats (they become NaN) or no mask")
    return np.ma.filled(values, np.nan)


def as_numbers(values: ArrayLike, what: str, expected: str = "numbers") -> NDArray:
    """The values as an array, refused where they are text, dates, complex numbers or objects."""
    array = as_array(values, what)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what}: expected {expected}, found {array.dtype}")
    return array


def as_pose(pose: Pose | ArrayLike | None) -> Pose | None:
    return pose if pose is None or isinstance(pose, Pose) else Pose.from_matrix(pose)


def per_point(values: Any, what: str, count: int, convert: Any = as_array, dimensions: int | None = None) -> Any:
    """The values per point as an array, on the host or where they are."""
    array = values if lies_on_device(values) else convert(values, what)
    shape = tuple(array.shape)
    if shape[:1] != (count,):
        raise InputError(f"{what} has {shape[0] if shape else 'single'} values, expected {count} (one per point)")
    if dimensions is not None and len(shape) != dimensions:
        raise InputError(f"{what}: expected one number per point, found shape {shape}")
    return array


def selection(chosen: Any, count: int, what: str) -> Any:
    """A mask, indices or a slice of `count` points, checked."""
    if isinstance(chosen, slice) or lies_on_device(chosen):
        return chosen
    array = as_array(chosen, what)
    if not array.size and array.dtype.kind != "b":  # an empty list
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise InputError(f"{what}: found {array.dtype} of shape {array.shape}, expected a mask or indices of points")
    if array.dtype.kind == "b" and len(array) != count:
        raise InputError(f"{what}: found a mask of {len(array)} values, expected {count} (one per point)")
    if array.dtype.kind != "b" and array.size and not -count <= array.min() <= array.max() < count:
        raise InputError(f"{what}: found indices from {array.min()} to {array.max()}, expected them below {count}")
    return array


def map_shift(columns: Iterable[NDArray], far: float) -> Pose | None:
    """The middle of 64-bit coordinates x, y, z in whole metres, along the axes where it lies beyond `far` metres.

    Whole numbers of 32 bits are shifted where float32 does not hold them.
    """
    shift = np.zeros(3)
    for axis, column in enumerate(columns):
        wide, whole = column.dtype.itemsize == 8, column.dtype.kind in "iu" and column.dtype.itemsize == 4
        sample = column[:: len(column) // 1000 + 1] if wide or whole else column[:0]
        if (far if wide else _LARGEST_WHOLE) < abs(_middle(sample)) < FARTHEST_M:
            shift[axis] = np.round(_middle(column))
    return Pose(np.eye(3), shift) if shift.any() else None


@np.errstate(over="ignore", invalid="ignore")  # of huge numbers
def _middle(column: NDArray) -> float:
    finite = column[np.isfinite(column)]
    return float(np.median(finite)) if len(finite) else 0.0


@np.errstate(over="ignore", invalid="ignore")  # a float64 of 1e300 becomes infinite; the filters label it unknown
def near_origin(columns: list[NDArray], shift: Pose | None) -> NDArray[np.float32]:
    """float32 points (N, 3) with the shift taken off."""
    points = np.empty((len(columns[0]), 3), np.float32)
    for axis, (column, metres) in enumerate(zip(columns, shift.xyz if shift else (0.0, 0.0, 0.0))):
        points[:, axis] = column - metres if metres else column
    return points
