# SPDX-License-Identifier: Apache-2.0
"""Reports which kernels Numba compiles and how many are left. Only the first use of a kernel on a machine compiles."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from numba.core import event

from roadbed.core.memory import uncollected
from roadbed.kernels.cache import is_cached

_LOG = logging.getLogger("roadbed.compilation")
_COMPILE, _LOCK = "numba:compile", "numba:compiler_lock"
_INTERVAL = 4.0  # s between two lines on the screen
_files: dict[str, str] = {}  # source file of every kernel that Python calls, by its full name
_cached: set[str] = set()  # kernels that were found in Numba's cache: each look at it takes 0.1 ms


@dataclass(frozen=True)
class Compilation:
    """The state when a kernel begins to compile, and once more with `done == total` when all are compiled."""

    stage: str  # ground, occupancy, simulate, ...
    kernel: str
    done: int
    total: int  # kernels that this process is expected to compile
    seconds_left: float | None  # estimate; None before a fifth of the kernels is done: the first say little

    def __str__(self) -> str:
        left = "" if self.seconds_left is None else f", about {max(1, round(self.seconds_left))} s left"
        return f"{self.stage}: {self.kernel}, {self.done + 1} of {self.total}{left}"


Watcher = Callable[[Compilation], None]


class _Screen:
    """Prints lines to standard error, a few seconds apart: readable in logs and above progress bars."""

    def __init__(self) -> None:
        self._next = 0.0
        self._begun: float | None = None

    def __call__(self, step: Compilation) -> None:
        now = time.monotonic()
        if step.done == step.total:
            if self._begun is not None and now - self._begun > _INTERVAL:
                _print(f"compiled {step.total} kernels in {now - self._begun:.0f} s; the next start is fast")
            self._begun = None
        elif self._begun is None or now >= self._next:
            _print(f"compiling {'' if self._begun else 'for this machine, once: '}{step}")
            self._begun = self._begun or now
            self._next = now + _INTERVAL


def _print(line: str) -> None:
    print(f"roadbed: {line}", file=sys.stderr, flush=True)


class _Progress:
    """Kernels that this process, or processes it started, are expected to compile. There is one per process."""

    def __init__(self) -> None:
        self.watcher: Watcher | None = _Screen()
        self._expected: set[str] = set()
        self._done, self._begun = 0, 0.0
        self._lock = threading.RLock()

    def expect(self, names: Iterable[str]) -> None:
        with self._lock:
            self._expected.update(names)

    def begin(self, name: str) -> None:
        with self._lock:
            now = time.monotonic()
            self._begun = self._begun or now
            self._expected.add(name)
            total = self._done + len(self._expected)
            told = 5 * self._done >= total
            left = (now - self._begun) / self._done * len(self._expected) if told else None
            step = Compilation(stage_of(name), name.rpartition(".")[2], self._done, total, left)
            _LOG.info("compiling %s", step)
            if self.watcher is not None:
                self.watcher(step)

    def end(self, name: str) -> None:
        with self._lock:
            self._done += 1
            self._expected.discard(name)
            self._finish()

    def leave(self, stage: str) -> None:
        with self._lock:
            self._expected = {name for name in self._expected if stage_of(name) != stage}
            self._finish()

    def _finish(self) -> None:
        if self._expected or not self._done:
            return
        done, self._done, self._begun = self._done, 0, 0.0
        if self.watcher is not None:
            self.watcher(Compilation("", "", done, done, 0.0))


class KernelListener(event.Listener):
    """Calls `begin` and `end` with the name of each kernel that Python calls; the functions it calls count with it."""

    def __init__(self, begin: Callable[[str], None], end: Callable[[str], None]) -> None:
        self._begin, self._end = begin, end

    def on_start(self, event: Any) -> None:
        self._report(event, self._begin)

    def on_end(self, event: Any) -> None:
        self._report(event, self._end)

    def _report(self, event: Any, act: Callable[[str], None]) -> None:
        name = _name_of(event.data["dispatcher"].py_func)
        if name in _files:
            act(name)


class _Loading(event.Listener):
    """Garbage collection waits while a thread loads kernels, and goes on where one is compiled: that makes garbage."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def on_start(self, event: Any) -> None:
        mine = vars(self._of_thread)
        if event.kind == _COMPILE:
            mine.get("waits", ExitStack()).close()
            return
        mine["depth"] = mine.get("depth", 0) + 1
        if mine["depth"] == 1:
            mine["waits"] = ExitStack()
            mine["waits"].enter_context(uncollected())

    def on_end(self, event: Any) -> None:
        mine = vars(self._of_thread)
        if event.kind == _LOCK:
            mine["depth"] -= 1
            if not mine["depth"]:
                mine["waits"].close()


_progress = _Progress()
event.register(_COMPILE, KernelListener(_progress.begin, _progress.end))
_loading = _Loading()
event.register(_COMPILE, _loading)
event.register(_LOCK, _loading)  # Numba holds it where it loads or compiles a kernel


def watch(watcher: Watcher | None) -> Watcher | None:
    """Report compilations to `watcher` instead of the screen; None: no report. Returns the previous watcher."""
    before, _progress.watcher = _progress.watcher, watcher
    return before


def register(function: Any) -> None:
    """Register a kernel that Python calls."""
    _files[_name_of(function)] = function.__code__.co_filename


def announce(*packages: str) -> None:
    """Count the kernels of these packages that are not cached as expected: they are about to be used."""
    _progress.expect(missing(kernels_of(packages)))


def ready(stage: str) -> None:
    """Expect no further kernels of a stage: it has given its first result."""
    _progress.leave(stage)


def expect_elsewhere(names: Iterable[str]) -> tuple[Callable[[str], None], Callable[[str], None]]:
    """Expect kernels that other processes compile. Returns the callbacks for the begin and the end of one, by name."""
    _progress.expect(names)
    return _progress.begin, _progress.end


def kernels_of(packages: Iterable[str]) -> list[str]:
    """Names of the kernels in the imported modules of these packages."""
    prefixes = tuple(f"{package}." for package in packages)
    return [name for name in _files if name.startswith(prefixes)]


def missing(names: Iterable[str]) -> list[str]:
    """The kernels that Numba's cache does not hold for any argument types."""
    waiting = [name for name in names if name not in _cached]
    _cached.update(name for name in waiting if is_cached(_files[name], name.rpartition(".")[2]))
    return [name for name in waiting if name not in _cached]


def stage_of(name: str) -> str:
    """The part of the package that a kernel belongs to."""
    return name.split(".")[1]


def _name_of(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"
