# SPDX-License-Identifier: Apache-2.0
"""LAS and LAZ files by laspy: every dimension, map coordinates kept to the millimetre by a shift near the origin."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.errors import InputError, missing_extra
from roadbed.frames import Scan
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.files import FileSource
from roadbed.sources.records import foreign_errors

# Bytes of points decompressed at a time: memory follows what the file really holds, not what its header promises.
_CHUNK_BYTES = 32 << 20
# Where the LAS header (versions 1.0 to 1.4) keeps what the library would believe without looking at the file's length.
_OFFSET_TO_POINTS_AT = 96
_RECORD_HEADER_SIZE = 54
_SMALLEST_HEADER = 227


class LasSource(FileSource):
    """One LAS or LAZ file or a folder of them."""

    name = "las"
    suffixes = (".las", ".laz")

    def read(self, path: Path) -> Scan:
        return read_las(path)


def read_las(path: str | Path) -> Scan:
    """All points of a file. Coordinates far from the origin are shifted; `T_world_sensor` holds the shift."""
    path = Path(path)
    _check_header(path)
    try:
        import laspy
    except ImportError:
        raise missing_extra("laspy", "io", f"reading {path}") from None
    # The parallel decompressor makes room for whatever a damaged chunk table says and takes the process down.
    backend = laspy.LazBackend.Lazrs
    with foreign_errors(path, "LAS file"), laspy.open(path, laz_backend=backend, read_evlrs=False) as reader:
        header = reader.header
        if header.are_points_compressed:
            _check_chunk_table(path, header.offset_to_point_data)
        else:
            _check_length(path, header)
        points_at_once = max(_CHUNK_BYTES // max(header.point_format.size, 1), 1)
        chunks = [_dimensions(chunk) for chunk in reader.chunk_iterator(points_at_once)]
        if not chunks:
            chunks = [_dimensions(laspy.ScaleAwarePointRecord.empty(header=header))]
    fields = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    if len(fields["x"]) != header.point_count:
        raise InputError(f"{path}: points: found {len(fields['x'])}, expected {header.point_count} by the header")
    return scan_from_fields(fields, str(path), name=path.stem)


def _check_header(path: Path) -> None:
    """The parts of the header that say how much to read, against the length of the file."""
    raw = _read_at(path, 0, _SMALLEST_HEADER)
    if raw[:4] != b"LASF":
        raise InputError(f"{path}: signature: found {raw[:4]!r}, expected b'LASF'")
    size = path.stat().st_size
    if len(raw) < _SMALLEST_HEADER:
        raise InputError(f"{path}: LAS header: found {size} bytes, expected at least {_SMALLEST_HEADER}")
    offset, records = struct.unpack_from("<II", raw, _OFFSET_TO_POINTS_AT)
    if offset > size or records * _RECORD_HEADER_SIZE > offset:
        raise InputError(
            f"{path}: LAS header: points start at byte {offset} after {records} records, expected within {size} bytes"
        )


def _check_chunk_table(path: Path, offset_to_points: int) -> None:
    """The number of compressed chunks, which the decompressor makes room for unasked."""
    size = path.stat().st_size
    place = int.from_bytes(_read_at(path, offset_to_points, 8), "little", signed=True)
    if place == -1:  # written by a stream: the place stands at the end of the file
        place = int.from_bytes(_read_at(path, max(size - 8, 0), 8), "little", signed=True)
    table = _read_at(path, place, 8) if 0 <= place <= size else b""
    chunks = int.from_bytes(table[4:8], "little")
    if len(table) < 8 or chunks > size:
        raise InputError(
            f"{path}: LAZ chunk table: found {chunks} chunks at byte {place}, expected within {size} bytes"
        )


def _read_at(path: Path, place: int, length: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(place)
            return file.read(length)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def _check_length(path: Path, header) -> None:  # type: ignore[no-untyped-def]
    expected = header.point_count * header.point_format.size
    found = path.stat().st_size - header.offset_to_point_data
    if found < expected:
        raise InputError(
            f"{path}: points: found {max(found, 0)} bytes, expected {expected} "
            f"({header.point_count} points of {header.point_format.size} bytes)"
        )


def _dimensions(points) -> dict[str, NDArray]:  # type: ignore[no-untyped-def]
    """Scaled x, y, z as float64 and every other dimension as it is; X, Y, Z are the unscaled coordinates."""
    fields = {axis: np.asarray(getattr(points, axis), np.float64) for axis in "xyz"}
    for name in points.point_format.dimension_names:
        if name not in ("X", "Y", "Z"):
            fields[name] = np.array(points[name])
    return fields
