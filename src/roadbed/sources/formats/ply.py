# SPDX-License-Identifier: Apache-2.0
"""PLY files, ascii and binary of both byte orders: every property of the vertices; other elements are skipped."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.io.files import read_bytes
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.formats.files import FileSource
from roadbed.sources.formats.text_table import parse_blocks

_TYPES = {
    **dict.fromkeys(("char", "int8"), "i1"),
    **dict.fromkeys(("uchar", "uint8"), "u1"),
    **dict.fromkeys(("short", "int16"), "i2"),
    **dict.fromkeys(("ushort", "uint16"), "u2"),
    **dict.fromkeys(("int", "int32"), "i4"),
    **dict.fromkeys(("uint", "uint32"), "u4"),
    **dict.fromkeys(("int64",), "i8"),
    **dict.fromkeys(("uint64",), "u8"),
    **dict.fromkeys(("float", "float32"), "f4"),
    **dict.fromkeys(("double", "float64"), "f8"),
}
_BYTE_ORDERS = {"ascii": "<", "binary_little_endian": "<", "binary_big_endian": ">"}
_LONGEST_HEADER = 1 << 16


class PlySource(FileSource):
    name = "ply"
    suffixes = (".ply",)

    def read(self, path: Path) -> Scan:
        return read_ply(path)


@dataclass(frozen=True)
class Property:
    name: str
    dtype: np.dtype
    length_dtype: np.dtype | None = None  # of a list; None: a single number


@dataclass(frozen=True)
class Element:
    name: str
    count: int
    properties: list[Property]

    @property
    def has_lists(self) -> bool:
        return any(item.length_dtype is not None for item in self.properties)

    @property
    def record_size(self) -> int:
        return sum(item.dtype.itemsize for item in self.properties)


def read_ply(path: str | Path) -> Scan:
    """The vertices of one PLY file; CloudCompare's prefix `scalar_` is removed from names."""
    path = Path(path)
    raw = read_bytes(path)
    data, elements, length = _parse_header(raw, str(path))
    vertex = next((element for element in elements if element.name == "vertex"), None)
    if vertex is None:
        found = ", ".join(element.name for element in elements) or "none"
        raise InputError(f"{path}: PLY header: found elements {found}, expected vertex")
    if vertex.has_lists:
        raise InputError(f"{path}: element vertex: found a list property, expected single numbers")
    before = elements[: elements.index(vertex)]
    body = memoryview(raw)[length:]
    columns = (_read_ascii if data == "ascii" else _read_binary)(body, before, vertex, str(path))
    fields: dict[str, NDArray] = {}
    for item, values in zip(vertex.properties, columns):
        plain = item.name.removeprefix("scalar_")
        fields[item.name if plain in fields or not plain else plain] = values
    return scan_from_fields(fields, str(path), name=path.stem)


def _parse_header(raw: bytes, where: str) -> tuple[str, list[Element], int]:
    """Kind of data, elements in order, and the length of the header."""
    if not raw:
        raise InputError(f"{where}: found an empty file, expected a PLY header")
    if raw[:3] != b"ply" or raw[3:4] not in (b"\n", b"\r"):
        raise InputError(f"{where}: PLY header: found {raw[:4]!r}, expected the line 'ply'")
    end = raw.find(b"end_header", 0, _LONGEST_HEADER)
    line_end = raw.find(b"\n", end)
    if end < 0 or line_end < 0:
        raise InputError(f"{where}: PLY header: found no line 'end_header', expected one")
    data = None
    elements: list[Element] = []
    for line in raw[3:end].decode("latin-1").splitlines():
        words = line.split()
        if not words or words[0] in ("comment", "obj_info"):
            continue
        if words[0] == "format" and len(words) == 3 and words[1] in _BYTE_ORDERS:
            data = words[1]
        elif words[0] == "element" and len(words) == 3 and re.fullmatch("[0-9]{1,18}", words[2]):
            elements.append(Element(words[1], int(words[2]), []))
        elif words[0] == "property" and elements and data:
            elements[-1].properties.append(_property(words, _BYTE_ORDERS[data], where))
        else:
            raise InputError(
                f"{where}: PLY header: found {line[:60]!r}, expected format, then element NAME COUNT and property lines"
            )
    if data is None:
        raise InputError(f"{where}: PLY header: found no format line, expected {', '.join(_BYTE_ORDERS)}")
    for element in elements:
        names = [item.name for item in element.properties]
        if len(set(names)) < len(names):
            raise InputError(f"{where}: element {element.name}: found a property twice, expected each name once")
    return data, elements, line_end + 1


def _property(words: list[str], order: str, where: str) -> Property:
    if len(words) == 3 and words[1] in _TYPES:
        return Property(words[2], np.dtype(order + _TYPES[words[1]]))
    if len(words) == 5 and words[1] == "list" and words[2] in _TYPES and words[3] in _TYPES:
        length = np.dtype(order + _TYPES[words[2]])
        if length.kind in "iu":
            return Property(words[4], np.dtype(order + _TYPES[words[3]]), length)
    raise InputError(
        f"{where}: PLY header: found {' '.join(words)[:60]!r}, expected property TYPE NAME or "
        f"property list TYPE TYPE NAME with types {', '.join(_TYPES)}"
    )


def _read_binary(body: memoryview, before: list[Element], vertex: Element, where: str) -> list[NDArray]:
    start = 0
    for element in before:
        start = _skip_binary(body, start, element, where)
    expected, found = vertex.count * vertex.record_size, len(body) - start
    if found < expected:
        raise InputError(
            f"{where}: element vertex: found {found} bytes, expected {expected} "
            f"({vertex.count} vertices of {vertex.record_size} bytes)"
        )
    record = np.dtype([(item.name, item.dtype) for item in vertex.properties])
    if not record.itemsize:
        return []
    table = np.frombuffer(body[start : start + expected], record)
    return [table[item.name].astype(item.dtype.newbyteorder("=")) for item in vertex.properties]


def _skip_binary(body: memoryview, start: int, element: Element, where: str) -> int:
    """The end of the element that begins at `start`."""
    too_short = InputError(f"{where}: element {element.name}: found the end of the file, expected {element.count} rows")
    if not element.has_lists:
        end = start + element.count * element.record_size
        if end > len(body):
            raise too_short
        return end
    for _ in range(element.count):
        for item in element.properties:
            repeats = 1
            if item.length_dtype is not None:
                length = body[start : start + item.length_dtype.itemsize]
                order: Any = "big" if item.length_dtype.str[0] == ">" else "little"
                repeats = int.from_bytes(length, order, signed=item.length_dtype.kind == "i")
                start += item.length_dtype.itemsize
            start += repeats * item.dtype.itemsize
            if repeats < 0 or start > len(body):
                raise too_short
    return start


def _read_ascii(body: memoryview, before: list[Element], vertex: Element, where: str) -> list[NDArray]:
    text = bytes(body)
    start, missing = _skip_lines(text, 0, sum(element.count for element in before if element.properties))
    end, missing_vertices = _skip_lines(text, start, vertex.count)
    if missing or missing_vertices:
        found = vertex.count - missing_vertices
        raise InputError(f"{where}: element vertex: found {found} rows, expected {vertex.count}")
    blocks = parse_blocks(text[start:end], vertex.count, [(item.dtype, 1) for item in vertex.properties], where)
    return [block[:, 0] for block in blocks]


def _skip_lines(text: bytes, place: int, lines: int) -> tuple[int, int]:
    """The end of the next `lines` non-empty lines, and how many are missing."""
    while lines and place < len(text):
        end = text.find(b"\n", place) + 1 or len(text)
        lines -= not text[place:end].isspace()
        place = end
    return place, lines
