# SPDX-License-Identifier: Apache-2.0
"""Tables of numbers in text, with a type per block of columns."""

import io
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError

Blocks = Sequence[tuple[np.dtype, int]]


def parse_blocks(body: bytes | memoryview, rows: int, blocks: Blocks, where: str) -> list[NDArray]:
    """An array of shape (rows, count) per (dtype, count), from text with one row per line."""
    text, columns = bytes(body), sum(count for _, count in blocks)
    if columns > len(text) and rows:  # NumPy allocates a row before it reads one
        raise InputError(f"{where}: data: found {len(text)} characters, expected rows of {columns} numbers")
    try:
        tables = _load(text, blocks)
    except ValueError as error:
        tables = _load_whole_floats(text, blocks, f"{where}: data: {_explained(error)}")
    found = len(tables[0]) if tables else 0
    if found != rows:
        raise InputError(f"{where}: data: found {found} rows, expected {rows}")
    return tables


def _load(text: bytes, blocks: Blocks) -> list[NDArray]:
    record = np.dtype([(str(k), dtype, (count,)) for k, (dtype, count) in enumerate(blocks)])
    if not text.strip():  # NumPy warns of it
        return [np.empty((0, count), dtype) for dtype, count in blocks]
    table = np.loadtxt(io.BytesIO(text), record, comments=None, ndmin=1, encoding="latin-1")
    return [np.ascontiguousarray(table[name]) for name in record.names or ()]


def _load_whole_floats(text: bytes, blocks: Blocks, problem: str) -> list[NDArray]:
    """The same where whole numbers are written as 7.0 or 1e3; otherwise the `problem` is raised."""
    try:
        tables = _load(
            text, [(np.dtype(np.float64) if dtype.kind in "iu" else dtype, count) for dtype, count in blocks]
        )
    except ValueError:
        raise InputError(problem) from None
    with np.errstate(invalid="ignore"):
        typed = [values.astype(dtype) for values, (dtype, _) in zip(tables, blocks)]
    if any((values != found).any() for values, found, (dtype, _) in zip(typed, tables, blocks) if dtype.kind in "iu"):
        raise InputError(problem)
    return typed


def _explained(error: ValueError) -> str:
    """NumPy's message, with rows counted from one."""
    text = re.sub(r"at row (\d+), column", lambda found: f"at row {int(found[1]) + 1}, column", str(error))
    return text.partition(";")[0]
