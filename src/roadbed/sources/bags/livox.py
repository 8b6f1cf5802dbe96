# SPDX-License-Identifier: Apache-2.0
"""CustomMsg of livox_ros_driver and livox_ros_driver2, read from its bytes as a table of points."""

import struct
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError

POINT_FIELDS = ("offset_time", "x", "y", "z", "intensity", "tag", "line")  # intensity: reflectivity, 0 to 255
_FORMATS, _OFFSETS = ("<u4", "<f4", "<f4", "<f4", "u1", "u1", "u1"), (0, 4, 8, 12, 16, 17, 18)
_POINT_BYTES = {True: 19, False: 20}  # in ROS 1, where fields are packed, and in CDR, where they are aligned


class LivoxMessage(NamedTuple):
    """A CustomMsg with its points as a table: as 20,000 objects they would take half a second."""

    header: SimpleNamespace  # stamp and frame_id, as in other messages
    points: NDArray


def livox_message(raw: bytes, is_ros1: bool) -> LivoxMessage:
    """A serialised CustomMsg. ROS 1 packs the fields, CDR aligns them to their sizes after 4 bytes of its own."""
    if not is_ros1 and not raw[1] & 1:
        raise InputError("CustomMsg: found big-endian CDR, expected little-endian")
    seconds, nanoseconds, length = struct.unpack_from("<IIi", raw, 4)
    if not 0 <= length <= len(raw):
        raise InputError(f"CustomMsg: frame_id: found {length} bytes, expected at most {len(raw)}")
    frame = bytes(raw[16 : 16 + length]).rstrip(b"\0").decode("utf-8", "replace")
    place = 16 + length
    place += 0 if is_ros1 else -(place - 4) % 8
    _timebase, _count, _lidar, count = struct.unpack_from("<QIB3xI", raw, place)
    size = _POINT_BYTES[is_ros1]
    record = np.dtype(
        {"names": list(POINT_FIELDS), "formats": list(_FORMATS), "offsets": list(_OFFSETS), "itemsize": size}
    )
    padded = bytes(raw[place + 20 :]) + bytes(not is_ros1)  # CDR does not fill up the last point
    if count * size > len(padded):
        raise InputError(f"CustomMsg: points: found {len(padded) // size}, expected {count}")
    header = SimpleNamespace(stamp=SimpleNamespace(sec=seconds, nanosec=nanoseconds), frame_id=frame)
    return LivoxMessage(header, np.frombuffer(padded, record, count))
