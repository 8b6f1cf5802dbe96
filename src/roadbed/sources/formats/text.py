# SPDX-License-Identifier: Apache-2.0
"""Points as text: CSV, TXT, XYZ, ASC with a header (libpointmatcher, CloudCompare) or `?columns=`, and PTX."""

import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError, errors_at
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.io.files import read_bytes
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.formats.columns import RAW_OPTIONS, given_layout
from roadbed.sources.formats.files import FileSource, cloud_suffix, list_folder
from roadbed.sources.formats.text_table import parse_blocks
from roadbed.sources.source import Source

_SUFFIXES = (".csv", ".txt", ".xyz", ".asc")
_LONGEST_HEADER = 1 << 14
_MOST_COLUMNS = 256
_SEPARATORS = bytes.maketrans(b",;", b"  ")
_EMPTY_ROW = re.compile(rb"^[,;][,; \t]*\r?(?:\n|\Z)", re.MULTILINE)
_FLOAT = np.dtype(np.float64)
_PTX_HEADER_LINES = 10
_MOST_POINTS = 1 << 40


class TextSource(FileSource):
    """One table or a folder of tables only; a `.txt` next to scans of another format is no scan."""

    name = "text"
    suffixes = _SUFFIXES
    accepts: ClassVar[tuple[str, ...]] = (*FileSource.accepts, *(name for name in RAW_OPTIONS if name != "dtype"))

    @classmethod
    def matches(cls, location: str) -> bool:
        path = Path(location)
        if path.is_file():
            return path.suffix.lower() in _SUFFIXES
        return path.is_dir() and bool(_tables(path)) and not any(cloud_suffix(file) for file in list_folder(path))

    def list_files(self, path: Path) -> list[Path]:
        return sorted(_tables(path)) if path.is_dir() else super().list_files(path)

    def read(self, path: Path) -> Scan:
        body, names = _header(read_bytes(path), str(path))
        layout = given_layout(self.options, self.location, None if names is None else tuple(names))
        if layout is None:
            raise InputError(
                f"{path}: columns: found no header with x, y and z; name them by ?columns=x,y,z,intensity (_ skips one)"
            )
        rows = sum(not line.isspace() for line in body.splitlines() if line)
        blocks = parse_blocks(body, rows, [(_FLOAT, 1)] * len(layout.names), str(path))
        fields = {name: block[:, 0] for name, block in zip(layout.names, blocks) if name != "_"}
        return scan_from_fields(layout.named(fields, str(path)), str(path), name=path.stem)


def _tables(folder: Path) -> list[Path]:
    """Files that are surely scans: `.txt` is used for poses, times and notes too."""
    return [file for file in list_folder(folder) if file.suffix.lower() in (".csv", ".xyz", ".asc") and file.is_file()]


def _header(data: bytes, where: str) -> tuple[bytes, list[str] | None]:
    """The rows with spaces as separators, and the names of the columns where a line before them has x, y and z."""
    names, place = None, 0
    while place < min(len(data), _LONGEST_HEADER):
        end = data.find(b"\n", place) + 1 or len(data)
        line = data[place:end].decode("utf-8", "replace").strip("\ufeff \t\r\n/#,;")
        words = re.split(r"[,;\s]+", line)
        is_empty = names is not None and _EMPTY_ROW.fullmatch(data, place, end)
        if is_empty or (len(words) > 1 and all(map(_is_number, words))):  # a single number counts the points
            rows = data[place:]
            if is_empty or b"\n," in rows or b"\n;" in rows:
                rows = _EMPTY_ROW.sub(_row_of_nan, rows)
            return rows.translate(_SEPARATORS), names
        for parts in (words, re.split("[,;]", line)):  # between commas, names may contain spaces
            found = [_plain_name(part) for part in parts]
            if {"x", "y", "z"} <= set(found) and len(set(found)) == len(found) <= _MOST_COLUMNS:
                names = found
        place = end
    raise InputError(f"{where}: found no row of numbers in the first {place} bytes, expected x, y, z and others")


def _row_of_nan(row: re.Match[bytes]) -> bytes:
    """A missing return stays a point."""
    return b" ".join([b"nan"] * (len(re.findall(b"[,;]", row[0])) + 1)) + b"\n"


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _plain_name(word: str) -> str:
    """`"X"`, `//X`, `Points_m_XYZ:0`, `Scalar_field` as x, x, x, field."""
    name = word.strip(" \"'/[]()").lower().removeprefix("scalar_").removeprefix("scalar ")
    axis = re.fullmatch(r"(?:points?(?:_m_xyz)?[:_]?)?([xyz012])(?:\[m\]|_m|\(m\))?", name)
    if axis and not name.isdigit():
        return {"0": "x", "1": "y", "2": "z"}.get(axis[1], axis[1])
    return re.sub(r"\W", "_", name) or "_"


class PtxSource(Source):
    """Scans of a Leica PTX file, each with the pose of its scanner; points at the origin are missing returns."""

    name = "ptx"
    sequential = False  # a scanner is put from place to place

    @classmethod
    def matches(cls, location: str) -> bool:
        return location.lower().endswith(".ptx") and Path(location).is_file()

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self._lines = read_bytes(self.path).split(b"\n")
        while self._lines and not self._lines[-1].strip():
            self._lines.pop()
        self._starts: list[tuple[int, int]] = []  # first line and number of points
        place = 0
        while place < len(self._lines):
            sizes = [self._numbers(line, 1)[0] for line in (place, place + 1)]
            if any(size != int(size) or not 0 < size < _MOST_POINTS for size in sizes):
                raise InputError(f"{self.path}: line {place + 1}: found {sizes}, expected columns and rows of a scan")
            self._starts.append((place, int(sizes[0] * sizes[1])))
            place += _PTX_HEADER_LINES + int(sizes[0] * sizes[1])
        if not self._starts or place > len(self._lines):
            raise InputError(f"{self.path}: found {len(self._lines)} lines, expected {place or 'a header of columns'}")

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> Scan:
        start, count = self._starts[index]
        rows = [self._numbers(start + 6 + k, 4) for k in range(4)]
        with errors_at(f"{self.path}: line {start + 7}"):
            pose = Pose.from_matrix(np.array(rows).T)  # rows of a PTX matrix are columns: points are row vectors
        first = start + _PTX_HEADER_LINES
        body = b"\n".join(self._lines[first : first + count])
        width = len(self._lines[first].split())
        if width not in (3, 4, 7):
            raise InputError(f"{self.path}: line {first + 1}: found {width} numbers, expected 3, 4 or 7")
        names = ("x", "y", "z", "intensity", "red", "green", "blue")[:width]
        blocks = parse_blocks(body, count, [(_FLOAT, 1)] * width, self.path)
        fields: dict[str, NDArray] = {name: block[:, 0] for name, block in zip(names, blocks)}
        name = f"{Path(self.path).stem}_{index:06d}"
        return scan_from_fields(fields, self.path, T_world_sensor=pose, name=name)

    def _numbers(self, line: int, count: int) -> list[float]:
        words = self._lines[line].split() if line < len(self._lines) else []
        if len(words) != count or not all(_is_number(word.decode("latin-1")) for word in words):
            raise InputError(f"{self.path}: line {line + 1}: expected {count} numbers of a PTX header")
        return [float(word) for word in words]
