# SPDX-License-Identifier: Apache-2.0
"""A sensor's scans into a bag while something else uses them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.outputs.bag import BagWriter, is_bag_name
from roadbed.sources.source import is_live


class Recorder:
    """A live source whose scans are written as they pass. A context manager: at its end the bag is in its place."""

    def __init__(self, source: Any, path: Path, *, force: bool = False) -> None:
        if not is_bag_name(path):
            raise InputError(f"{path}: expected a name that ends with .mcap or .bag to record to")
        if not is_live(source):
            raise InputError(f"{source.location}: recording: found a recording, expected a live source")
        self._source, self._bag = source, BagWriter(path, force=force)
        self._lock, self._ended = threading.Lock(), False
        self.sequential, self.location = source.sequential, source.location
        self.count = 0

    def __iter__(self) -> Iterator[Scan]:
        for scan in self._source:
            with self._lock:
                if self._ended:
                    return
                self._bag.add_scan(scan)
                self.count += 1
            yield scan

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *raised: Any) -> None:
        """What has come is kept whatever ended it; a bag of nothing is not written."""
        with self._lock:
            self._ended = True
            try:
                if self.count:
                    self._bag.finish()
            finally:
                self._bag.__exit__(*raised)
