# SPDX-License-Identifier: Apache-2.0
"""Feeds a source into a stream: a sensor as it sends, a recording at its own rate."""

import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from roadbed.core.errors import RoadbedError
from roadbed.core.frames import Scan
from roadbed.live.stream import Stream
from roadbed.sources.source import close_source, is_live

_LONGEST_PAUSE_S = 2.0  # between two scans of a recording that is played


class Feeder:
    """Pushes the scans of `source` from a thread of its own until it ends or `close` is called."""

    def __init__(
        self, source: Any, stream: Stream, pace: float | None = 1.0, change: Callable[[Scan], Scan] | None = None
    ) -> None:
        """`pace` 2 plays a recording at twice its speed, None as fast as it is read; sensors ignore it."""
        self._source, self._stream, self._change = source, stream, change
        self._pace = None if is_live(source) else pace
        self._closed, self.ended = threading.Event(), threading.Event()
        self.failure: RoadbedError | None = None
        self._thread = threading.Thread(target=self._feed, name="roadbed-feeder", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        close_source(self._source)
        self._thread.join()

    def _feed(self) -> None:
        try:
            for scan in self._paced(self._source):
                if self._closed.is_set():
                    return
                self._stream.push(scan if self._change is None else self._change(scan))
        except RoadbedError as error:
            if not self._closed.is_set():
                self.failure = error
        finally:
            self.ended.set()

    def _paced(self, source: Iterable[Scan]) -> Iterable[Scan]:
        due, before = monotonic(), None
        for scan in source:
            if self._pace is not None and scan.time is not None and before is not None:
                due += min(max(scan.time - before, 0.0), _LONGEST_PAUSE_S) / self._pace
                if self._closed.wait(max(due - monotonic(), 0.0)):
                    return
            before = scan.time
            yield scan
