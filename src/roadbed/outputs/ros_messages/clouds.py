# SPDX-License-Identifier: Apache-2.0
"""PointCloud2 from scans; results are added to the fields of an input cloud, whose bytes stay as they are."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, Scan
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources.bags.type_names import CLOUD

_DATATYPES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}
# PointCloud2 has no 64-bit integers, half floats or booleans: the next type that holds every value or nearly so.
_WIDENED = {"i8": "f8", "u8": "f8", "f2": "f4", "b1": "u1"}


def packed(columns: Mapping[str, NDArray]) -> NDArray:
    """Named values (N,) or (N, count) as one little-endian record per point, in types of PointCloud2."""
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
    return _cloud(messages, header, fields, table)


def cloud_of_scan(messages: RosMessages, header: Any, scan: Scan) -> Any:
    """x, y, z and every channel of a scan."""
    columns = {axis: scan.points[:, k] for k, axis in enumerate("xyz")}
    return cloud_of_columns(messages, header, columns | scan.all_channels())


def labelled_cloud(messages: RosMessages, cloud: Any, ground: GroundFrame) -> Any:
    """The cloud as it came, its bytes untouched, plus label, ground_probability and height_above_ground.

    Where the input has a field of that name already, ours is called roadbed_label and so on.
    """
    order = ">" if cloud.is_bigendian else "<"
    came = _records(cloud)
    if len(came) != len(ground.label):
        raise InputError(f"labelled cloud: found {len(ground.label)} labels, expected {len(came)} (one per point)")
    columns = {
        "label": (ground.label, "u1"),
        "ground_probability": (ground.ground_probability, f"{order}f4"),
        "height_above_ground": (ground.height_above_ground, f"{order}f4"),
    }
    table = np.empty(len(came), [("came", came.dtype), *((name, kind) for name, (_, kind) in columns.items())])
    table["came"] = came
    taken, fields = {str(field.name) for field in cloud.fields}, list(cloud.fields)
    for name, (values, _) in columns.items():
        table[name] = values
        own = f"roadbed_{name}" if name in taken else name
        fields.append(_field(messages, own, *_position(table.dtype, name)))
    return _cloud(messages, cloud.header, fields, table, like=cloud)


def part_of_cloud(messages: RosMessages, cloud: Any, keep: NDArray[np.bool_]) -> Any:
    """The points chosen by `keep` (N,), in one row, with all their fields."""
    made = _cloud(messages, cloud.header, cloud.fields, _records(cloud)[keep])
    made.is_bigendian, made.is_dense = bool(cloud.is_bigendian), bool(cloud.is_dense)
    return made


def _records(cloud: Any) -> NDArray[np.void]:
    """Each point's bytes as one record (N,), which is copied as a whole; padding between rows is left out."""
    width, height, step = int(cloud.width), int(cloud.height), int(cloud.point_step)
    if not width * height:
        return np.zeros(0, f"V{step}")
    data = np.frombuffer(memoryview(cloud.data), np.uint8)
    row_step = int(cloud.row_step) or width * step
    return np.ndarray((height, width), f"V{step}", data, strides=(row_step, step)).reshape(-1)


def _cloud(messages: RosMessages, header: Any, fields: list[Any], table: NDArray, like: Any = None) -> Any:
    """A cloud of one record per point; with `like` of the same width, height and byte order."""
    width, height = (len(table), 1) if like is None else (int(like.width), int(like.height))
    step = table.dtype.itemsize
    return messages.make(
        CLOUD,
        header=header,
        height=height,
        width=width,
        fields=fields,
        is_bigendian=False if like is None else bool(like.is_bigendian),
        point_step=step,
        row_step=width * step,
        data=table.view(np.uint8) if step else np.zeros(0, np.uint8),
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
