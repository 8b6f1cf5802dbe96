# SPDX-License-Identifier: Apache-2.0
"""LZF, the compression inside binary_compressed PCD files (format of Marc Lehmann's liblzf), both ways.

Control byte c < 32: c + 1 literal bytes follow. Otherwise a copy: length (c >> 5) + 2, where 7 + 2 is extended by a
further byte, from a distance of 1 + ((c & 31) << 8 | next byte) behind the end of the output.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadbed.kernels.jit import njit

_LONGEST_COPY = 264
_FARTHEST_COPY = 8192
_LONGEST_LITERAL = 32
_HASH_BITS = 14


@njit(cache=True)
def decompress(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> int:
    """Fill `target`; returns the number of bytes written, -1 where the source is no LZF or does not fit."""
    read, written = 0, 0
    while read < source.size:
        control = np.int64(source[read])
        read += 1
        if control < _LONGEST_LITERAL:
            length = control + 1
            if read + length > source.size or written + length > target.size:
                return -1
            for _ in range(length):
                target[written] = source[read]
                read += 1
                written += 1
            continue
        length = control >> 5
        if length == 7:
            if read >= source.size:
                return -1
            length += np.int64(source[read])
            read += 1
        length += 2
        if read >= source.size:
            return -1
        origin = written - 1 - (((control & 31) << 8) | np.int64(source[read]))
        read += 1
        if origin < 0 or written + length > target.size:
            return -1
        # Byte by byte: a copy may overlap its own output.
        for _ in range(length):
            target[written] = target[origin]
            origin += 1
            written += 1
    return written


def compress(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Compressed bytes; at worst 1/32 longer than the data."""
    data = np.ascontiguousarray(data, np.uint8)
    target = np.empty(data.size + data.size // _LONGEST_LITERAL + 1, np.uint8)
    return target[: _compress(data, target)]


@njit(cache=True)
def _compress(data: NDArray[np.uint8], target: NDArray[np.uint8]) -> int:
    """Greedy matching: the last place where the same three bytes stood is the candidate for a copy."""
    last_seen = np.full(1 << _HASH_BITS, -_FARTHEST_COPY - 1, np.int64)
    written, literal_start, position = 0, 0, 0
    while position + 2 < data.size:
        key = (np.uint32(data[position]) << 16) | (np.uint32(data[position + 1]) << 8) | np.uint32(data[position + 2])
        slot = np.int64((key * np.uint32(2654435761)) & np.uint32(0xFFFFFFFF)) >> (32 - _HASH_BITS)
        candidate = last_seen[slot]
        last_seen[slot] = position
        length = 0
        if position - candidate <= _FARTHEST_COPY:
            longest = min(_LONGEST_COPY, data.size - position)
            while length < longest and data[candidate + length] == data[position + length]:
                length += 1
        if length < 3:
            position += 1
            continue
        written = _literals(data, literal_start, position, target, written)
        offset = position - candidate - 1
        if length - 2 < 7:
            target[written] = ((length - 2) << 5) | (offset >> 8)
            written += 1
        else:
            target[written] = (7 << 5) | (offset >> 8)
            target[written + 1] = length - 9
            written += 2
        target[written] = offset & 255
        written += 1
        position += length
        literal_start = position
    return _literals(data, literal_start, data.size, target, written)


@njit(cache=True)
def _literals(data: NDArray[np.uint8], start: int, end: int, target: NDArray[np.uint8], written: int) -> int:
    while start < end:
        length = min(_LONGEST_LITERAL, end - start)
        target[written] = length - 1
        target[written + 1 : written + 1 + length] = data[start : start + length]
        written += length + 1
        start += length
    return written
