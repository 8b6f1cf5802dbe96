# SPDX-License-Identifier: Apache-2.0
"""The source protocol: a sequence of scans, parts of it, and sources that wrap another source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, wraps
from itertools import islice
from typing import Any, ClassVar, Generic, TypeVar

from roadbed.core.closing import Closing
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.sources.location import parse_location

T = TypeVar("T")
_PER_SCAN = ("truth", "objects")  # methods of some sources that take the index of a scan


def _with_slices(read: Callable[[Any, int], Scan]) -> Callable[[Any, Any], Any]:
    """Make `source[a:b]` return a Selection, and `source[-1]` read the last scan."""

    @wraps(read)
    def getitem(source: Source, index: int | slice) -> Scan | Source:
        numbers = range(len(source))[index]
        return Selection(source, numbers) if isinstance(numbers, range) else read(source, numbers)

    return getitem


class Source(Closing):
    """A sequence of scans: `len(source)`, `source[i]`, `source[a:b]`, iteration. Scans are read on access.

    A subclass defines `matches`, `__len__` and `__getitem__` for one index; the base class adds slices.
    """

    name: ClassVar[str] = ""
    accepts: ClassVar[tuple[str, ...]] = ()  # options after `?`, or keyword arguments
    sequential: bool = True  # False: the scans are independent, no state is kept from one to the next

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """What was lost, assumed or recognised at opening, one line each."""
        return ()

    def details(self) -> dict[str, Any]:
        """Facts of the format for `roadbed info`: topics, frames, columns."""
        return {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__getitem__" in cls.__dict__:
            cls.__getitem__ = _with_slices(cls.__getitem__)  # type: ignore[method-assign]

    def __init__(self, location: str, **options: Any) -> None:
        self.location = location
        self.path, self.options = parse_location(location, self.accepts, options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    @classmethod
    def matches(cls, location: str) -> bool:
        """Whether this source reads `location` (a path or an address like `sim:city`, without its options)."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, index: int) -> Scan:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Scan]:
        for index in range(len(self)):
            yield self[index]

    def close(self) -> None:
        """Release files and sockets; iteration in another thread ends."""


class WrappedSource(Source):
    """Scans of another source, changed one by one. Other attributes, e.g. `truth`, are those of the inner source."""

    def __init__(self, source: Source) -> None:
        self.location, self.path, self.options = source.location, source.path, source.options
        self.sequential = source.sequential
        self.source = source

    @property
    def diagnostics(self) -> tuple[str, ...]:
        return self.source.diagnostics

    def details(self) -> dict[str, Any]:
        return self.source.details()

    def __len__(self) -> int:
        return len(self.source)

    def close(self) -> None:
        self.source.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "source":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.source, name)


class Selection(WrappedSource):
    """Scans `numbers` of another source, as `source[10:20]` gives them, with their truth and objects."""

    def __init__(self, source: Source, numbers: range, T_vehicle_sensor: Pose | None = None) -> None:
        super().__init__(source)
        self._T_vehicle_sensor, self.numbers = T_vehicle_sensor, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Scan:
        return self._mounted(self.source[self.numbers[index]])

    def __iter__(self) -> Iterator[Scan]:
        if self.numbers == range(len(self.numbers)):  # from the start: bags and captures are fastest read in order
            yield from map(self._mounted, islice(self.source, len(self)))
        else:
            yield from super().__iter__()

    def __getattr__(self, name: str) -> Any:
        if name not in _PER_SCAN:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        of_scan = getattr(self.source, name)
        return lambda index: of_scan(self.numbers[index])

    def _mounted(self, scan: Scan) -> Scan:
        if self._T_vehicle_sensor is None:
            return scan
        if scan.mounts:
            raise InputError(f"{self.location}: mounting: found a rig of {len(scan.mounts)} sensors, expected one")
        return replace(scan, T_vehicle_sensor=self._T_vehicle_sensor)


def part_of(
    source: Source,
    start: int = 0,
    stride: int = 1,
    count: int | None = None,
    T_vehicle_sensor: Pose | None = None,
) -> Selection:
    """Every `stride`-th scan from `start` on, at most `count`; an empty selection is an error."""
    if is_live(source):
        raise InputError(f"{source.location}: a part of it: found a live source, expected a recording")
    length = len(source)
    numbers = range(start, length, stride)[:count]
    if not numbers:
        raise InputError(f"{source.location}: start {start}: found {length} scans, expected more than {start}")
    return Selection(source, numbers, T_vehicle_sensor)


def is_live(source: Any) -> bool:
    """Whether the number of scans is unknown: a sensor or a generator."""
    try:
        len(source)
    except (TypeError, NotImplementedError):
        return True
    return False


def close_source(source: Any) -> None:
    """Close a source or any iterable with a `close` method, so that a thread waiting for a scan ends."""
    close = getattr(source, "close", None)
    if callable(close):
        with suppress(Exception):
            close()


class InOrder(Generic[T]):
    """Access by index to what `begin()` yields, such as scans from packets, which are decoded from the start.

    Reading in order is cheap, going back starts over.
    """

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
