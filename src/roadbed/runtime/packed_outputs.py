# SPDX-License-Identifier: Apache-2.0
"""Results in one device buffer: neighbours in it are copied to the host together."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.runtime.backend import Backend, byte_count

_ALIGNMENT = 4096  # bytes; the largest alignment that devices require of a sub-buffer


class _Copy(NamedTuple):
    """One copy to the host: bytes of the device buffer, and per array its name, start in them, shape and type."""

    start: int
    size: int
    arrays: list[tuple[str, int, tuple[int, ...], np.dtype]]


class PackedOutputs:
    """Device buffers by name, placed in the order of `parts` (name to elements and type)."""

    def __init__(self, backend: Backend, parts: Mapping[str, tuple[int, DTypeLike]]) -> None:
        self._backend = backend
        self._starts: dict[str, int] = {}
        end = 0
        for name, (count, dtype) in parts.items():
            self._starts[name] = end
            end += -(-byte_count(count, dtype) // _ALIGNMENT) * _ALIGNMENT
        self._buffer = backend.zeros(end, np.uint8)
        self._parts = {
            name: backend.sub_buffer(self._buffer, self._starts[name], *part) for name, part in parts.items()
        }

    def __getitem__(self, name: str) -> Any:
        return self._parts[name]

    def plan(self, fields: Mapping[str, tuple[tuple[int, ...], DTypeLike]]) -> list[_Copy]:
        """The copies, for `queue`, that bring arrays of these shapes and types from the starts of their parts."""
        groups: list[list[str]] = [[]]
        for name in self._starts:
            if name in fields:
                groups[-1].append(name)
            elif groups[-1]:
                groups.append([])
        return [self._copy(names, fields) for names in groups if names]

    def _copy(self, names: list[str], fields: Mapping[str, tuple[tuple[int, ...], DTypeLike]]) -> _Copy:
        first, last = self._starts[names[0]], names[-1]
        arrays = [(name, self._starts[name] - first, fields[name][0], np.dtype(fields[name][1])) for name in names]
        return _Copy(first, self._starts[last] - first + byte_count(*fields[last]), arrays)

    def queue(self, plan: list[_Copy]) -> dict[str, NDArray]:
        """Queue the copies; the arrays are valid after the next wait."""
        found = {}
        for copy in plan:
            copied = self._backend.queue_download(self._buffer, copy.start, copy.size)
            for name, start, shape, dtype in copy.arrays:
                found[name] = np.ndarray(shape, dtype, copied, start)
        return found
