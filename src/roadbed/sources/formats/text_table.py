# SPDX-License-Identifier: Apache-2.0
"""Tables of numbers in text, with a type per block of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError

# Numbers are shorter; one overlong word must not set the width of the whole table.
_LONGEST_WORD = 64
# Bytes of text parsed at a time: as Python objects words take twenty times their size.
_PIECE = 1 << 20
_GAPS = np.isin(np.arange(256), list(b" \t\n\r\v\f"))  # the separators of bytes.split()


def parse_blocks(
    body: bytes | memoryview, rows: int, blocks: Sequence[tuple[np.dtype, int]], where: str
) -> list[NDArray]:
    """An array of shape (rows, count) per (dtype, count), from text with one row per line."""
    columns = sum(count for _, count in blocks)
    _check_amount(body, rows, columns, where)
    tables = [np.empty((rows, count), dtype) for dtype, count in blocks]
    done = 0
    for words in _whole_rows(body, columns, where):
        end = done + len(words)
        start = 0
        for table, (dtype, count) in zip(tables, blocks):
            part = words[:, start : start + count]
            table[done:end] = _parse(part, dtype, f"{where}: data: row", done)
            start += count
        done = end
    return tables


def _whole_rows(body: bytes | memoryview, columns: int, where: str) -> Iterator[NDArray[np.bytes_]]:
    """Words in order, as tables of whole rows; the number of words was checked before."""
    waiting: list[bytes] = []
    for piece in _pieces(body):
        waiting += piece.split()
        usable = len(waiting) // columns * columns if columns else 0
        if not usable:
            continue
        longest = max(map(len, waiting))
        if longest > _LONGEST_WORD:
            raise InputError(f"{where}: data: found a word of {longest} characters, expected numbers")
        yield np.array(waiting[:usable], f"S{longest}").reshape(-1, columns)
        del waiting[:usable]


def _pieces(body: bytes | memoryview) -> Iterator[bytes]:
    """The text in pieces that end at a line end, or at least between words."""
    start = 0
    while start < len(body):
        piece = bytes(body[start : start + _PIECE])
        if start + _PIECE < len(body):
            cut = max(piece.rfind(b"\n"), 0) or max(piece.rfind(b" "), piece.rfind(b"\t"))
            if cut > 0:
                piece = piece[: cut + 1]
        yield piece
        start += len(piece)


def _check_amount(body: bytes | memoryview, rows: int, columns: int, where: str) -> None:
    """Check that the text has rows x columns words, before memory is allocated."""
    if _count_words(body) == rows * columns:
        return
    found = 0
    for piece in _pieces(body):
        for line in piece.splitlines():
            words = len(line.split())
            if not words:
                continue
            found += 1
            if words != columns:
                raise InputError(f"{where}: data: row {found}: found {words} numbers, expected {columns}")
    raise InputError(f"{where}: data: found {found} rows, expected {rows}")


def _count_words(body: bytes | memoryview) -> int:
    """Number of words."""
    count, after_gap = 0, True
    for start in range(0, len(body), _PIECE):
        gap = _GAPS[np.frombuffer(body[start : start + _PIECE], np.uint8)]
        count += int(np.count_nonzero(gap[:-1] & ~gap[1:])) + int(after_gap and not gap[0])
        after_gap = bool(gap[-1])
    return count


def _parse(words: NDArray[np.bytes_], dtype: np.dtype, where: str, row: int) -> NDArray:
    try:
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                return words.astype(np.float64).astype(dtype)
        return _whole_numbers(words, dtype)
    except (ValueError, OverflowError):
        place, word = _first_bad_word(words, dtype)
        raise InputError(f"{where} {row + place}: found {word!r}, expected a number ({dtype.name})") from None


def _whole_numbers(words: NDArray[np.bytes_], dtype: np.dtype) -> NDArray:
    """Integers without loss through float, except where the text has a form like 7.0 or 1e3."""
    try:
        values = [int(word) for word in words.ravel().tolist()]
    except ValueError:
        numbers = words.astype(np.float64)
        if not np.all(numbers == np.floor(numbers)):
            raise
        values = [int(number) for number in numbers.ravel().tolist()]
    limits = np.iinfo(dtype)
    if values and (min(values) < limits.min or max(values) > limits.max):
        raise OverflowError
    return np.array(values, dtype).reshape(words.shape)


def _first_bad_word(words: NDArray[np.bytes_], dtype: np.dtype) -> tuple[int, str]:
    """Row, counted from one, and text of the first word that is not a number of this type."""
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    for place, row in enumerate(words.tolist(), 1):
        for word in row:
            try:
                number = float(word)
                if limits and not (limits.min <= number <= limits.max and number == np.floor(number)):
                    raise ValueError
            except ValueError:
                return place, word.decode("latin-1")[:24]
    return len(words), words[-1, -1].decode("latin-1")[:24]
