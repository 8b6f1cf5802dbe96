# SPDX-License-Identifier: Apache-2.0
"""Checks of the sizes inside a LAZ file, before the decompressor allocates memory for them.

Compressed points are stored in chunks. In layered compression (point formats 6 to 10) a chunk starts with its first
point uncompressed, the number of points, and the size of each layer.
"""

from __future__ import annotations

import io
import struct
from typing import Any

from roadbed.core.errors import InputError

_POINT_WISE, _LAYERED = 1, 3
_ITEMS_AT = 34  # in the record that describes the compression
# Layers of an item by its type: the point itself, colours, near infrared, wave packets. Extra bytes: one layer each.
_LAYERS = {10: 9, 11: 1, 12: 2, 13: 1}
_EXTRA_BYTES = 14


def check_chunks(raw: bytes, header: Any, where: str) -> None:
    """Refuse chunks and layers that exceed the file."""
    import lazrs

    record = header.vlrs.get("LasZipVlr")[0].record_data
    description = lazrs.LazVlr(record)
    if description.item_size() != header.point_format.size:
        raise InputError(
            f"{where}: LAZ items: found {description.item_size()} bytes per point, "
            f"expected {header.point_format.size} by the header"
        )
    compressor = int.from_bytes(record[:2], "little")
    if compressor == _POINT_WISE:  # one stream without chunks
        return
    _check_table(raw, header.offset_to_point_data, where)
    if compressor == _LAYERED:
        source = io.BytesIO(raw)
        source.seek(header.offset_to_point_data)
        table = lazrs.read_chunk_table(source, description)
        points = sum(count for count, _ in table)
        if points < header.point_count:
            raise InputError(
                f"{where}: LAZ chunk table: found room for {points} points, expected {header.point_count} by the header"
            )
        sizes = [size for _, size in table]
        _check_layers(raw, header.offset_to_point_data + 8, sizes, header.point_format.size, _layers(record), where)


def _check_table(raw: bytes, offset_to_points: int, where: str) -> None:
    """Check the position of the chunk table and the number of chunks."""
    place = int.from_bytes(raw[offset_to_points : offset_to_points + 8], "little", signed=True)
    if place == -1:  # written as a stream: the position is at the end of the file
        place = int.from_bytes(raw[-8:], "little", signed=True)
    table = raw[place : place + 8] if 0 <= place <= len(raw) else b""
    chunks = int.from_bytes(table[4:8], "little")
    if len(table) < 8 or chunks > len(raw):
        raise InputError(
            f"{where}: LAZ chunk table: found {chunks} chunks at byte {place}, expected within {len(raw)} bytes"
        )


def _layers(record: bytes) -> int:
    """Number of layers of a point."""
    (items,) = struct.unpack_from("<H", record, _ITEMS_AT - 2)
    layers = 0
    for kind, size, _ in struct.iter_unpack("<HHH", record[_ITEMS_AT : _ITEMS_AT + 6 * items]):
        layers += size if kind == _EXTRA_BYTES else _LAYERS.get(kind, 0)
    return layers


def _check_layers(raw: bytes, place: int, chunks: list[int], point_size: int, layers: int, where: str) -> None:
    """The layers of each chunk must fill it exactly, as they are read in sequence."""
    for number, size in enumerate(chunks):
        sizes_at = place + point_size + 4
        data_at = sizes_at + 4 * layers
        if data_at > place + size or place + size > len(raw):
            raise InputError(f"{where}: LAZ chunk {number}: found {size} bytes, expected within {len(raw)} bytes")
        found = sum(struct.unpack_from(f"<{layers}I", raw, sizes_at))
        if found != place + size - data_at:
            raise InputError(
                f"{where}: LAZ chunk {number}: found layers of {found} bytes, expected {place + size - data_at}"
            )
        place += size
