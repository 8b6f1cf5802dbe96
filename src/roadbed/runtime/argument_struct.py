# SPDX-License-Identifier: Apache-2.0
"""Arguments of a frame as C structures that kernels read."""

import math
from functools import cache
from struct import Struct
from typing import Any

import numpy as np

_FORMATS = {"i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f4": "f", "f8": "d"}  # NumPy types in the module `struct`


class ArgumentStruct:
    """An array of `count` structures. Writing one through `struct` or ctypes is five times as fast as through NumPy."""

    def __init__(self, dtype: np.dtype, count: int) -> None:
        self.array = np.zeros(count, dtype)
        to_ctypes: Any = np.ctypeslib.as_ctypes_type
        record = to_ctypes(dtype)
        self.records: list[Any] = [record.from_buffer(self.array, k * dtype.itemsize) for k in range(count)]
        self._format, self._bytes = Struct("=" + _format(dtype)), self.array.view(np.uint8).data

    def write(self, k: int, *values: float) -> None:
        """Write all numbers of structure `k` in order; nested arrays and structures are flattened."""
        self._format.pack_into(self._bytes, k * self._format.size, *values)


@cache
def single(dtype: np.dtype) -> np.dtype:
    """The type with float32 in the place of float64, in structures too."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((single(base), shape))
    if dtype.fields is None:
        return np.dtype(np.float32) if dtype == np.float64 else dtype
    return np.dtype([(name, single(dtype.fields[name][0])) for name in dtype.names or ()], align=True)


def _format(dtype: np.dtype) -> str:
    """The format string for the module `struct`, with the padding between members."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return _format(base) * math.prod(shape)
    if dtype.fields is None:
        return _FORMATS[dtype.str[1:]]
    text, end = "", 0
    for name in dtype.names or ():
        member, start = dtype.fields[name][:2]
        text, end = f"{text}{start - end}x{_format(member)}", start + member.itemsize
    return f"{text}{dtype.itemsize - end}x"
