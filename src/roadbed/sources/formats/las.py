# SPDX-License-Identifier: Apache-2.0
"""LAS and LAZ files by laspy: every dimension; map coordinates are shifted to the origin to keep millimetres."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError, foreign_errors, needs_extra
from roadbed.core.frames import Scan
from roadbed.io.expansion import check_claim
from roadbed.io.files import read_bytes
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.formats.files import FileSource
from roadbed.sources.units import las_units

# Bytes of points decompressed at a time: memory grows with the actual data, not with the header's claim.
_CHUNK_BYTES = 32 << 20
# Offsets in the LAS header (versions 1.0 to 1.4) of values that laspy does not check against the file length.
_OFFSET_TO_POINTS_AT = 96
_RECORD_HEADER_SIZE = 54
_SMALLEST_HEADER = 227
# Standard points have at most 67 bytes plus a few extra ones; lazrs makes a decoder per extra byte.
_LARGEST_POINT = 4096
# Compressed points are stored in chunks. In layered compression (point formats 6 to 10) a chunk starts with its first
# point uncompressed, the number of points, and the size of each layer.
_POINT_WISE, _LAYERED = 1, 3
_ITEMS_AT = 34  # in the record that describes the compression
# Layers of an item by its type: the point itself, colours, near infrared, wave packets. Extra bytes: one layer each.
_LAYERS = {10: 9, 11: 1, 12: 2, 13: 1}
_EXTRA_BYTES = 14


class LasSource(FileSource):
    """One LAS or LAZ file or a folder of them."""

    name = "las"
    suffixes = (".las", ".laz")

    def read(self, path: Path) -> Scan:
        return read_las(path)


def read_las(path: str | Path) -> Scan:
    """All points of a file. Coordinates far from the origin are shifted; `T_world_sensor` holds the shift."""
    path = Path(path)
    raw = read_bytes(path)
    _check_header(raw, path)
    with needs_extra("laspy", "io", f"reading {path}"):
        import laspy
    # The parallel decompressor allocates what a damaged chunk table claims and aborts the process.
    backend = laspy.LazBackend.Lazrs
    with (
        foreign_errors(path, "LAS file"),
        laspy.open(io.BytesIO(raw), laz_backend=backend, read_evlrs=False) as reader,
    ):
        header = reader.header
        _check_points(raw, header, path)
        across, up = las_units(header.vlrs, str(path))
        points_at_once = max(_CHUNK_BYTES // header.point_format.size, 1)
        chunks = [_dimensions(chunk) for chunk in reader.chunk_iterator(points_at_once)]
        if not chunks:
            chunks = [_dimensions(laspy.ScaleAwarePointRecord.empty(header=header))]
    fields = {name: np.concatenate([chunk.pop(name) for chunk in chunks]) for name in list(chunks[0])}
    if len(fields["x"]) != header.point_count:
        raise InputError(f"{path}: points: found {len(fields['x'])}, expected {header.point_count} by the header")
    notes: tuple[str, ...] = ()
    if (across, up) != (1.0, 1.0):
        notes = (f"coordinates in feet by the file's reference system: converted to metres ({across:.7g}, z {up:.7g})",)
        for axis, unit in zip("xyz", (across, across, up)):
            fields[axis] = fields[axis] * unit
    airborne = bool((fields["number_of_returns"] > 1).any())  # several returns per pulse: a survey, not a scan
    origin = {"has_origin": False} if airborne else {}
    return scan_from_fields(fields, str(path), name=path.stem, diagnostics=notes, **origin)


def _check_header(raw: bytes, path: Path) -> None:
    """Check the offsets of the header against the file length."""
    if raw[:4] != b"LASF":
        raise InputError(f"{path}: signature: found {raw[:4]!r}, expected b'LASF'")
    if len(raw) < _SMALLEST_HEADER:
        raise InputError(f"{path}: LAS header: found {len(raw)} bytes, expected at least {_SMALLEST_HEADER}")
    offset, records = struct.unpack_from("<II", raw, _OFFSET_TO_POINTS_AT)
    if offset > len(raw) or records * _RECORD_HEADER_SIZE > offset:
        raise InputError(
            f"{path}: LAS header: points start at byte {offset} after {records} records, "
            f"expected within {len(raw)} bytes"
        )


def _check_points(raw: bytes, header: Any, path: Path) -> None:
    """Check point size and count against the file length."""
    count, size = header.point_count, header.point_format.size
    if not 0 < size <= _LARGEST_POINT:
        raise InputError(f"{path}: points: found {size} bytes each, expected at most {_LARGEST_POINT}")
    if header.are_points_compressed:
        check_claim(count * size, len(raw), str(path))
        _check_chunks(raw, header, str(path))
        return
    found = len(raw) - header.offset_to_point_data
    if found < count * size:
        raise InputError(
            f"{path}: points: found {max(found, 0)} bytes, expected {count * size} ({count} points of {size} bytes)"
        )


def _dimensions(points: Any) -> dict[str, NDArray]:
    """Scaled x, y, z as float64 and every other dimension as it is; X, Y, Z are the unscaled coordinates."""
    fields = {axis: np.asarray(getattr(points, axis), np.float64) for axis in "xyz"}
    for name in points.point_format.dimension_names:
        if name not in ("X", "Y", "Z"):
            fields[name] = np.array(points[name])
    return fields


def _check_chunks(raw: bytes, header: Any, where: str) -> None:
    """Refuse chunks and layers that exceed the file, before the decompressor allocates memory for them."""
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
