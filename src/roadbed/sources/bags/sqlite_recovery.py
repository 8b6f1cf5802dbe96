# SPDX-License-Identifier: Apache-2.0
"""Messages of a truncated SQLite bag: those whose pages are still in the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from roadbed.sources.bags.sqlite import bounded, check_plain

MAGIC = b"SQLite format 3\0"
_PAGES_AT = slice(28, 32)  # the page count in the header
NO_HASH = "RIHS01_" + 64 * "0"
_MISSES = 1000  # missing messages in a row after which the rest counts as lost


class Record(NamedTuple):
    """A message with its topic and type, as stored in the bag."""

    topic: str
    kind: str
    definition: str
    digest: str
    stamp: int  # ns
    data: bytes


class TruncatedDatabase:
    """Records by their id; a missing page loses only the messages on it."""

    def __init__(self, data: bytes) -> None:
        size = _page_size(data)
        pages = len(data) // size
        self.whole = pages * size
        # With the real page count, SQLite reads the rest and fails only for pages beyond the end.
        self._data = data[:28] + pages.to_bytes(4, "big") + data[32 : self.whole]

    def __iter__(self) -> Iterator[Record]:
        with TemporaryDirectory(prefix="roadbed-bag-") as folder:
            path = Path(folder) / "cut.db3"
            path.write_bytes(self._data)
            with closing(bounded(path, len(self._data))) as database:
                check_plain(database, path)
                yield from _records(database, len(self._data))


def is_truncated(data: bytes) -> bool:
    """Whether the header counts more pages than the file has."""
    return len(data) < int.from_bytes(data[_PAGES_AT], "big") * _page_size(data)


def _page_size(data: bytes) -> int:
    return int.from_bytes(data[16:18], "big") * (65536 if data[16:18] == b"\0\1" else 1) or 512


def _records(database: sqlite3.Connection, size: int) -> Iterator[Record]:
    listed = _rows(database, "SELECT id, name, type FROM topics")
    topics = {number: (str(name), str(kind)) for number, name, kind in listed}
    definitions = _definitions(database)
    misses = 0
    for number in range(1, size):
        found = _rows(database, "SELECT topic_id, timestamp, data FROM messages WHERE id = ?", (number,))
        if not found or found[0][0] not in topics or not isinstance(found[0][2], bytes):
            misses += 1
            if misses > _MISSES:
                return
            continue
        misses = 0
        topic, stamp, data = found[0]
        name, kind = topics[topic]
        yield Record(name, kind, *definitions.get(kind, ("", NO_HASH)), int(stamp), data)


def _definitions(database: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """Text and hash of each message type, where recorded."""
    query = "SELECT topic_type, encoded_message_definition, type_description_hash FROM message_definitions"
    return {str(kind): (str(text), str(digest)) for kind, text, digest in _rows(database, query)}


def _rows(database: sqlite3.Connection, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
    """The rows; empty where the table or a page is missing."""
    try:
        return database.execute(query, values).fetchall()
    except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError):
        return []
