# SPDX-License-Identifier: Apache-2.0
"""Feather files (Arrow IPC) as named columns, after a check of their claimed unpacked size."""

import struct
from collections.abc import Iterator
from pathlib import Path

from numpy.typing import NDArray

from roadbed.core.errors import InputError, foreign_errors, needs_extra
from roadbed.io.expansion import check_claim
from roadbed.io.files import read_bytes
from roadbed.io.flatbuffers import Table

_MAGIC = b"ARROW1"
_DICTIONARY_BATCH = 2  # header type of a message
_BYTES_PER_VALUE = 8  # of a column without stored data, e.g. one of nulls


def read_feather(path: Path, needed: tuple[str, ...], texts: tuple[str, ...] = ()) -> dict[str, NDArray]:
    """Every column by name: numbers, or text for names in `texts`; a missing column of `needed` is an error."""
    raw = read_bytes(path)
    with needs_extra("pyarrow", "argoverse", f"reading {path}"):
        import pyarrow as arrow
    with foreign_errors(path, "feather file"):
        check_claim(sum(_claims(raw)), len(raw), f"{path}: feather file")
        table = arrow.ipc.open_file(arrow.py_buffer(raw)).read_all()
        table.validate(full=True)
    for name in needed:
        if name not in table.column_names:
            found = ", ".join(table.column_names) or "none"
            raise InputError(f"{path}: column {name!r}: not found, expected one among {found}")
    for name, kind in zip(table.column_names, table.schema.types):
        is_number = arrow.types.is_integer(kind) or arrow.types.is_floating(kind)
        if not (arrow.types.is_string(kind) if name in texts else is_number):
            expected = "text" if name in texts else "numbers"
            raise InputError(f"{path}: column {name!r}: found {kind}, expected {expected}")
    with foreign_errors(path, "feather file"):
        return {name: table.column(name).to_numpy() for name in table.column_names}


def _claims(raw: bytes) -> Iterator[int]:
    """Claimed unpacked size of each buffer, and at least what its rows need."""
    if raw[: len(_MAGIC)] != _MAGIC or raw[-len(_MAGIC) :] != _MAGIC:
        raise ValueError(f"found {raw[:6]!r} ... {raw[-6:]!r}, expected {_MAGIC!r} at both ends")
    (length,) = struct.unpack_from("<i", raw, len(raw) - 10)
    footer = Table.root(raw, len(raw) - 10 - length)
    for field in (2, 3):  # dictionaries, record batches
        for block in footer.structures(field, 24):
            offset, metadata, _ = struct.unpack_from("<qi4xq", raw, block)
            yield from _claims_of_batch(raw, offset, metadata)


def _claims_of_batch(raw: bytes, offset: int, metadata: int) -> Iterator[int]:
    starts_with_mark = struct.unpack_from("<I", raw, offset)[0] == 0xFFFFFFFF
    message = Table.root(raw, offset + (8 if starts_with_mark else 4))
    batch = message.table(2)
    if message.number(1, "<B") == _DICTIONARY_BATCH and batch is not None:
        batch = batch.table(1)
    if batch is None:
        return
    is_compressed = batch.table(3) is not None
    yield batch.number(0, "<q") * _BYTES_PER_VALUE * len(batch.structures(1, 16))
    for place in batch.structures(2, 16):
        start, length = struct.unpack_from("<qq", raw, place)
        claimed = length
        if is_compressed and length >= 8:
            (claimed,) = struct.unpack_from("<q", raw, offset + metadata + start)
        yield max(claimed, length)
