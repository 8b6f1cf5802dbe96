# SPDX-License-Identifier: Apache-2.0
"""NumPy files: `.npy` arrays and `.npz` archives. Nothing is unpickled."""

import io
import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from roadbed.core.errors import InputError, foreign_errors
from roadbed.io.expansion import check_claim
from roadbed.io.files import read_bytes

NUMBERS = "fiub"  # kinds of dtype: float, int, uint, bool
_TEXT = "US"
# What NumPy writes; zipfile unpacks other methods without a limit.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_array(path: str | Path) -> NDArray:
    """The array of a `.npy` file."""
    return parse_array(read_bytes(path), str(path))


def read_arrays(path: str | Path, select: Callable[[str], bool] = lambda name: True) -> dict[str, NDArray]:
    """The arrays of an `.npz` archive whose names pass `select`; their claimed size is checked before reading."""
    data = read_bytes(path)
    arrays = {}
    with foreign_errors(path, "npz archive"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {
            member.filename.removesuffix(".npy"): member
            for member in archive.infolist()
            if member.filename.endswith(".npy") and select(member.filename.removesuffix(".npy"))
        }
        for name, member in members.items():
            if member.compress_type not in _COMPRESSIONS:
                raise InputError(
                    f"{path}: {name}: found compression method {member.compress_type}, "
                    f"expected {_COMPRESSIONS[0]} (stored) or {_COMPRESSIONS[1]} (deflated)"
                )
        check_claim(sum(member.file_size for member in members.values()), len(data), str(path))
        for name, member in members.items():
            with archive.open(member) as stream:  # read() without a length would ignore the claimed size
                arrays[name] = parse_array(stream.read(member.file_size), f"{path}: {name}")
    return arrays


def parse_array(data: bytes, where: str) -> NDArray:
    """One array in NumPy's file format; its size is checked against the bytes that follow before allocation."""
    if not data:
        raise InputError(f"{where}: found an empty file, expected a NumPy array")
    stream = io.BytesIO(data)
    with foreign_errors(where, "NumPy array"):
        version = npy_format.read_magic(stream)
        readers = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
        if version not in readers:
            raise InputError(f"{where}: format version {version}: expected 1.0 or 2.0")
        shape, fortran_order, dtype = readers[version](stream)
    _check_dtype(dtype, where)
    if not all(type(size) is int and 0 <= size < 2**63 for size in shape):
        raise InputError(f"{where}: shape: found {shape}, expected whole numbers")
    count = math.prod(shape)
    expected, found = count * dtype.itemsize, len(data) - stream.tell()
    if expected > found:
        raise InputError(f"{where}: shape {shape} of {dtype.name}: found {found} bytes, expected {expected}")
    with foreign_errors(where, "NumPy array"):  # too many dimensions, or a size that overflows
        if not count:
            return np.empty(shape, dtype.newbyteorder("="))
        values = np.frombuffer(data, dtype, count, stream.tell()).reshape(shape, order="F" if fortran_order else "C")
        return values.astype(dtype.newbyteorder("="), copy=False)


def check_numbers(values: NDArray, where: str) -> NDArray:
    """The array; text, dates and complex numbers are an error."""
    if values.dtype.kind not in NUMBERS:
        raise InputError(f"{where}: dtype: found {values.dtype}, expected numbers")
    return values


def _check_dtype(dtype: np.dtype, where: str) -> None:
    """Accept numbers, text and records of them, each of at least one byte."""
    if dtype.hasobject:
        raise InputError(f"{where}: dtype: found Python objects, expected plain numbers (nothing is unpickled)")
    base = dtype.subdtype[0] if dtype.subdtype else dtype
    if base.names:
        for name in base.names:
            _check_dtype(base[name], f"{where}: {name}")
    elif base.kind not in NUMBERS + _TEXT or not base.itemsize:
        raise InputError(f"{where}: dtype: found {base}, expected numbers")
