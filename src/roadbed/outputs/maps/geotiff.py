# SPDX-License-Identifier: Apache-2.0
"""GeoTIFF, one tile of the map at a time: memory does not grow with the map. Beyond 4 GB it is a BigTIFF."""

import struct
import zlib
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.core.errors import ConfigError
from roadbed.core.geometry import Grid
from roadbed.mapping.cache import SIDE

_SHORT, _LONG, _DOUBLE, _ASCII, _LONG8 = 3, 4, 12, 2, 16
_DTYPES = {_SHORT: "<u2", _LONG: "<u4", _DOUBLE: "<f8", _LONG8: "<u8"}
_DEFLATE, _FLOAT, _UNSIGNED = 8, 3, 1
_MODEL_TYPE, _RASTER_TYPE, _PROJECTION = 1024, 1025, 3072  # GeoTIFF keys
_PROJECTED, _PIXEL_IS_AREA = 1, 1
_CLASSIC_LIMIT = 3 << 30  # bytes of pixels, well below what 32-bit offsets reach


@dataclass(frozen=True)
class Georeference:
    """Added to the map's coordinates: easting, northing and height of its origin, m; the map's x axis points east."""

    easting: float = 0.0
    northing: float = 0.0
    height: float = 0.0
    epsg: int | None = None  # of a projected system in metres, e.g. 32632

    def __post_init__(self) -> None:
        if self.epsg is not None and not 1024 <= self.epsg <= 32767:
            raise ConfigError(f"epsg = {self.epsg}: expected the code of a projected system, 1024 to 32767")

    def geo_keys(self) -> list[int]:
        """The GeoTIFF key directory, as TIFF and LAS files hold it; empty without a projection."""
        if self.epsg is None:
            return []
        keys = ((_MODEL_TYPE, _PROJECTED), (_RASTER_TYPE, _PIXEL_IS_AREA), (_PROJECTION, self.epsg))
        return [1, 1, 0, len(keys), *(number for key, value in keys for number in (key, 0, 1, value))]


class GeoTiffWriter:
    """A north-up raster of square tiles, each written once in any order; the others have no data.

    `grid` says where the pixels' middles lie; its rows and columns are multiples of 64.
    """

    def __init__(
        self, file: IO[bytes], grid: Grid, georeference: Georeference, description: str, dtype: DTypeLike = np.float32
    ) -> None:
        self._file, self._grid, self._georeference, self._description = file, grid, georeference, description
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._across, self._down = grid.columns // SIDE, grid.rows // SIDE
        self._big = grid.size * self._dtype.itemsize > _CLASSIC_LIMIT
        self._offsets = np.zeros(self._across * self._down, np.uint64)
        self._sizes = np.zeros_like(self._offsets)
        file.write(struct.pack("<2sHHHQ", b"II", 43, 8, 0, 0) if self._big else struct.pack("<2sHI", b"II", 42, 0))
        self._at = file.tell()
        nothing = np.nan if self._dtype.kind == "f" else 0
        self._empty = self._append(np.full((SIDE, SIDE), nothing, self._dtype))

    def write(self, row: int, column: int, values: NDArray) -> None:
        """A tile (64, 64) by its row and column, row 0 in the south."""
        if np.isfinite(values).any():
            number = (self._down - 1 - row) * self._across + column
            self._offsets[number], self._sizes[number] = self._append(values[::-1])

    def finish(self) -> None:
        """Write the directory: tiles, geometry and meaning of the pixels."""
        unwritten = self._sizes == 0
        self._offsets[unwritten], self._sizes[unwritten] = self._empty
        x_min, _, _, y_max = self._grid.extent
        spacing, origin = self._grid.spacing, self._georeference
        offset = _LONG8 if self._big else _LONG
        floating = self._dtype.kind == "f"
        tags: list[tuple[int, int, Any]] = [
            (256, _LONG, [self._grid.columns]),
            (257, _LONG, [self._grid.rows]),
            (258, _SHORT, [8 * self._dtype.itemsize]),
            (259, _SHORT, [_DEFLATE]),
            (262, _SHORT, [1]),  # black is zero
            (270, _ASCII, self._description.encode("ascii") + b"\0"),
            (277, _SHORT, [1]),  # samples per pixel
            (322, _LONG, [SIDE]),
            (323, _LONG, [SIDE]),
            (324, offset, self._offsets),
            (325, offset, self._sizes),
            (339, _SHORT, [_FLOAT if floating else _UNSIGNED]),
            (33550, _DOUBLE, [spacing, spacing, 0.0]),
            (33922, _DOUBLE, [0.0, 0.0, 0.0, origin.easting + x_min, origin.northing + y_max, 0.0]),
            (34735, _SHORT, origin.geo_keys()),
            (42113, _ASCII, b"nan\0" if floating else b"0\0"),
        ]
        self._write_directory([tag for tag in tags if len(tag[2])])

    def _append(self, values: NDArray) -> tuple[int, int]:
        """Offset and size of the compressed tile."""
        data = zlib.compress(np.ascontiguousarray(values, self._dtype).tobytes(), 6)
        self._file.write(data)
        self._at += len(data)
        return self._at - len(data), len(data)

    def _write_directory(self, tags: list[tuple[int, int, Any]]) -> None:
        inline = 8 if self._big else 4
        word = "Q" if self._big else "I"
        entries = []
        for tag, kind, values in tags:
            packed = values if kind == _ASCII else np.asarray(values).astype(_DTYPES[kind]).tobytes()
            if len(packed) > inline:
                where = self._pad()
                self._file.write(packed)
                self._at += len(packed)
                packed = struct.pack(f"<{word}", where)
            entries.append(struct.pack(f"<HH{word}", tag, kind, len(values)) + packed.ljust(inline, b"\0"))
        start = self._pad()
        self._file.write(struct.pack("<Q" if self._big else "<H", len(entries)) + b"".join(entries) + bytes(inline))
        self._file.seek(8 if self._big else 4)
        self._file.write(struct.pack(f"<{word}", start))

    def _pad(self) -> int:
        """Directories and their values begin at even offsets."""
        if self._at % 2:
            self._file.write(b"\0")
            self._at += 1
        return self._at
