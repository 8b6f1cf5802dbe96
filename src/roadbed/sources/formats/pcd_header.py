# SPDX-License-Identifier: Apache-2.0
"""The text header of a PCD file, checked before memory is allocated for its points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose

DATA_KINDS = ("ascii", "binary", "binary_compressed")
_TYPES = {"F": (4, 8), "I": (1, 2, 4, 8), "U": (1, 2, 4, 8)}
_LONGEST_HEADER = 1 << 16
_MOST_FIELDS = 1024
_LONGEST_COUNT = 1 << 16
_MOST_POINTS = 1 << 40
PADDING = "_"


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
    fields: tuple[PcdField, ...]
    points: int
    data: str  # ascii, binary or binary_compressed
    T_world_sensor: Pose | None  # VIEWPOINT; None for the identity, which writers use for "unknown"
    length: int  # bytes, with the DATA line

    @property
    def record_size(self) -> int:
        return sum(field.size for field in self.fields)


def parse_header(raw: bytes, where: str) -> PcdHeader:
    """Read the header at the start of `raw`."""
    entries: dict[str, list[str]] = {}
    position = 0
    while True:
        end = raw.find(b"\n", position, _LONGEST_HEADER)
        if end < 0:
            found = "an empty file" if not raw else f"no line DATA in the first {min(len(raw), _LONGEST_HEADER)} bytes"
            raise InputError(f"{where}: PCD header: found {found}, expected FIELDS, SIZE, TYPE, POINTS and DATA")
        line = raw[position:end].decode("utf-8", "replace").strip()
        position = end + 1
        if not line or line.startswith("#"):
            continue
        key, *values = line.split()
        key = key.upper()
        if key == "COLUMNS":  # the name FIELDS had before version 0.6
            key = "FIELDS"
        if key not in _KEYS:
            raise InputError(f"{where}: PCD header: found {line[:40]!r}, expected one of {', '.join(_KEYS)}")
        if key in entries:
            raise InputError(f"{where}: PCD header: found {key} twice, expected it once")
        entries[key] = values
        if key == "DATA":
            break
    data = " ".join(entries["DATA"]).lower()
    if data not in DATA_KINDS:
        raise InputError(f"{where}: DATA: found {data!r}, expected {', '.join(DATA_KINDS)}")
    return PcdHeader(_fields(entries, where), _points(entries, where), data, _viewpoint(entries, where), position)


_KEYS = ("VERSION", "FIELDS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")


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
            raise InputError(f"{where}: SIZE of {name}: found {size}, expected {_either(allowed)} for type {kind}")
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
    try:
        return Pose.from_quaternion((x, y, z), (qx, qy, qz, qw))
    except InputError as error:
        raise InputError(f"{where}: VIEWPOINT: {error}") from None


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


def _either(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))
