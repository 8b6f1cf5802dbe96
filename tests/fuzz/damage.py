# SPDX-License-Identifier: Apache-2.0
"""Damage to bytes: what bad disks, cut transfers, other programs' bugs and hostile hands do to a file."""

import re
import struct
from collections.abc import Callable, Sequence
from random import Random

LARGEST_CASE = 256 << 10

_EDGES = (0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 10**6, 10**9)
_EDGES += (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
NUMBER_WORDS = (
    *(str(edge).encode() for edge in _EDGES),
    *(b"-1", b"-0", b"1e400", b"-1e400", b"nan", b"inf", b"-inf", b"1e9", b"0.5", b"1e-400", b"9" * 30, b"9" * 5000),
    *(b"0x10", b"1_000", b"", b"+", b"\xd9\xa3", b"1,5", b"True"),
)


def damage(rng: Random, data: bytes, words: Sequence[bytes] = (), others: Sequence[bytes] = ()) -> bytes:
    """A copy with one to five damages; `words` mean something in the format, `others` are further files of it."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        rng.choice(_DAMAGES)(rng, result, words, others)
    return bytes(result[:LARGEST_CASE])


def _flip(rng: Random, data: bytearray, *_: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _bytes(rng: Random, data: bytearray, *_: Sequence[bytes]) -> None:
    place, length = _range(rng, data, 8)
    data[place : place + length] = rng.randbytes(length)


def _edge(rng: Random, data: bytearray, *_: Sequence[bytes]) -> None:
    """A number of 1 to 8 bytes that sits at an edge, of the file's own length among them."""
    size, order = rng.choice((1, 2, 4, 4, 4, 8, 8)), rng.choice("<<<>")
    value = rng.choice((*_EDGES, len(data), len(data) // 2, 2 * len(data))) + rng.choice((0, 0, 0, 1, -1))
    place = rng.randrange(len(data) + 1)
    packed = (value % (1 << 8 * size)).to_bytes(size, "little" if order == "<" else "big")
    data[place : place + size] = packed


def _float(rng: Random, data: bytearray, *_: Sequence[bytes]) -> None:
    value = rng.choice((float("nan"), float("inf"), -float("inf"), 1e38, -1e38, 1e-45, 1e300, 0.0, -0.0))
    packed = struct.pack("<d", value) if rng.random() < 0.5 or abs(value) > 1e38 else struct.pack("<f", value)
    place = rng.randrange(len(data) + 1)
    data[place : place + len(packed)] = packed


def _number(rng: Random, data: bytearray, *_: Sequence[bytes]) -> None:
    """One of the numbers written in the text."""
    place = rng.randrange(len(data) + 1)
    found = _NUMBER.search(data, place) or _NUMBER.search(data)
    if found:
        data[found.start() : found.end()] = rng.choice(NUMBER_WORDS)


def _word(rng: Random, data: bytearray, words: Sequence[bytes], _: Sequence[bytes]) -> None:
    place = rng.randrange(len(data) + 1)
    word = rng.choice(words or NUMBER_WORDS)
    data[place : place + rng.choice((0, len(word)))] = word


def _swap_words(rng: Random, data: bytearray, words: Sequence[bytes], _: Sequence[bytes]) -> None:
    """A word of the format in the place of another."""
    present = [word for word in words if word and word in data]
    if present:
        place = data.index(rng.choice(present))
        old = next(word for word in present if data[place:].startswith(word))
        data[place : place + len(old)] = rng.choice(words)


def _cut(rng: Random, data: bytearray, *_: Sequence[bytes]) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _remove(rng: Random, data: bytearray, *_: Sequence[bytes]) -> None:
    place, length = _range(rng, data, 64)
    del data[place : place + length]


def _repeat(rng: Random, data: bytearray, *_: Sequence[bytes]) -> None:
    place, length = _range(rng, data, 64)
    piece = bytes(data[place : place + length])
    times = rng.choice((1, 1, 2, 10, 100, 1000))
    data[place:place] = (piece * times)[: LARGEST_CASE // 4]


def _move(rng: Random, data: bytearray, *_: Sequence[bytes]) -> None:
    place, length = _range(rng, data, 64)
    piece = bytes(data[place : place + length])
    target = rng.randrange(len(data) + 1)
    data[target : target + length] = piece


def _splice(rng: Random, data: bytearray, _: Sequence[bytes], others: Sequence[bytes]) -> None:
    if others:
        other = rng.choice(others)
        data[rng.randrange(len(data) + 1) :] = other[rng.randrange(len(other) + 1) :]


def _extend(rng: Random, data: bytearray, *_: Sequence[bytes]) -> None:
    data += bytes(rng.choice((1, 16, 4096))) if rng.random() < 0.5 else rng.randbytes(rng.randrange(64))


def _range(rng: Random, data: bytearray, longest: int) -> tuple[int, int]:
    place = rng.randrange(len(data) + 1)
    return place, min(rng.randint(1, longest), len(data) - place)


_Damage = Callable[[Random, bytearray, Sequence[bytes], Sequence[bytes]], None]
_DAMAGES: tuple[_Damage, ...] = (
    *(_flip, _bytes, _edge, _edge, _edge, _float, _number, _number, _word, _swap_words),
    *(_cut, _remove, _repeat, _move, _splice, _extend),
)
