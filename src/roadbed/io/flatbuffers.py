# SPDX-License-Identifier: Apache-2.0
"""Tables of flatbuffers, as Arrow and OSF files contain them; every offset is checked."""

import struct
from mmap import mmap
from typing import Self


class Table:
    """A flatbuffer table: fields are found through its vtable of offsets."""

    def __init__(self, raw: bytes | mmap, place: int) -> None:
        if not 0 <= place < len(raw):
            raise ValueError(f"a table at byte {place} of {len(raw)}, expected one within the file")
        self._raw, self._place = raw, place
        self._fields = place - self._read("<i", place)
        self._size = self._read("<H", self._fields)

    @classmethod
    def root(cls, raw: bytes | mmap, place: int) -> Self:
        return cls(raw, place + struct.unpack_from("<I", raw, place)[0])

    def number(self, field: int, kind: str) -> int:
        """A scalar; 0 where it is omitted."""
        place = self._where(field)
        return self._read(kind, place) if place else 0

    def table(self, field: int) -> "Table | None":
        place = self._where(field)
        return Table(self._raw, place + self._read("<I", place)) if place else None

    def structures(self, field: int, size: int) -> range:
        """The offsets of the structs or numbers of a vector; it is empty where the vector is omitted."""
        place = self._where(field)
        if not place:
            return range(0)
        begin = place + self._read("<I", place)
        count = self._read("<I", begin)
        if begin + 4 + count * size > len(self._raw):
            raise ValueError(f"a list of {count} x {size} bytes, expected it within the file")
        return range(begin + 4, begin + 4 + count * size, size)

    def tables(self, field: int) -> list["Table"]:
        """The tables of a vector."""
        return [Table(self._raw, place + self._read("<I", place)) for place in self.structures(field, 4)]

    def content(self, field: int, size: int = 1) -> bytes:
        """The bytes of a text, or of a vector of numbers of `size` bytes."""
        places = self.structures(field, size)
        return self._raw[places.start : places.stop]

    def _where(self, field: int) -> int:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        offset = self._read("<H", self._fields + entry)
        return self._place + offset if offset else 0

    def _read(self, kind: str, place: int) -> int:
        if place < 0:
            raise ValueError(f"a field at byte {place}, expected it within the file")
        return int(struct.unpack_from(kind, self._raw, place)[0])
