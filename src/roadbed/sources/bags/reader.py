# SPDX-License-Identifier: Apache-2.0
"""One bag, or several ROS 1 bags, as messages in the order of recording."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from heapq import merge
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rosbags.rosbag1 import Reader as Reader1
from rosbags.rosbag1.reader import decompressors
from rosbags.rosbag2 import Reader as Reader2
from rosbags.rosbag2.reader import DirectoryReader
from rosbags.rosbag2.storage_mcap import McapReader

from roadbed.core.errors import InputError, foreign_errors
from roadbed.io.files import check_regular, open_regular
from roadbed.sources.bags.decompression import DecompressionBudget, limit_mcap, ros1_chunk, unpack_part
from roadbed.sources.bags.livox import livox_message
from roadbed.sources.bags.message_types import message_types
from roadbed.sources.bags.metadata import read_metadata, unpack_folder
from roadbed.sources.bags.recovery import recover
from roadbed.sources.bags.sqlite import BoundedSqlite3Reader
from roadbed.sources.bags.type_names import LIVOX_TYPES

_INDEX_ENTRY_BYTES = 12
_COMPRESSION_OF = {unpack: name for name, unpack in decompressors.items()}


class BagReader:
    """Connections and messages; message definitions inside the bag are not used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.diagnostics: tuple[str, ...] = ()
        self._stack = ExitStack()
        try:
            try:
                with foreign_errors(path, "ROS bag"):
                    self._open(path)
            except InputError as error:
                self._open_recovered(error)
        except BaseException:
            self.close()
            raise

    def _open_recovered(self, error: InputError) -> None:
        """A truncated bag has no index: copy its readable messages into a complete bag."""
        self.close()
        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="roadbed-bag-")))
        with foreign_errors(self.path, "ROS bag"):
            recovered = recover(self.path, folder)
        if recovered is None:
            raise error
        place, lost = recovered
        self.diagnostics = (lost,)
        self._open(place)

    def _open(self, place: Path) -> None:
        path = _RegularPath(place)
        is_folder = path.is_dir()
        has_metadata = is_folder and (path / "metadata.yaml").is_file()
        self.is_ros1 = path.suffix.lower() == ".bag" if not is_folder else not has_metadata
        readers: list[Any]
        if self.is_ros1:
            files = sorted(path.glob("*.bag")) if is_folder else [path]
            readers = [_BoundedReader1(file) for file in files]
        elif has_metadata:
            metadata = read_metadata(path)
            files = metadata.files(path)
            folder = path
            if metadata.packed_files:
                folder = _RegularPath(self._stack.enter_context(TemporaryDirectory(prefix="roadbed-bag-")))
                unpack_folder(path, metadata, folder)
            readers = [_BoundedReader2(folder)]
        else:
            files = [path]
            readers = [_BoundedReader2(path)]
        self._stored = sum(check_regular(file) for file in files)
        limit_mcap()
        with self._new_budget().counting():
            for reader in readers:
                self._stack.enter_context(reader)
        self._readers = readers
        self.connections = [link for reader in readers for link in reader.connections]
        for link in self.connections:
            if not (isinstance(link.topic, str) and isinstance(link.msgtype, str)):  # SQLite columns hold any type
                raise InputError(f"{path}: found topic {link.topic!r} of {link.msgtype!r}, expected names")
            if not 0 <= link.msgcount <= self._new_budget().most:
                raise InputError(f"{path}: {link.topic}: found {link.msgcount} messages in {self._stored} bytes")

    def close(self) -> None:
        self._stack.close()

    def messages(
        self, links: Iterable[Any], start: int | None = None, stop: int | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Recording time (ns) and message, in order; from `start`, before `stop`."""
        store = message_types(self.is_ros1)
        deserialize = store.deserialize_ros1 if self.is_ros1 else store.deserialize_cdr
        with foreign_errors(self.path, "ROS bag"):
            for link, stamp, raw in self.raw_messages(links, start, stop):
                is_livox = link.msgtype in LIVOX_TYPES
                yield stamp, livox_message(raw, self.is_ros1) if is_livox else deserialize(raw, link.msgtype)

    def raw_messages(
        self, links: Iterable[Any], start: int | None = None, stop: int | None = None
    ) -> Iterator[tuple[Any, int, bytes]]:
        """Connection, recording time (ns) and bytes of messages, in order; from `start`, before `stop`."""
        chosen_ids = {id(link) for link in links}
        streams = []
        with foreign_errors(self.path, "ROS bag"):
            for reader in self._readers:
                chosen = [link for link in reader.connections if id(link) in chosen_ids]
                if chosen:
                    streams.append(reader.messages(chosen, start=start, stop=stop))
            yield from self._new_budget().through(merge(*streams, key=lambda item: item[1]))

    def _new_budget(self) -> DecompressionBudget:
        return DecompressionBudget(self._stored, str(self.path))


class _RegularPath(type(Path())):  # type: ignore[misc]
    """A path that opens regular files only; rosbags opens its files by their paths."""

    def open(self, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        return open_regular(self) if mode == "rb" else super().open(mode, *arguments, **options)


class _BoundedReader1(Reader1):
    """ROS 1 bags with limits on unpacked chunks and on the size of the index."""

    def __init__(self, path: Path) -> None:
        self._most_entries = check_regular(path) // _INDEX_ENTRY_BYTES
        super().__init__(path)

    def read_chunk(self) -> Any:
        chunk = super().read_chunk()
        return chunk._replace(decompressor=partial(ros1_chunk, _COMPRESSION_OF[chunk.decompressor]))

    def read_index_data(self, pos: int, indexes: dict[int, list[Any]]) -> None:
        super().read_index_data(pos, indexes)
        entries = sum(map(len, indexes.values()))
        if entries > self._most_entries:
            raise InputError(f"{self.path}: index: found {entries} entries, more than the file has bytes for")


class _BoundedDirectoryReader(DirectoryReader):
    """ROS 2 folders, with messages that may be compressed one by one."""

    STORAGE_PLUGINS = {"mcap": McapReader, "sqlite3": BoundedSqlite3Reader}  # noqa: RUF012

    def open(self) -> None:
        super().open()
        self._packed_messages = self.metadata.compression_mode == "message"
        self.metadata = self.metadata._replace(compression_mode=None)

    def messages(self, connections: Any, start: int | None = None, stop: int | None = None) -> Any:
        for link, stamp, data in super().messages(connections, start, stop):
            yield link, stamp, unpack_part("zstd", data) if self._packed_messages else data


class _BoundedReader2(Reader2):
    STORAGE_PLUGINS = {  # noqa: RUF012
        "dir": _BoundedDirectoryReader,
        ".mcap": McapReader,
        ".db3": BoundedSqlite3Reader,
    }
