# SPDX-License-Identifier: Apache-2.0
"""sensor_msgs/PointCloud2 of any layout and byte order to arrays by name; takes any object with its fields."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.io.expansion import check_claim

# PointField datatypes 1 to 8.
_DATATYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")
_MOST_FIELDS = 1024


def cloud_fields(message: Any, where: str) -> dict[str, NDArray]:
    """Every field of the cloud, (N,) or (N, count), rows of organised clouds one after the other."""
    width, height, step = int(message.width), int(message.height), int(message.point_step)
    points = width * height
    data = np.frombuffer(memoryview(message.data), np.uint8)
    row_step = int(message.row_step) or width * step  # zero with some drivers
    expected = (height - 1) * row_step + width * step if points else 0
    sensible = min(width, height) >= 0 and 0 <= step < 2**31 and (step or not points) and row_step >= width * step
    if not sensible or len(data) < expected or row_step >= 2**63:
        raise InputError(
            f"{where}: PointCloud2 data: found {len(data)} bytes with row_step {row_step}, expected {expected} "
            f"for {width} x {height} points of {step} bytes"
        )
    record = _record(message, step, where)
    sizes = sum(record[name].itemsize for name in record.names or ())
    check_claim(points * sizes, len(data), f"{where}: PointCloud2 fields")  # fields may overlap
    table = np.zeros((0, 0), record)
    if points:
        table = np.ndarray((height, width), record, data[:expected], strides=(row_step, step))
    fields = {}
    for name in record.names or ():
        values = table[name]
        values = values.reshape(points, *values.shape[2:])
        fields[name] = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    return fields


def _record(message: Any, step: int, where: str) -> np.dtype:
    """The NumPy type of one point: fields may leave gaps, overlap and come in any order."""
    order = ">" if message.is_bigendian else "<"
    if len(message.fields) > _MOST_FIELDS:
        raise InputError(f"{where}: PointCloud2 fields: found {len(message.fields)}, expected at most {_MOST_FIELDS}")
    names: list[str] = []
    formats: list[Any] = []
    offsets: list[int] = []
    for field in message.fields:
        name, datatype, offset = str(field.name), int(field.datatype), int(field.offset)
        count = max(int(field.count), 1)  # some drivers write zero for one
        if not 1 <= datatype <= len(_DATATYPES):
            raise InputError(f"{where}: PointCloud2 field {name}: datatype: found {datatype}, expected 1 to 8")
        dtype = np.dtype(order + _DATATYPES[datatype - 1])
        if offset < 0 or offset + count * dtype.itemsize > step:
            raise InputError(
                f"{where}: PointCloud2 field {name}: ends at byte {offset + count * dtype.itemsize}, "
                f"expected within point_step {step}"
            )
        if name in names:
            raise InputError(f"{where}: PointCloud2 fields: found {name} twice, expected each name once")
        if not name or name == "_":
            continue
        names.append(name)
        formats.append(dtype if count == 1 else (dtype, (count,)))
        offsets.append(offset)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": max(step, 1)})
