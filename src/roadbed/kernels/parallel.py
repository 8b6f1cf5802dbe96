# SPDX-License-Identifier: Apache-2.0
"""A plain kernel on all cores: ranges or parts of its work go to a few threads, which Python only wakes.

Numba's `prange` does the same with threads of C, and compiles the body of such a loop several times. Here a call costs
some tens of microseconds more; where loops are shorter than that, several of them become the phases of one kernel.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numba

from roadbed.kernels.tasks import ABANDONED, new_task_counters

_SHARES = 4  # ranges per thread: one that is held up leaves some to the others


def parallel_for(kernel: Callable[..., None], count: int, *arguments: Any, grain: int = 1) -> None:
    """`kernel(first, last, *arguments)` for ranges that together are `range(count)`, each of `grain` or more.

    `numba.get_num_threads()` threads work at a time, this one among them. The kernel is compiled with `nogil`, and what
    it computes must not depend on where ranges begin and end.
    """
    threads = 1 if _at_once.under_way else -(-count // grain)
    if threads > 1:
        threads = min(numba.get_num_threads(), threads)  # which takes Numba microseconds to say
    if threads <= 1:
        if count > 0:
            kernel(0, count, *arguments)
        return
    size = max(grain, -(-count // (_SHARES * threads)))
    beginnings = iter(range(0, count, size))  # each is given to one thread

    def work() -> None:
        for first in beginnings:
            kernel(first, min(first + size, count), *arguments)

    if _is_first_call(kernel):
        first = next(beginnings)
        kernel(first, min(first + size, count), *arguments)
    _in_threads(work, threads)


def parallel_region(kernel: Callable[..., None], phases: int, *arguments: Any, alone: bool = False) -> None:
    """`kernel(tasks, *arguments)` in all threads at once, which share out the parts of its phases: see `tasks`.

    The kernel is compiled with `nogil`, and what it computes must not depend on who does a part. `alone`: in this
    thread only, where to wake another would take longer than what it could take over.
    """
    tasks = new_task_counters(phases)
    if alone:
        kernel(tasks, *arguments)
        return

    def work() -> None:
        try:
            kernel(tasks, *arguments)
        except BaseException:
            tasks[0, ABANDONED] = 1  # nobody is to wait for the part that failed
            raise

    _in_threads(work, 1 if _is_first_call(kernel) else numba.get_num_threads())


def parallel_invoke(calls: Sequence[Callable[[], None]]) -> None:
    """All of these calls, which must not depend on each other; several at a time do not spread their kernels."""
    threads = min(numba.get_num_threads(), len(calls))
    waiting = iter(calls)  # each is given to one thread

    def work() -> None:
        _at_once.under_way = threads > 1
        try:
            for call in waiting:
                call()
        finally:
            _at_once.under_way = False

    _in_threads(work, threads)


class _AtOnce(threading.local):
    under_way = False  # in this thread


_at_once = _AtOnce()
_called: set[Any] = set()  # kernels that were called before


def _is_first_call(kernel: Any) -> bool:
    """Whether the kernel may have to be compiled, which is left to the calling thread."""
    if kernel in _called or not hasattr(kernel, "py_func"):  # a plain function
        return False
    _called.add(kernel)
    return True


class _Errand:
    """Work for a helper, who may be busy elsewhere: then it is taken back, because nothing is left to do."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._failure: BaseException | None = None
        self._begun, self._under_way = threading.Lock(), threading.Lock()
        self._under_way.acquire()

    def run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._work()
        except BaseException as failure:
            self._failure = failure
        finally:
            self._under_way.release()

    def settle(self) -> BaseException | None:
        """It is done, or never will be; what went wrong."""
        if not self._begun.acquire(blocking=False):
            self._under_way.acquire()
        return self._failure


def _in_threads(work: Callable[[], None], threads: int) -> None:
    """`work()` in this thread and in helpers, `threads` together; what fails is raised here."""
    errands = [_Errand(work) for _ in range(threads - 1)]
    for errand in errands:
        _helpers.order(errand)
    try:
        work()
    finally:
        failures = [errand.settle() for errand in errands]
    for failure in failures:
        if failure is not None:
            raise failure


class _Helpers:
    """Threads that wait for errands. A queue of C alone: an executor takes twice as long to wake one."""

    def __init__(self) -> None:
        self._errands: SimpleQueue[_Errand] = SimpleQueue()
        self._starting, self._started = threading.Lock(), False

    def order(self, errand: _Errand) -> None:
        if not self._started:
            self._start()
        self._errands.put(errand)

    def _start(self) -> None:
        with self._starting:
            for number in range(0 if self._started else max(2, os.cpu_count() or 1) - 1):
                threading.Thread(target=self._serve, name=f"roadbed_{number}", daemon=True).start()
            self._started = True

    def _serve(self) -> None:
        while True:
            self._errands.get().run()


_helpers = _Helpers()


def _forget() -> None:
    """Threads do not survive a fork: the child starts its own."""
    global _helpers
    _helpers = _Helpers()


os.register_at_fork(after_in_child=_forget)
