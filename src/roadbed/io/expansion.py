# SPDX-License-Identifier: Apache-2.0
"""Limits against decompression bombs: a file may unpack to 64 times its size, and always to 32 MiB.

An organised scan of which one point in a hundred came back compresses by up to 52 (zstd) and a scan in LAZ with ten
empty dimensions by 51; a scan of nothing but zeros compresses by any factor, but is one scan: 128 x 4096 points of
48 bytes are 24 MiB. A file that claims more is damaged or malicious.
"""

from collections.abc import Callable
from typing import Protocol

from roadbed.core.errors import InputError

GREATEST_RATIO = 64
ALWAYS_ALLOWED = 32 << 20
_PIECE = 1 << 20


class Decompressor(Protocol):
    """The common interface of bz2, lzma, lz4 and zstd."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def allowance(stored: int) -> int:
    """Bytes that `stored` bytes of a file may unpack to."""
    return max(ALWAYS_ALLOWED, GREATEST_RATIO * stored)


def check_claim(claimed: int, stored: int, where: str) -> None:
    """Refuse a claimed size that exceeds the limit, before memory is allocated."""
    if claimed > allowance(stored):
        raise InputError(
            f"{where}: promises to unpack to {claimed} bytes, expected at most {allowance(stored)} from {stored}"
        )


def unpack(make: Callable[[], Decompressor], data: bytes, where: str) -> bytes:
    """Decompress one or more streams in pieces, never more than the allowance."""
    most = allowance(len(data))
    stored, pieces, total = len(data), [], 0
    rest: bytes | None = data
    while rest:
        stream = make()
        while not stream.eof:
            piece = stream.decompress(rest, _PIECE)
            rest = b""
            if not piece and not stream.eof:
                raise InputError(f"{where}: found {stored} compressed bytes that end early, expected whole data")
            pieces.append(piece)
            total += len(piece)
            if total > most:
                raise InputError(f"{where}: unpacks to more than {most} bytes, expected at most that from {stored}")
        rest = stream.unused_data
    return b"".join(pieces)
