# SPDX-License-Identifier: Apache-2.0
"""Binary glTF (.glb): triangles of a grid, arrays with their accessors, and the head of the file."""

from __future__ import annotations

import json
import struct
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import OutputError

_COMPONENTS = {"f4": 5126, "u2": 5123, "u4": 5125}
_TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3"}
_VERTICES, _INDICES = 34962, 34963  # what a buffer view is for
_LARGEST = 2**32 - 1  # bytes
Parts = dict[str, list[dict[str, Any]]]  # "accessors" and "bufferViews" of a glTF document, and lists of its own


def grid_triangles(known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(M, 3) flat node indices: two triangles for each square of a grid whose four corners are known."""
    index = np.arange(known.size).reshape(known.shape)
    whole = known[:-1, :-1] & known[:-1, 1:] & known[1:, :-1] & known[1:, 1:]
    a, b, c, d = (part[whole] for part in (index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]))
    return np.concatenate([np.stack([a, b, d], -1), np.stack([a, d, c], -1)])


def add_view(parts: Parts, body: IO[bytes], data: bytes, target: int | None = None) -> int:
    """Append bytes to the buffer, padded to whole words; returns the index of their view."""
    view = {"buffer": 0, "byteOffset": body.tell(), "byteLength": len(data)}
    parts["bufferViews"].append(view if target is None else view | {"target": target})
    body.write(data + bytes(-len(data) % 4))
    return len(parts["bufferViews"]) - 1


def add_array(parts: Parts, body: IO[bytes], values: NDArray) -> int:
    """Append vertices (floats, (N, 2) or (N, 3)) or indices (integers (N,)); returns the index of their accessor."""
    accessor: dict[str, Any] = {
        "bufferView": add_view(parts, body, values.tobytes(), _VERTICES if values.dtype.kind == "f" else _INDICES),
        "componentType": _COMPONENTS[values.dtype.str[1:]],
        "count": len(values),
        "type": _TYPES[1 if values.ndim == 1 else values.shape[1]],
    }
    if accessor["type"] == "VEC3":
        accessor |= {"min": values.min(axis=0).tolist(), "max": values.max(axis=0).tolist()}
    parts["accessors"].append(accessor)
    return len(parts["accessors"]) - 1


def glb_head(document: dict[str, Any], length: int, origin: object) -> bytes:
    """Everything before the buffer of `length` bytes: header, JSON and the head of the binary chunk."""
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    total = 28 + len(text) + length
    if total > _LARGEST:
        raise OutputError(f"{origin}: a mesh of {total} bytes, expected at most {_LARGEST}: crop the map")
    head = struct.pack("<4sIII4s", b"glTF", 2, total, len(text), b"JSON")
    return head + text + struct.pack("<I4s", length, b"BIN\0")
