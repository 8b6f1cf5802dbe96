# SPDX-License-Identifier: Apache-2.0
"""PointCloud2 from scans, and with results beside every field that came in: bit for bit, in the input's own layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.errors import InputError
from roadbed.frames import GroundFrame, Scan
from roadbed.messages.store import CLOUD, RosMessages
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.pointcloud2 import cloud_fields
from roadbed.sources.ros_poses import frame_name, stamp_seconds

_DATATYPES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}
# PointCloud2 has no 64-bit integers, half floats or booleans: the next type that holds every value or nearly so.
_WIDENED = {"i8": "f8", "u8": "f8", "f2": "f4", "b1": "u1"}


def scan_of_cloud(message: Any, where: str) -> Scan:
    """A scan with every field of the cloud; its sensor is the cloud's frame, its time the stamp."""
    frame = frame_name(str(message.header.frame_id))
    fields = cloud_fields(message, where)
    return scan_from_fields(fields, where, time=stamp_seconds(message.header.stamp), sensor=frame or "lidar")


def packed(columns: Mapping[str, NDArray]) -> NDArray:
    """Named values (N,) or (N, count) as one little-endian record per point, in types that clouds know."""
    stored = {name: _storable(name, np.asarray(values)) for name, values in columns.items()}
    record = np.dtype([(name, values.dtype, values.shape[1:]) for name, values in stored.items()])
    table = np.empty(len(next(iter(stored.values()))) if stored else 0, record)
    for name, values in stored.items():
        table[name] = values
    return table


def cloud_of_columns(messages: RosMessages, header: Any, columns: Mapping[str, NDArray]) -> Any:
    """A packed cloud of named values."""
    table = packed(columns)
    fields = [_field(messages, name, *_position(table.dtype, name)) for name in columns]
    return _cloud(messages, header, fields, _bytes_of(table), table.dtype.itemsize)


def cloud_of_scan(messages: RosMessages, header: Any, scan: Scan) -> Any:
    """x, y, z and every channel of a scan."""
    columns = {axis: scan.points[:, k] for k, axis in enumerate("xyz")}
    return cloud_of_columns(messages, header, columns | scan.all_channels())


def labelled_cloud(messages: RosMessages, cloud: Any, ground: GroundFrame) -> Any:
    """The cloud as it came, its bytes untouched, plus label, ground_probability and height_above_ground.

    Where the input has a field of that name already, ours is called roadbed_label and so on.
    """
    order = ">" if cloud.is_bigendian else "<"
    taken = {str(field.name) for field in cloud.fields}
    columns = {
        "label": ground.label.astype("u1"),
        "ground_probability": ground.ground_probability.astype(order + "f4"),
        "height_above_ground": ground.height_above_ground.astype(order + "f4"),
    }
    rows = _rows(cloud)
    if len(rows) != len(ground.label):
        raise InputError(f"labelled cloud: found {len(ground.label)} labels, expected {len(rows)} (one per point)")
    fields, parts, end = list(cloud.fields), [rows], int(cloud.point_step)
    for name, values in columns.items():
        own = f"roadbed_{name}" if name in taken else name
        fields.append(_field(messages, own, end, values.dtype, 1))
        parts.append(_bytes_of(values))
        end += values.dtype.itemsize
    data = np.concatenate(parts, axis=1)
    return _cloud(messages, cloud.header, fields, data, end, like=cloud)


def part_of_cloud(messages: RosMessages, cloud: Any, keep: NDArray[np.bool_]) -> Any:
    """The points chosen by `keep` (N,), in one row, with all their fields."""
    rows = _rows(cloud)[keep]
    made = _cloud(messages, cloud.header, cloud.fields, rows, int(cloud.point_step))
    made.is_bigendian, made.is_dense = bool(cloud.is_bigendian), bool(cloud.is_dense)
    return made


def _rows(cloud: Any) -> NDArray[np.uint8]:
    """The bytes of each point (N, point_step), whatever lies between the rows."""
    width, height, step = int(cloud.width), int(cloud.height), int(cloud.point_step)
    data = np.frombuffer(memoryview(cloud.data), np.uint8)
    if not width * height:
        return np.zeros((0, step), np.uint8)
    row_step = int(cloud.row_step) or width * step
    table = np.ndarray((height, width, step), np.uint8, data, strides=(row_step, step, 1))
    return table.reshape(height * width, step)


def _bytes_of(values: NDArray) -> NDArray[np.uint8]:
    """(N, bytes per value)."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)


def _cloud(
    messages: RosMessages, header: Any, fields: list[Any], rows: NDArray[np.uint8], step: int, like: Any = None
) -> Any:
    """A cloud of points' bytes; with `like` of the same width, height and byte order."""
    width, height = (len(rows), 1) if like is None else (int(like.width), int(like.height))
    return messages.make(
        CLOUD,
        header=header,
        height=height,
        width=width,
        fields=fields,
        is_bigendian=False if like is None else bool(like.is_bigendian),
        point_step=step,
        row_step=width * step,
        data=np.ascontiguousarray(rows).reshape(-1),
        is_dense=False if like is None else bool(like.is_dense),
    )


def _storable(name: str, values: NDArray) -> NDArray:
    kind = f"{values.dtype.kind}{values.dtype.itemsize}"
    kind = _WIDENED.get(kind, kind)
    if kind not in _DATATYPES:
        raise InputError(f"cloud field {name}: found {values.dtype}, expected numbers of 8 to 64 bits")
    return values.astype(f"<{kind}", copy=False)


def _position(record: np.dtype, name: str) -> tuple[int, np.dtype, int]:
    dtype, offset = record.fields[name][:2]  # type: ignore[index]
    return offset, dtype.base, int(np.prod(dtype.shape, dtype=int))


def _field(messages: RosMessages, name: str, offset: int, dtype: np.dtype, count: int) -> Any:
    datatype = _DATATYPES[f"{dtype.kind}{dtype.itemsize}"]
    return messages.make("sensor_msgs/msg/PointField", name=name, offset=offset, datatype=datatype, count=count)
