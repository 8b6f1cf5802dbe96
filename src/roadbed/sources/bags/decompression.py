# SPDX-License-Identifier: Apache-2.0
"""Limits on the compressed parts of bags.

A bag is read in parts. Each part obeys the rule for a file (`io.expansion`); one pass over a bag may unpack to eight
times that, because a long recording of nearly empty scans compresses better than a single file.
"""

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

PASS_FACTOR = 8
_DECOMPRESSORS: dict[str, Callable[[], Decompressor] | None] = {
    "none": None,
    "bz2": bz2.BZ2Decompressor,
    "lz4": lz4.frame.LZ4FrameDecompressor,
    "zstd": zstd.ZstdDecompressor,
}
# A few kilobytes can unpack to millions of empty records, which take long to read. Chunks of fast, small topics hold
# thousands of messages; beyond this number records must be as long as real messages.
_FEW_RECORDS = 100_000
_BYTES_OF_MANY = 256
_MOST_CONNECTIONS = 1000  # in a row, which ROS 1 readers skip for each message that claims to lie before them
_CONNECTION = b"op=\x07"
_Item = TypeVar("_Item")


class DecompressionBudget:
    """Counts the bytes that one pass over a bag of `stored` bytes unpacks to."""

    def __init__(self, stored: int, where: str) -> None:
        self.where, self.stored = where, stored
        self.most = PASS_FACTOR * allowance(stored)
        self._made = 0

    def take(self, data: bytes) -> bytes:
        """Count the data and return it."""
        self._made += len(data)
        if self._made > self.most:
            raise InputError(
                f"{self.where}: unpacks to more than {self.most} bytes, expected at most that from {self.stored}"
            )
        return data

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Parts unpacked inside the block count here."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def through(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """The items; unpacking each of them counts here, the caller's work between them does not."""
        iterator = iter(items)
        while True:
            with self.counting():
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item


_current: ContextVar[DecompressionBudget | None] = ContextVar("decompression budget", default=None)


def unpack_part(compression: str, data: bytes) -> bytes:
    """A chunk or message of the bag that is being read; compression "none" returns the data."""
    current = _current.get() or DecompressionBudget(len(data), "bag")
    make = _DECOMPRESSORS[compression]
    return current.take(data if make is None else unpack(make, data, current.where))


@cache
def limit_mcap() -> None:
    """Replace the functions by which rosbags unpacks MCAP chunks and parses QoS texts; it has no other hook."""
    parse_qos = storage_mcap.parse_qos

    def checked_qos(profiles: Any) -> Any:
        check_qos(profiles)
        return parse_qos(profiles)

    for name, compression in {"": "none", "lz4": "lz4", "zstd": "zstd"}.items():
        storage_mcap.DECOMPRESSORS[name] = partial(_mcap_chunk, compression)
    storage_mcap.parse_qos = checked_qos  # type: ignore[assignment]


def _mcap_chunk(compression: str, data: bytes, size: int) -> bytes:
    """The chunk; each record has one byte of kind and eight of length."""
    chunk = unpack_part(compression, data)
    place, records = 0, 0
    while place + 9 <= len(chunk):
        place += 9 + int.from_bytes(chunk[place + 1 : place + 9], "little")
        records += 1
        _check_density(records, place)
    return chunk


def ros1_chunk(compression: str, data: bytes) -> bytes:
    """The chunk; each record is a header and data, each after four bytes of length."""
    chunk = unpack_part(compression, data)
    place, records, connections = 0, 0, 0
    while place + 8 <= len(chunk):
        header_end = place + 4 + int.from_bytes(chunk[place : place + 4], "little")
        connections = connections + 1 if _CONNECTION in chunk[place:header_end] else 0
        place = header_end + 4 + int.from_bytes(chunk[header_end : header_end + 4], "little")
        records += 1
        _check_density(records, place)
        if connections > _MOST_CONNECTIONS:
            raise InputError(f"chunk: found {connections} connections in a row, expected messages")
    return chunk


def _check_density(records: int, length: int) -> None:
    if records > _FEW_RECORDS + length // _BYTES_OF_MANY:
        raise InputError(f"chunk: found {records} records in {length} bytes, expected messages")


def check_qos(profiles: Any) -> None:
    """QoS profiles are YAML inside a text; check them with our limits before rosbags parses them."""
    if isinstance(profiles, str):
        try:
            parse_yaml(profiles, "offered_qos_profiles")
        except ConfigError as error:
            raise ReaderError(str(error)) from None
