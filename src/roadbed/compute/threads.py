# SPDX-License-Identifier: Apache-2.0
"""A plain kernel on all cores: ranges of its work go to a few threads, which do not hold each other up in Python.

Numba's `prange` does the same with threads of C, and compiles the body of such a loop several times. Here a call costs
some tens of microseconds more, so it is for loops of a millisecond.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba

_SHARES = 4  # ranges per thread: one that is held up leaves some to the others
_helpers: ThreadPoolExecutor | None = None
_starting = threading.Lock()


def spread(kernel: Callable[..., None], count: int, *arguments: Any, grain: int = 1) -> None:
    """`kernel(first, last, *arguments)` for ranges that together are `range(count)`, each of `grain` or more.

    `numba.get_num_threads()` threads work at a time, this one among them. The kernel is compiled with `nogil`, and what
    it computes must not depend on where ranges begin and end.
    """
    threads = min(numba.get_num_threads(), -(-count // grain))
    if threads <= 1:
        if count > 0:
            kernel(0, count, *arguments)
        return
    size = max(grain, -(-count // (_SHARES * threads)))
    beginnings = iter(range(0, count, size))  # each is given to one thread

    def work() -> None:
        for first in beginnings:
            kernel(first, min(first + size, count), *arguments)

    if not getattr(kernel, "signatures", True):  # compiled where it is called, not by a helper
        first = next(beginnings)
        kernel(first, min(first + size, count), *arguments)
    helpers = [_pool().submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        # A helper that has not begun, being busy elsewhere, is not waited for: nothing is left to do.
        failures = [helper.exception() for helper in helpers if not helper.cancel()]
    for failure in failures:
        if failure is not None:
            raise failure


def _pool() -> ThreadPoolExecutor:
    global _helpers
    with _starting:
        if _helpers is None:
            _helpers = ThreadPoolExecutor(max(2, os.cpu_count() or 1) - 1, "roadbed")
        return _helpers


def _forget() -> None:
    """A pool's threads do not survive a fork: the child starts its own."""
    global _helpers, _starting
    _helpers, _starting = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
