# SPDX-License-Identifier: Apache-2.0
"""Scans by number, from a recording or from a source that is still running."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from time import monotonic
from typing import Any

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.sources.source import close_source, is_live

_LAST_WORD_S = 1.0  # a closed source may take this long to end


class RecordedScans:
    """A source with a length. The last scans are cached, so that tuning reads no file again."""

    live = False

    def __init__(self, source: Any, keep: int = 24) -> None:
        self.sequential = bool(getattr(source, "sequential", True))
        self._length = len(source)
        if not self._length:
            raise InputError(f"{getattr(source, 'location', 'source')}: expected at least one scan, found none")
        self.get = lru_cache(maxsize=keep)(source.__getitem__)

    def bounds(self) -> tuple[int, int]:
        """First and last available number."""
        return 0, self._length - 1

    def close(self) -> None:
        self.get.cache_clear()


class LiveScans:
    """A live source, read by a thread; the newest scans are kept."""

    live = True

    def __init__(self, source: Iterable[Scan], arrived: Callable[[], None], keep: int = 60) -> None:
        self.sequential = bool(getattr(source, "sequential", True))
        self._source, self._arrived, self._keep = source, arrived, keep
        self._scans: OrderedDict[int, tuple[Scan, float]] = OrderedDict()  # with its time of arrival
        self._shown, self._last_shown = 0, -1
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._read, name="roadbed-live-source", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for index, scan in enumerate(self._source):
                if self._closed.is_set():
                    return
                with self._lock:
                    self._scans[index] = scan, monotonic()
                    while len(self._scans) > self._keep:
                        self._scans.popitem(last=False)
                self._arrived()
        except Exception as error:  # shown in the page by the player
            self._failure = error
            self._arrived()

    def bounds(self) -> tuple[int, int]:
        """First and last number that is kept; last < first if there is none yet."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        with self._lock:
            return (next(iter(self._scans)), next(reversed(self._scans))) if self._scans else (0, -1)

    def get(self, index: int) -> Scan:
        with self._lock:
            if index not in self._scans:
                raise InputError(f"live scan {index}: no longer kept, only the newest {self._keep} are")
            return self._scans[index][0]

    def rate_text(self, index: int) -> str:
        """Rate of the source, latency of scan `index`, and number of skipped scans, as text."""
        with self._lock:
            self._shown += index > self._last_shown
            self._last_shown = max(index, self._last_shown)
            first, last = next(iter(self._scans)), next(reversed(self._scans))
            seconds = self._scans[last][1] - self._scans[first][1]
            rate = (last - first) / seconds if seconds > 0 else 0.0
            behind = monotonic() - self._scans[index][1] if index in self._scans else float("nan")
            skipped = self._last_shown + 1 - self._shown
        return f"live: {rate:.1f} Hz, latency {1e3 * behind:.0f} ms, {skipped} of {last + 1} scans skipped"

    def close(self) -> None:
        """Close the source and end the thread."""
        self._closed.set()
        close_source(self._source)
        self._thread.join(timeout=_LAST_WORD_S)


Scans = RecordedScans | LiveScans


def scans_of(source: Any, arrived: Callable[[], None]) -> Scans:
    """Recorded where the source has a length, else live."""
    return LiveScans(source, arrived) if is_live(source) else RecordedScans(source)
