# SPDX-License-Identifier: Apache-2.0
"""Sequences that can only be decoded from their start, such as scans from packets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Generic, TypeVar

from roadbed.core.errors import InputError

T = TypeVar("T")


class InOrder(Generic[T]):
    """Access by index to what `begin()` yields: reading in order is cheap, going back starts over."""

    def __init__(self, begin: Callable[[], Iterator[T]], where: str) -> None:
        self._begin, self._where = begin, where
        self._cursor: Iterator[T] = iter(())
        self._next_index = -1

    def __iter__(self) -> Iterator[T]:
        return self._begin()

    @cached_property
    def _length(self) -> int:
        return sum(1 for _ in self._begin())

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> T:
        index = range(len(self))[index]
        if self._next_index < 0 or index < self._next_index:
            self._cursor, self._next_index = self._begin(), 0
        for item in self._cursor:
            self._next_index += 1
            if self._next_index == index + 1:
                return item
        raise InputError(f"{self._where}: scan {index}: the file ends before it, expected {len(self)} scans")
