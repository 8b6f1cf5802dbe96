# SPDX-License-Identifier: Apache-2.0
"""Compressed parts of bags: each keeps the rule for a file, and one pass over a bag makes at most eight times as much.

A bag is read part by part, so that a long drive of nearly empty scans may unpack to more than the rule at once allows.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, TypeVar

import lz4.frame
from rosbags.rosbag2 import storage_mcap
from rosbags.rosbag2.errors import ReaderError
from rosbags.rosbag2.storage_mcap import zstd

from roadbed.config.text import parse_yaml
from roadbed.core.errors import ConfigError, InputError
from roadbed.io.expansion import Decompressor, allowance, unpack
from roadbed.sources.bags.records import check_mcap_records, check_ros1_records

PASS_FACTOR = 8
_DECOMPRESSORS: dict[str, Callable[[], Decompressor] | None] = {
    "none": None,
    "bz2": bz2.BZ2Decompressor,
    "lz4": lz4.frame.LZ4FrameDecompressor,
    "zstd": zstd.ZstdDecompressor,
}
_Item = TypeVar("_Item")


class Pass:
    """What one pass over a bag of `stored` bytes may still unpack to."""

    def __init__(self, stored: int, where: str) -> None:
        self.where, self.stored = where, stored
        self.most = PASS_FACTOR * allowance(stored)
        self._made = 0

    def take(self, data: bytes) -> bytes:
        """The data, counted."""
        self._made += len(data)
        if self._made > self.most:
            raise InputError(
                f"{self.where}: unpacks to more than {self.most} bytes, expected at most that from {self.stored}"
            )
        return data

    @contextmanager
    def counting(self) -> Iterator[None]:
        """What is unpacked inside the block counts here."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def through(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """The items, with what unpacking each of them takes counted; not what happens between them."""
        iterator = iter(items)
        while True:
            with self.counting():
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item


_current: ContextVar[Pass | None] = ContextVar("pass over a bag", default=None)


def unpack_part(compression: str, data: bytes) -> bytes:
    """A chunk or message of the bag that is being read; `none` is no compression."""
    current = _current.get() or Pass(len(data), "bag")
    make = _DECOMPRESSORS[compression]
    return current.take(data if make is None else unpack(make, data, current.where))


@cache
def bound_mcap() -> None:
    """Exchange what rosbags unpacks MCAP chunks and reads their QoS texts with; it offers no other way in."""
    parse_qos = storage_mcap.parse_qos

    def checked_qos(profiles: Any) -> Any:
        check_qos(profiles)
        return parse_qos(profiles)

    for name, compression in {"": "none", "lz4": "lz4", "zstd": "zstd"}.items():
        storage_mcap.DECOMPRESSORS[name] = partial(_mcap_chunk, compression)
    storage_mcap.parse_qos = checked_qos  # type: ignore[assignment]


def _mcap_chunk(compression: str, data: bytes, size: int) -> bytes:
    chunk = unpack_part(compression, data)
    check_mcap_records(chunk)
    return chunk


def ros1_chunk(compression: str, data: bytes) -> bytes:
    chunk = unpack_part(compression, data)
    check_ros1_records(chunk)
    return chunk


def check_qos(profiles: Any) -> None:
    """QoS profiles are a YAML text inside other texts; what they say is of no use here."""
    if isinstance(profiles, str):
        try:
            parse_yaml(profiles, "offered_qos_profiles")
        except ConfigError as error:
            raise ReaderError(str(error)) from None
