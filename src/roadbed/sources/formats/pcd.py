# SPDX-License-Identifier: Apache-2.0
"""PCD files, ascii, binary and binary_compressed, of any field layout.

An own reader, because the available libraries fail on parts of the format (64-bit integers, padding fields, wrong
headers).
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError, errors_at, foreign_errors
from roadbed.core.frames import PER_POINT, Scan
from roadbed.core.geometry import Pose
from roadbed.io.expansion import check_claim
from roadbed.io.files import read_bytes
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.formats.files import FileSource
from roadbed.sources.formats.npy import read_facts
from roadbed.sources.formats.text_table import parse_blocks

DATA_KINDS = ("ascii", "binary", "binary_compressed")
_TYPES = {"F": (4, 8), "I": (1, 2, 4, 8), "U": (1, 2, 4, 8)}
_LONGEST_HEADER = 1 << 16
_MOST_FIELDS = 1024
_LONGEST_COUNT = 1 << 16
_MOST_POINTS = 1 << 40
PADDING = "_"
FACTS = "# roadbed: "  # the comment in which Roadbed keeps what the format has no place for
_KEYS = ("VERSION", "FIELDS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")
_NUMBER_CHARACTERS = b"0123456789+-.eEnNaAiIfF \t\r\n\v\f"


@dataclass(frozen=True)
class PcdField:
    """One entry of FIELDS; COUNT > 1 makes it several numbers per point."""

    name: str
    dtype: np.dtype
    count: int

    @property
    def size(self) -> int:
        return self.dtype.itemsize * self.count


@dataclass(frozen=True)
class PcdHeader:
    """The text header, checked before memory is allocated for the points."""

    fields: tuple[PcdField, ...]
    points: int
    data: str  # ascii, binary or binary_compressed
    facts: Mapping[str, Any]  # pose, time, ... by the names of Scan
    of_scan: Mapping[str, str] | None  # of Roadbed's own files: field -> part of Scan; the others are channels
    length: int  # bytes, with the DATA line

    @property
    def record_size(self) -> int:
        return sum(field.size for field in self.fields)


class PcdSource(FileSource):
    """One PCD file or a folder of them. A VIEWPOINT other than the identity is the sensor's pose, T_world_sensor."""

    name = "pcd"
    suffixes = (".pcd",)

    def read(self, path: Path) -> Scan:
        return read_pcd(path)

    def carries_pose(self, path: Path) -> bool:
        return parse_header(read_bytes(path), str(path)).facts["T_world_sensor"] is not None


def read_pcd(path: str | Path) -> Scan:
    """One PCD file with all its fields except `_` padding."""
    path = Path(path)
    raw = read_bytes(path)
    header = parse_header(raw, str(path))
    body = memoryview(raw)[header.length :]
    read = {"ascii": _read_ascii, "binary": _read_binary, "binary_compressed": _read_compressed}[header.data]
    notes: tuple[str, ...] = ()
    try:
        fields = read(header, body, str(path))
    except InputError:
        characters = [field.name for field in header.fields if field.size == 1]
        if header.data != "ascii" or not characters or not bytes(body).translate(None, _NUMBER_CHARACTERS):
            raise
        fields = _read_without_characters(header, body, str(path))
        notes = (f"field {', '.join(characters)} left out: found raw characters, expected numbers",)
    if header.of_scan is None or any(np.ndim(fields.get(axis, 0)) != 1 for axis in "xyz"):
        return scan_from_fields(fields, str(path), name=path.stem, diagnostics=notes, **header.facts)
    points = np.stack([fields.pop(axis) for axis in "xyz"], axis=1)
    named: Any = {part: fields.pop(field) for field, part in header.of_scan.items() if field in fields}
    return Scan(points, name=path.stem, diagnostics=notes, channels=fields, **named, **header.facts)


def _read_binary(header: PcdHeader, body: memoryview, where: str) -> dict[str, NDArray]:
    expected = header.points * header.record_size
    if len(body) < expected:
        raise InputError(
            f"{where}: data: found {len(body)} bytes, expected {expected} for POINTS {header.points} "
            f"of {header.record_size} bytes"
        )
    left_over = body[expected:]
    if len(left_over) >= max(header.record_size, 1) and np.frombuffer(left_over, np.uint8).any():
        raise InputError(
            f"{where}: data: found {len(body)} bytes, expected {expected} ({header.points} points of "
            f"{header.record_size} bytes): {len(left_over)} are left over"
        )
    # Padding fields share a name, so each field gets a key of its own.
    record = np.dtype([(str(k), field.dtype, (field.count,)) for k, field in enumerate(header.fields)])
    if not record.itemsize:
        return {}
    table = np.frombuffer(body[:expected], record)
    return {
        field.name: np.ascontiguousarray(_per_point(table[str(k)], field))
        for k, field in enumerate(header.fields)
        if field.name != PADDING
    }


def _read_compressed(header: PcdHeader, body: memoryview, where: str) -> dict[str, NDArray]:
    expected = header.points * header.record_size
    columns = np.empty(0, np.uint8)
    if expected:
        columns = _decompressed(header, body, expected, where)
    fields, start = {}, 0
    for field in header.fields:  # all values of the first field, then all of the second, ...
        end = start + field.size * header.points
        if field.name != PADDING:
            values = columns[start:end].view(field.dtype).reshape(header.points, field.count)
            fields[field.name] = _per_point(values, field).copy()
        start = end
    return fields


def _decompressed(header: PcdHeader, body: memoryview, expected: int, where: str) -> NDArray[np.uint8]:
    from roadbed.sources.formats.lzf import decompress

    if len(body) < 8:
        raise InputError(f"{where}: data: found {len(body)} bytes, expected 8 with the compressed and full sizes")
    compressed, uncompressed = struct.unpack("<II", body[:8])
    if uncompressed != expected:
        raise InputError(
            f"{where}: data: found a full size of {uncompressed} bytes, expected {expected} "
            f"({header.points} points of {header.record_size} bytes)"
        )
    if compressed > len(body) - 8:
        raise InputError(f"{where}: data: found {len(body) - 8} compressed bytes, expected {compressed}")
    check_claim(expected, compressed, f"{where}: data")
    columns = np.empty(expected, np.uint8)
    written = decompress(np.frombuffer(body[8 : 8 + compressed], np.uint8), columns)
    if written != expected:
        raise InputError(f"{where}: data: found damaged LZF compression, expected {expected} bytes from it")
    return columns


def _read_ascii(header: PcdHeader, body: memoryview, where: str) -> dict[str, NDArray]:
    blocks = parse_blocks(body, header.points, [(field.dtype, field.count) for field in header.fields], where)
    return {
        field.name: _per_point(values, field) for field, values in zip(header.fields, blocks) if field.name != PADDING
    }


def _read_without_characters(header: PcdHeader, body: memoryview, where: str) -> dict[str, NDArray]:
    """The fields before and after those of one byte, which some writers print as characters, even as white space."""
    single = [k for k, field in enumerate(header.fields) if field.size == 1]
    before, after = header.fields[: single[0]], header.fields[single[-1] + 1 :]
    first, last = sum(field.count for field in before), sum(field.count for field in after)
    rows: list[bytes] = []
    words: list[bytes] = []
    for line in bytes(body).split(b"\n"):
        words += line.split()
        if len(words) >= first + last and words:
            rows.append(b" ".join(words[:first] + words[len(words) - last :]))
            words = []
    kept = replace(header, fields=before + after)
    return _read_ascii(kept, memoryview(b"\n".join(rows)), where)


def _per_point(values: NDArray, field: PcdField) -> NDArray:
    """(N,) for plain fields, (N, COUNT) for others."""
    return values[:, 0] if field.count == 1 else values


def parse_header(raw: bytes, where: str) -> PcdHeader:
    """Read the header at the start of `raw`."""
    entries: dict[str, list[str]] = {}
    facts, of_scan = read_facts({}, where), None
    position = 0
    while True:
        end = raw.find(b"\n", position, _LONGEST_HEADER)
        if end < 0:
            found = "an empty file" if not raw else f"no line DATA in the first {min(len(raw), _LONGEST_HEADER)} bytes"
            raise InputError(f"{where}: PCD header: found {found}, expected FIELDS, SIZE, TYPE, POINTS and DATA")
        line = raw[position:end].decode("utf-8", "replace").strip()
        position = end + 1
        if line.startswith(FACTS):
            facts, of_scan = _facts(line.removeprefix(FACTS), where)
        if not line or line.startswith("#"):
            continue
        key, *values = line.split()
        key = key.upper()
        if key == "COLUMNS":  # the name FIELDS had before version 0.6
            key = "FIELDS"
        if key not in _KEYS:
            found = repr(line[:40]) if line.isascii() and line.isprintable() else "bytes that are no text"
            raise InputError(f"{where}: PCD header: found {found}, expected one of {', '.join(_KEYS)}")
        if key in entries:
            raise InputError(f"{where}: PCD header: found {key} twice, expected it once")
        entries[key] = values
        if key == "DATA":
            break
    data = " ".join(entries["DATA"]).lower()
    if data not in DATA_KINDS:
        raise InputError(f"{where}: DATA: found {data!r}, expected {', '.join(DATA_KINDS)}")
    # The identity is what writers use for "unknown"; of Roadbed's own files, the comment says which it is.
    facts["T_world_sensor"] = _viewpoint(entries, where) or facts["T_world_sensor"]
    return PcdHeader(_fields(entries, where), _points(entries, where), data, facts, of_scan, position)


def _facts(text: str, where: str) -> tuple[dict[str, Any], dict[str, str]]:
    """What `outputs.pcd` wrote of a scan beside its points, and which fields are parts of Scan."""
    with foreign_errors(f"{where}: PCD header", "comment of Roadbed"):
        found = json.loads(text)
        of_scan = {str(field): PER_POINT[PER_POINT.index(part)] for field, part in found.pop("fields").items()}
        arrays = {str(name): np.array(value) for name, value in found.items()}
    return read_facts(arrays, f"{where}: PCD header"), of_scan


def _fields(entries: dict[str, list[str]], where: str) -> tuple[PcdField, ...]:
    for key in ("FIELDS", "SIZE", "TYPE"):
        if not entries.get(key):
            raise InputError(f"{where}: {key}: found none, expected one per field")
    names = entries["FIELDS"]
    if len(names) > _MOST_FIELDS:
        raise InputError(f"{where}: FIELDS: found {len(names)}, expected at most {_MOST_FIELDS}")
    for key in ("SIZE", "TYPE", "COUNT"):
        found = len(entries.get(key, names))
        if found != len(names):
            raise InputError(f"{where}: {key}: found {found} values, expected {len(names)} (one per field)")
    counts = entries.get("COUNT", ["1"] * len(names))
    fields = []
    seen: set[str] = set()
    for name, size_word, kind, count_word in zip(names, entries["SIZE"], entries["TYPE"], counts):
        size = _whole(size_word, "SIZE", where, 8)
        count = _whole(count_word, "COUNT", where, _LONGEST_COUNT)
        if kind.upper() not in _TYPES:
            raise InputError(f"{where}: TYPE of {name}: found {kind!r}, expected F, I or U")
        allowed = _TYPES[kind.upper()]
        if size not in allowed:
            expected = " or ".join(map(str, allowed))
            raise InputError(f"{where}: SIZE of {name}: found {size}, expected {expected} for type {kind}")
        if name != PADDING and name in seen:
            raise InputError(f"{where}: FIELDS: found {name} twice, expected each name once")
        seen.add(name)
        fields.append(PcdField(name, np.dtype(f"<{kind.lower()}{size}"), count))
    return tuple(fields)


def _points(entries: dict[str, list[str]], where: str) -> int:
    number = {key: _single(entries, key, where) for key in ("WIDTH", "HEIGHT", "POINTS") if key in entries}
    width, height = number.get("WIDTH"), number.get("HEIGHT", 1)
    points = number.get("POINTS", None if width is None else width * height)
    if points is None:
        raise InputError(f"{where}: POINTS: found none, expected the number of points")
    # Some writers leave WIDTH and HEIGHT at zero; PCL then takes POINTS.
    if width is not None and width * height != points and (width, height) != (0, 0):
        raise InputError(f"{where}: POINTS: found {points}, expected WIDTH x HEIGHT = {width} x {height}")
    return points


def _viewpoint(entries: dict[str, list[str]], where: str) -> Pose | None:
    words = entries.get("VIEWPOINT")
    if not words:
        return None
    try:
        x, y, z, qw, qx, qy, qz = (float(word) for word in words)
    except ValueError:
        raise InputError(
            f"{where}: VIEWPOINT: found {' '.join(words)[:60]!r}, expected 7 numbers (x y z qw qx qy qz)"
        ) from None
    if [x, y, z, qx, qy, qz] == [0.0] * 6:
        return None
    with errors_at(f"{where}: VIEWPOINT"):
        return Pose.from_quaternion((x, y, z), (qx, qy, qz, qw))


def _single(entries: dict[str, list[str]], key: str, where: str) -> int:
    values = entries[key]
    if len(values) != 1:
        raise InputError(f"{where}: {key}: found {len(values)} values, expected one whole number")
    return _whole(values[0], key, where, _MOST_POINTS)


def _whole(word: str, key: str, where: str, greatest: int) -> int:
    """A whole number of 0..greatest; overlong digit strings are refused before conversion."""
    if not (word.isascii() and word.isdigit()) or len(word) > 18 or int(word) > greatest:
        raise InputError(f"{where}: {key}: found {word[:24]!r}, expected a whole number of at most {greatest}")
    return int(word)
