# SPDX-License-Identifier: Apache-2.0
"""LAS and LAZ files by laspy: every dimension, map coordinates kept to the millimetre by a shift near the origin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.errors import InputError, missing_extra
from roadbed.frames import Scan
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.files import FileSource
from roadbed.sources.records import foreign_errors

# Points decompressed at a time: memory follows what the file really holds, not what its header promises.
_CHUNK = 1_000_000


class LasSource(FileSource):
    """One LAS or LAZ file or a folder of them."""

    name = "las"
    suffixes = (".las", ".laz")

    def read(self, path: Path) -> Scan:
        return read_las(path)


def read_las(path: str | Path) -> Scan:
    """All points of a file. Coordinates far from the origin are shifted; `T_world_sensor` holds the shift."""
    path = Path(path)
    _check_signature(path)
    try:
        import laspy
    except ImportError:
        raise missing_extra("laspy", "io", f"reading {path}") from None
    with foreign_errors(path, "LAS file"), laspy.open(path) as reader:
        header = reader.header
        if not header.are_points_compressed:
            _check_length(path, header)
        chunks = [_dimensions(chunk) for chunk in reader.chunk_iterator(_CHUNK)]
        if not chunks:
            chunks = [_dimensions(laspy.ScaleAwarePointRecord.empty(header=header))]
    fields = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    if len(fields["x"]) != header.point_count:
        raise InputError(f"{path}: points: found {len(fields['x'])}, expected {header.point_count} by the header")
    return scan_from_fields(fields, str(path), name=path.stem)


def _check_signature(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    with path.open("rb") as file:
        found = file.read(4)
    if found != b"LASF":
        raise InputError(f"{path}: signature: found {found!r}, expected b'LASF'")


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
