# SPDX-License-Identifier: Apache-2.0
"""Runs an ordinary `nogil` kernel on all cores, in a pool of Python threads.

Numba's `prange` uses its own threads, but compiles the loop body several times. A call here costs some tens of
microseconds more, so short loops are combined into one kernel with several phases (`tasks`).
"""

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

import numba

from roadbed.kernels.tasks import ABANDONED, new_task_counters

most_threads = 4  # with more, kernels of a millisecond wait for each other: an occupancy step on 16 cores takes longer
T = TypeVar("T")
_SHARES = 4  # ranges per thread, so that other threads can take over the ranges of a slow one


def thread_count() -> int:
    """Threads that share a kernel: `numba.get_num_threads()`, at most `most_threads`."""
    return min(numba.get_num_threads(), most_threads)


def parallel_for(kernel: Callable[..., None], count: int, *arguments: Any, grain: int = 1) -> None:
    """Call `kernel(first, last, *arguments)` for ranges of at least `grain` that cover `range(count)`.

    It uses `thread_count()` threads, the calling one included. The kernel is compiled with `nogil`, and its
    result must not depend on where ranges begin and end.
    """
    threads = 1 if _in_invoke.active else -(-count // grain)
    if threads > 1:
        threads = min(thread_count(), threads)  # only here: the call takes microseconds
    if threads <= 1:
        if count > 0:
            kernel(0, count, *arguments)
        return
    size = max(grain, -(-count // (_SHARES * threads)))
    starts = iter(range(0, count, size))  # shared by the threads

    def work() -> None:
        for first in starts:
            kernel(first, min(first + size, count), *arguments)

    if _is_first_call(kernel):
        first = next(starts)
        kernel(first, min(first + size, count), *arguments)
    _in_threads(work, threads)


def parallel_region(kernel: Callable[..., None], phases: int, *arguments: Any, single_thread: bool = False) -> None:
    """Call `kernel(tasks, *arguments)` in all threads, which share the chunks of its phases (`tasks`).

    The kernel is compiled with `nogil`, and its result must not depend on which thread does a chunk. `single_thread`:
    use the calling thread only, for work so short that waking another thread takes longer.
    """
    tasks = new_task_counters(phases)
    if single_thread:
        kernel(tasks, *arguments)
        return

    def work() -> None:
        try:
            kernel(tasks, *arguments)
        except BaseException:
            tasks[0, ABANDONED] = 1  # other threads do not wait for the failed chunk
            raise

    _in_threads(work, 1 if _is_first_call(kernel) else thread_count())


def parallel_invoke(calls: Sequence[Callable[[], None]]) -> None:
    """Run independent calls in several threads; a `parallel_for` inside of them then uses one thread."""
    threads = min(thread_count(), len(calls))
    waiting = iter(calls)  # shared by the threads

    def work() -> None:
        _in_invoke.active = threads > 1
        try:
            for call in waiting:
                call()
        finally:
            _in_invoke.active = False

    _in_threads(work, threads)


def parallel_begin(call: Callable[..., T], *arguments: Any) -> Callable[[], T]:
    """Begin a call in another thread; the result waits for it, or makes the call where no thread was free for it."""
    found: list[T] = []
    job = _Job(lambda: found.append(call(*arguments)))
    if thread_count() > 1 and not _in_invoke.active:
        _pool.submit(job)

    def result() -> T:
        job.run()
        failure = job.finish()
        if failure is not None:
            raise failure
        return found[0]

    return result


class _InInvoke(threading.local):
    active = False  # this thread runs a call of `parallel_invoke`


_in_invoke = _InInvoke()
_called: set[Any] = set()  # kernels that were called before


def _is_first_call(kernel: Any) -> bool:
    """Whether the kernel may have to be compiled, which only the calling thread does."""
    if kernel in _called or not hasattr(kernel, "py_func"):  # a plain function
        return False
    _called.add(kernel)
    return True


class _Job:
    """Work for a pool thread. `finish` cancels it if no thread has begun it: then other threads have done all work."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work  # until it is done: it may hold a filter that is closed next
        self._failure: BaseException | None = None
        self._begun, self._running = threading.Lock(), threading.Lock()
        self._running.acquire()

    def run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        work, self._work = self._work, None
        try:
            if work:
                work()
        except BaseException as failure:
            self._failure = failure
        finally:
            del work
            self._running.release()

    def finish(self) -> BaseException | None:
        """Wait for the job, or cancel it; returns the exception it raised."""
        if not self._begun.acquire(blocking=False):
            self._running.acquire()
        self._work = None
        return self._failure


def _in_threads(work: Callable[[], None], threads: int) -> None:
    """Call `work` in this thread and in `threads - 1` pool threads; exceptions are raised here."""
    jobs = [_Job(work) for _ in range(threads - 1)]
    for job in jobs:
        _pool.submit(job)
    try:
        work()
    finally:
        failures = [job.finish() for job in jobs]
    for failure in failures:
        if failure is not None:
            raise failure


class _Pool:
    """Threads that wait for jobs. `ThreadPoolExecutor` takes twice as long to wake a thread as a `SimpleQueue`."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._starting, self._started = threading.Lock(), False

    def submit(self, job: _Job) -> None:
        if not self._started:
            self._start()
        self._jobs.put(job)

    def _start(self) -> None:
        with self._starting:
            for number in range(0 if self._started else max(2, os.cpu_count() or 1) - 1):
                threading.Thread(target=self._serve, name=f"roadbed_{number}", daemon=True).start()
            self._started = True

    def _serve(self) -> None:
        while True:
            self._jobs.get().run()


_pool = _Pool()


def _new_pool() -> None:
    """Threads do not survive a fork: the child process starts its own."""
    global _pool
    _pool = _Pool()


os.register_at_fork(after_in_child=_new_pool)
