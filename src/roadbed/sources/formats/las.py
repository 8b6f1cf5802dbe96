# SPDX-License-Identifier: Apache-2.0
"""LAS and LAZ files by laspy: every dimension; map coordinates are shifted to the origin to keep millimetres."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError, missing_extra
from roadbed.core.frames import Scan
from roadbed.io.expansion import check_claim
from roadbed.io.files import read_bytes
from roadbed.io.foreign import foreign_errors
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.formats.files import FileSource
from roadbed.sources.formats.laz_chunks import check_chunks
from roadbed.sources.units import las_units

# Bytes of points decompressed at a time: memory grows with the actual data, not with the header's claim.
_CHUNK_BYTES = 32 << 20
# Offsets in the LAS header (versions 1.0 to 1.4) of values that laspy does not check against the file length.
_OFFSET_TO_POINTS_AT = 96
_RECORD_HEADER_SIZE = 54
_SMALLEST_HEADER = 227
# Standard points have at most 67 bytes plus a few extra ones; lazrs makes a decoder per extra byte.
_LARGEST_POINT = 4096


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
    try:
        import laspy
    except ImportError:
        raise missing_extra("laspy", "io", f"reading {path}") from None
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
        check_chunks(raw, header, str(path))
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
