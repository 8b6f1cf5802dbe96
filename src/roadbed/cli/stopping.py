# SPDX-License-Identifier: Apache-2.0
"""Commands that run until somebody stops them: Ctrl+C and SIGTERM end them in order, a second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """An event that the first signal sets; the handlers that were there before come back at the end."""
    stopped = threading.Event()

    def stop(number: int, _: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
