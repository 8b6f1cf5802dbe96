# SPDX-License-Identifier: Apache-2.0
"""Records of bags. Inside a chunk a few kilobytes unpack to millions of empty ones, which take long to go through."""

from __future__ import annotations

from typing import NamedTuple

from roadbed.core.errors import InputError

# A chunk of a fast and small topic holds thousands of messages; beyond this many they are to be as long as real ones.
_FEW_RECORDS = 100_000
_LENGTH_OF_MANY = 256  # bytes
_MOST_CONNECTIONS = 1000  # in a row, which ROS 1 readers step over for each message that is said to lie before them
_CONNECTION = b"op=\x07"


class Record(NamedTuple):
    """A message, its topic and its type, as it lay in the bag."""

    topic: str
    kind: str
    definition: str
    digest: str
    stamp: int  # ns
    data: bytes


def check_mcap_records(chunk: bytes) -> None:
    """One byte of kind and eight of length lead each record."""
    place, records = 0, 0
    while place + 9 <= len(chunk):
        place += 9 + int.from_bytes(chunk[place + 1 : place + 9], "little")
        records += 1
        _check_density(records, place)


def check_ros1_records(chunk: bytes) -> None:
    """A header and data, each after four bytes of length."""
    place, records, connections = 0, 0, 0
    while place + 8 <= len(chunk):
        header_end = place + 4 + int.from_bytes(chunk[place : place + 4], "little")
        connections = connections + 1 if _CONNECTION in chunk[place:header_end] else 0
        place = header_end + 4 + int.from_bytes(chunk[header_end : header_end + 4], "little")
        records += 1
        _check_density(records, place)
        if connections > _MOST_CONNECTIONS:
            raise InputError(f"chunk: found {connections} connections in a row, expected messages")


def _check_density(records: int, length: int) -> None:
    if records > _FEW_RECORDS + length // _LENGTH_OF_MANY:
        raise InputError(f"chunk: found {records} records in {length} bytes, expected messages")
