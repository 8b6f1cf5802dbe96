# SPDX-License-Identifier: Apache-2.0
"""Results that lie side by side on a device: those next to each other come to the host in one copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.runtime.backend import Backend, byte_count

_ALIGNMENT = 4096  # bytes; parts of a buffer begin at multiples of what devices ask for at most


@dataclass(frozen=True, eq=False)
class _Taken:
    """An array within a copied run of bytes."""

    name: str
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class _Run:
    """Bytes that are copied at once."""

    start: int
    size: int
    taken: tuple[_Taken, ...]


class PackedOutputs:
    """Buffers by name, `parts` (elements, type) in the order in which they lie."""

    def __init__(self, backend: Backend, parts: Mapping[str, tuple[int, DTypeLike]]) -> None:
        self._backend = backend
        self._starts: dict[str, int] = {}
        end = 0
        for name, (count, dtype) in parts.items():
            self._starts[name] = end
            end += -(-count * np.dtype(dtype).itemsize // _ALIGNMENT) * _ALIGNMENT
        self._whole = backend.zeros(end, np.uint8)
        self._parts = {
            name: backend.sub_buffer(self._whole, self._starts[name], count, dtype)
            for name, (count, dtype) in parts.items()
        }

    def __getitem__(self, name: str) -> Any:
        return self._parts[name]

    def plan(self, wanted: Mapping[str, tuple[tuple[int, ...], DTypeLike]]) -> list[_Run]:
        """How arrays of these shapes and types, from the beginnings of their parts, come to the host, for `queue`."""
        groups: list[list[str]] = [[]]
        for name in self._starts:
            if name in wanted:
                groups[-1].append(name)
            elif groups[-1]:
                groups.append([])
        return [self._run(names, wanted) for names in groups if names]

    def _run(self, names: list[str], wanted: Mapping[str, tuple[tuple[int, ...], DTypeLike]]) -> _Run:
        begin, taken, end = self._starts[names[0]], [], 0
        for name in names:
            shape, dtype = wanted[name][0], np.dtype(wanted[name][1])
            taken.append(_Taken(name, self._starts[name] - begin, shape, dtype))
            end = taken[-1].start + byte_count(shape, dtype)
        return _Run(begin, end, tuple(taken))

    def queue(self, plan: list[_Run]) -> dict[str, NDArray]:
        """Queue the copies: the arrays hold what is there after the next wait."""
        found = {}
        for run in plan:
            copied = self._backend.queue_download(self._whole, run.start, run.size)
            for one in run.taken:
                found[one.name] = np.ndarray(one.shape, one.dtype, copied, one.start)
        return found
