# SPDX-License-Identifier: Apache-2.0
"""Numbers in text, column by column with each column's own type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roadbed.errors import InputError

# No printed number is longer; one endless word must not set the width of a whole table.
_LONGEST_WORD = 64


def parse_columns(body: bytes, rows: int, dtypes: Sequence[np.dtype], where: str) -> list[NDArray]:
    """One array of `rows` numbers per dtype, from text with one row per line."""
    words = body.split()
    if len(words) != rows * len(dtypes):
        raise InputError(f"{where}: data: {_first_odd_line(body, rows, len(dtypes))}")
    if not words:
        return [np.empty(rows, dtype) for dtype in dtypes]
    longest = max(map(len, words))
    if longest > _LONGEST_WORD:
        raise InputError(f"{where}: data: found a word of {longest} characters, expected numbers")
    table = np.array(words, f"S{longest}").reshape(rows, len(dtypes))
    return [_parse_column(table[:, k], dtype, where) for k, dtype in enumerate(dtypes)]


def _parse_column(words: NDArray[np.bytes_], dtype: np.dtype, where: str) -> NDArray:
    try:
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                return words.astype(np.float64).astype(dtype)
        return _whole_numbers(words, dtype)
    except (ValueError, OverflowError):
        row, word = _first_bad_word(words, dtype)
        raise InputError(f"{where}: data: row {row}: found {word!r}, expected a number ({dtype.name})") from None


def _whole_numbers(words: NDArray[np.bytes_], dtype: np.dtype) -> NDArray:
    """Integers of any width without passing through a float, except where the text itself says 7.0 or 1e3."""
    try:
        values = [int(word) for word in words.tolist()]
    except ValueError:
        numbers = words.astype(np.float64)
        if not np.all(numbers == np.floor(numbers)):
            raise
        values = [int(number) for number in numbers.tolist()]
    limits = np.iinfo(dtype)
    if min(values) < limits.min or max(values) > limits.max:
        raise OverflowError
    return np.array(values, dtype)


def _first_bad_word(words: NDArray[np.bytes_], dtype: np.dtype) -> tuple[int, str]:
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    for row, word in enumerate(words.tolist(), 1):
        try:
            number = float(word)
            if limits and not (limits.min <= number <= limits.max and number == np.floor(number)):
                raise ValueError
        except ValueError:
            return row, word.decode("latin-1")[:24]
    return len(words), words[-1].decode("latin-1")[:24]


def _first_odd_line(body: bytes, rows: int, columns: int) -> str:
    """What is wrong when the number of words is not rows x columns."""
    found = 0
    for line in body.splitlines():
        words = len(line.split())
        if not words:
            continue
        found += 1
        if words != columns:
            return f"row {found}: found {words} numbers, expected {columns}"
    return f"found {found} rows, expected {rows}"
