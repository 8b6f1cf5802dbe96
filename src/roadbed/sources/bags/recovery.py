# SPDX-License-Identifier: Apache-2.0
"""Recovery of truncated bags, e.g. after a full disk: every complete message, copied into a bag with an index."""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2

from roadbed.io.files import check_regular, read_bytes
from roadbed.sources.bags.decompression import DecompressionBudget, ros1_chunk, unpack_part
from roadbed.sources.bags.message_types import message_types
from roadbed.sources.bags.sqlite import bounded, check_plain

_ROS1_MAGIC, _MCAP_MAGIC = b"#ROSBAG V2.0\n", b"\x89MCAP0\r\n"
_MESSAGE1, _CHUNK1, _CONNECTION1 = 2, 5, 7
_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK = 3, 4, 5, 6
_SQLITE_MAGIC = b"SQLite format 3\0"
_PAGES_AT = slice(28, 32)  # the page count in the header
_NO_HASH = "RIHS01_" + 64 * "0"
_MISSES = 1000  # missing messages in a row after which the rest counts as lost


class _Record(NamedTuple):
    """A message with its topic and type, as stored in the bag."""

    topic: str
    kind: str
    definition: str
    digest: str
    stamp: int  # ns
    data: bytes


def recover(path: Path, folder: Path) -> tuple[Path, str] | None:
    """Copy the complete messages into a bag in `folder`; its path, and one line on what was lost.

    None without any message, or where no file is truncated.
    """
    files = _storage_files(path)
    cut, count, links = [], 0, {}
    budget = DecompressionBudget(sum(map(check_regular, files)), str(path))
    ros1 = any(file.suffix.lower() == ".bag" for file in files)
    target = folder / ("recovered.bag" if ros1 else "recovered")
    writer: Any = Writer1(target) if ros1 else Writer2(target, version=9, storage_plugin=StoragePlugin.MCAP)
    with budget.counting(), writer:
        for file in files:
            data, before = read_bytes(file), count
            opened = _walk(data)
            if opened is None:
                return None
            walk, ends_early = opened
            for record in walk:
                if record.topic not in links:
                    about: dict[str, Any] = {"msgdef": record.definition, "md5sum" if ros1 else "rihs01": record.digest}
                    if record.kind in message_types(ros1).types:
                        about = {"typestore": message_types(ros1)}
                    links[record.topic] = writer.add_connection(record.topic, record.kind, **about)
                writer.write(links[record.topic], record.stamp, record.data)
                count += 1
            if ends_early:
                found = f"{count - before} messages in the first {walk.whole} of {len(data)} bytes"
                cut.append(f"{file}: cut off or damaged: found {found}, the rest is lost")
    return (target, "; ".join(cut)) if count and cut else None


def _storage_files(path: Path) -> list[Path]:
    """The bag itself, or the files of a ROS 2 folder in the order of recording (their names)."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.glob("*") if file.suffix in (".db3", ".mcap") and file.is_file())


def _walk(data: bytes) -> tuple["_Ros1 | _Mcap | _Sqlite", bool] | None:
    """An iterable of the messages, and whether the end is missing; None for other files."""
    if data.startswith(_SQLITE_MAGIC):
        pages = int.from_bytes(data[_PAGES_AT], "big")  # by the header
        return _Sqlite(data), len(data) < pages * _page_size(data)
    if data.startswith(_MCAP_MAGIC):
        return _Mcap(data), not data.endswith(_MCAP_MAGIC)
    if data.startswith(_ROS1_MAGIC):
        # The index is at the end; a bag that was never closed has none.
        fields, _, _ = next(_ros1_records(data, len(_ROS1_MAGIC)), ({}, b"", 0))
        return _Ros1(data), not 0 < int.from_bytes(fields.get(b"index_pos", b""), "little") < len(data)
    return None


class _Ros1:
    """Records of a ROS 1 bag in order, up to the first incomplete one."""

    def __init__(self, data: bytes) -> None:
        self._data, self.whole = data, len(_ROS1_MAGIC)
        self._connections: dict[int, tuple[str, str, str, str]] = {}

    def __iter__(self) -> Iterator[_Record]:
        for fields, body, end in _ros1_records(self._data, len(_ROS1_MAGIC)):
            if fields.get(b"op") == bytes([_CHUNK1]):
                compression = fields.get(b"compression", b"none").decode("ascii", "replace")
                for inner, content, _ in _ros1_records(ros1_chunk(compression, body), 0):
                    yield from self._message(inner, content)
            else:
                yield from self._message(fields, body)
            self.whole = end

    def _message(self, fields: dict[bytes, bytes], body: bytes) -> Iterator[_Record]:
        kind = fields.get(b"op", b"\0")[0]
        if kind == _CONNECTION1:
            about = {**fields, **_ros1_fields(body)}
            names = (b"topic", b"type", b"message_definition", b"md5sum")
            topic, name, definition, md5 = (about.get(key, b"").decode("utf-8", "replace") for key in names)
            package, _, message = name.partition("/")
            number = int.from_bytes(fields[b"conn"], "little")
            self._connections[number] = (topic, f"{package}/msg/{message}", definition, md5)
        elif kind == _MESSAGE1:
            connection = self._connections.get(int.from_bytes(fields[b"conn"], "little"))
            if connection is not None:
                seconds, nanoseconds = struct.unpack("<II", fields[b"time"])
                yield _Record(*connection, seconds * 10**9 + nanoseconds, body)


def _ros1_records(data: bytes, place: int) -> Iterator[tuple[dict[bytes, bytes], bytes, int]]:
    """Header fields, content and end of each complete record."""
    while place + 4 <= len(data):
        header_end = place + 4 + int.from_bytes(data[place : place + 4], "little")
        end = header_end + 4 + int.from_bytes(data[header_end : header_end + 4], "little")
        if header_end + 4 > len(data):
            return
        fields = _ros1_fields(data[place + 4 : header_end])
        if end > len(data) and fields.get(b"compression") != b"none":
            return
        yield fields, data[header_end + 4 : end], min(end, len(data))  # an uncompressed chunk may be incomplete
        place = end


def _ros1_fields(header: bytes) -> dict[bytes, bytes]:
    fields, place = {}, 0
    while place + 4 <= len(header):
        end = place + 4 + int.from_bytes(header[place : place + 4], "little")
        name, _, value = header[place + 4 : end].partition(b"=")
        fields[name] = value
        place = end
    return fields


class _Mcap:
    """Records of an MCAP file in order, up to the first incomplete one."""

    def __init__(self, data: bytes) -> None:
        self._data, self.whole = data, len(_MCAP_MAGIC)
        self._schemas: dict[int, tuple[str, str]] = {}
        self._channels: dict[int, tuple[str, str, str, str]] = {}

    def __iter__(self) -> Iterator[_Record]:
        for kind, body, end in _mcap_records(self._data, len(_MCAP_MAGIC)):
            if kind == _CHUNK:
                compression, place = _text(body, 28)
                length = int.from_bytes(body[place : place + 8], "little")
                content = unpack_part(compression or "none", body[place + 8 : place + 8 + length])
                for inner, part, _ in _mcap_records(content, 0):
                    yield from self._message(inner, part)
            else:
                yield from self._message(kind, body)
            self.whole = end

    def _message(self, kind: int, body: bytes) -> Iterator[_Record]:
        number = int.from_bytes(body[:2], "little")
        if kind == _SCHEMA:
            name, place = _text(body, 2)
            _, place = _text(body, place)
            definition, _ = _text(body, place)
            self._schemas[number] = (name, definition)
        elif kind == _CHANNEL:
            schema = self._schemas.get(int.from_bytes(body[2:4], "little"))
            if schema is not None:
                self._channels[number] = (_text(body, 4)[0], *schema, _NO_HASH)
        elif kind == _MESSAGE and number in self._channels:
            yield _Record(*self._channels[number], int.from_bytes(body[6:14], "little"), body[22:])


def _mcap_records(data: bytes, place: int) -> Iterator[tuple[int, bytes, int]]:
    """Kind, content and end of each complete record."""
    while place + 9 <= len(data):
        end = place + 9 + int.from_bytes(data[place + 1 : place + 9], "little")
        if end > len(data) and not (data[place] == _CHUNK and data[place + 9 + 28 : place + 9 + 32] == bytes(4)):
            return
        yield data[place], data[place + 9 : end], min(end, len(data))  # an uncompressed chunk may be incomplete
        place = end


def _text(body: bytes, place: int) -> tuple[str, int]:
    end = place + 4 + int.from_bytes(body[place : place + 4], "little")
    return body[place + 4 : end].decode("utf-8", "replace"), end


class _Sqlite:
    """Records by their id; a missing page loses only the messages on it."""

    def __init__(self, data: bytes) -> None:
        size = _page_size(data)
        pages = len(data) // size
        self.whole = pages * size
        # With the real page count, SQLite reads the rest and fails only for pages beyond the end.
        self._data = data[:28] + pages.to_bytes(4, "big") + data[32 : self.whole]

    def __iter__(self) -> Iterator[_Record]:
        with TemporaryDirectory(prefix="roadbed-bag-") as folder:
            path = Path(folder) / "cut.db3"
            path.write_bytes(self._data)
            with closing(bounded(path, len(self._data))) as database:
                check_plain(database, path)
                yield from _records(database, len(self._data))


def _page_size(data: bytes) -> int:
    return int.from_bytes(data[16:18], "big") * (65536 if data[16:18] == b"\0\1" else 1) or 512


def _records(database: sqlite3.Connection, size: int) -> Iterator[_Record]:
    listed = _rows(database, "SELECT id, name, type FROM topics")
    topics = {number: (str(name), str(kind)) for number, name, kind in listed}
    query = "SELECT topic_type, encoded_message_definition, type_description_hash FROM message_definitions"
    definitions = {str(kind): (str(text), str(digest)) for kind, text, digest in _rows(database, query)}
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
        yield _Record(name, kind, *definitions.get(kind, ("", _NO_HASH)), int(stamp), data)


def _rows(database: sqlite3.Connection, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
    """The rows; empty where the table or a page is missing."""
    try:
        return database.execute(query, values).fetchall()
    except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError):
        return []
