# SPDX-License-Identifier: Apache-2.0
"""PCD files, ascii, binary and binary_compressed, of any field layout.

An own reader, because the available libraries fail on parts of the format (64-bit integers, padding fields, wrong
headers).
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.io.expansion import check_claim
from roadbed.io.files import read_bytes
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.formats.files import FileSource
from roadbed.sources.formats.pcd_header import PADDING, PcdField, PcdHeader, parse_header
from roadbed.sources.formats.text_table import parse_blocks

_NUMBER_CHARACTERS = b"0123456789+-.eEnNaAiIfF \t\r\n\v\f"


class PcdSource(FileSource):
    """One PCD file or a folder of them. A VIEWPOINT other than the identity is the sensor's pose, T_world_sensor."""

    name = "pcd"
    suffixes = (".pcd",)

    def read(self, path: Path) -> Scan:
        return read_pcd(path)

    def carries_pose(self, path: Path) -> bool:
        return parse_header(read_bytes(path), str(path)).T_world_sensor is not None


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
    return scan_from_fields(fields, str(path), T_world_sensor=header.T_world_sensor, name=path.stem, diagnostics=notes)


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
