# SPDX-License-Identifier: Apache-2.0
"""Says what is compiled and how much is left: it takes a while on first use and never again."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from numba.core import event

from roadbed.kernels import cache as kernel_cache
from roadbed.kernels.cache import KernelCache
from roadbed.kernels.fingerprint import called_by

_LOG = logging.getLogger("roadbed.compilation")
_PAUSE = 4.0  # s between two lines on the screen


@dataclass(frozen=True)
class Compilation:
    """The state of the compiling when a kernel begins, and once more with `done == total` when all are ready."""

    stage: str  # ground, occupancy, simulate, ...
    kernel: str
    done: int
    total: int  # kernels that this process is expected to compile
    seconds_left: float | None  # a guess; None before the first is done

    def __str__(self) -> str:
        left = "" if self.seconds_left is None else f", about {max(1, round(self.seconds_left))} s left"
        return f"{self.stage}: {self.kernel}, {self.done + 1} of {self.total}{left}"


Watcher = Callable[[Compilation], None]


class _Screen:
    """Lines on standard error, a few seconds apart: they stay readable in logs and above progress bars."""

    def __init__(self) -> None:
        self._next = 0.0
        self._begun: float | None = None

    def __call__(self, step: Compilation) -> None:
        now = time.monotonic()
        if step.done == step.total:
            if self._begun is not None and now - self._begun > _PAUSE:
                _print(f"compiled {step.total} kernels in {now - self._begun:.0f} s; the next start is fast")
            self._begun = None
        elif self._begun is None or now >= self._next:
            _print(f"compiling {'' if self._begun else 'for this machine, once: '}{step}")
            self._begun = self._begun or now
            self._next = now + _PAUSE


def _print(line: str) -> None:
    print(f"roadbed: {line}", file=sys.stderr, flush=True)


class _Plan:
    """Kernels that are expected to be compiled, here or in processes started for it. One for the process."""

    def __init__(self) -> None:
        self.kernels: list[Any] = []
        self.watcher: Watcher | None = _Screen()
        self._waiting: dict[Any, float] = {}  # expected cost
        self._done, self._done_cost, self._begun = 0, 0.0, 0.0
        self._lock = threading.RLock()

    def expect(self, kernels: Iterable[Any]) -> None:
        with self._lock:
            self._waiting |= {kernel: _cost(kernel) for kernel in kernels if kernel not in self._waiting}

    def begin(self, kernel: Any) -> None:
        with self._lock:
            now = time.monotonic()
            if not self._done_cost:
                self._begun = self._begun or now
            self._waiting.setdefault(kernel, _cost(kernel))
            left = None
            if self._done_cost:
                left = (now - self._begun) / self._done_cost * sum(self._waiting.values())
            total = self._done + len(self._waiting)
            step = Compilation(stage_of(kernel), kernel.py_func.__name__, self._done, total, left)
            _LOG.info("compiling %s", step)
            if self.watcher is not None:
                self.watcher(step)

    def end(self, kernel: Any) -> None:
        with self._lock:
            self._done += 1
            self._done_cost += self._waiting.pop(kernel, 0.0)
            if not self._waiting:
                self._finish()

    def leave(self, stage: str) -> None:
        """A stage is through: what is still expected of it was not needed."""
        if not self._waiting:
            return
        with self._lock:
            self._waiting = {kernel: cost for kernel, cost in self._waiting.items() if stage_of(kernel) != stage}
            if not self._waiting:
                self._finish()

    def _finish(self) -> None:
        done, self._done, self._done_cost, self._begun = self._done, 0, 0.0, 0.0
        if done and self.watcher is not None:
            self.watcher(Compilation("", "", done, done, 0.0))


class _Listener(event.Listener):
    """Numba tells when a function is compiled; the ones that it calls are compiled meanwhile, and count with it."""

    def __init__(self) -> None:
        self._depth = 0  # Numba compiles one function at a time

    def on_start(self, event: Any) -> None:
        if _is_ours(event.data["dispatcher"]):
            self._depth += 1
            if self._depth == 1:
                _plan.begin(event.data["dispatcher"])

    def on_end(self, event: Any) -> None:
        if _is_ours(event.data["dispatcher"]):
            self._depth -= 1
            if self._depth == 0:
                _plan.end(event.data["dispatcher"])


_plan = _Plan()
event.register("numba:compile", _Listener())


def watch(watcher: Watcher | None) -> Watcher | None:
    """From now on tell `watcher` what is compiled instead of the screen; None: nobody. Returns the one before."""
    before, _plan.watcher = _plan.watcher, watcher
    return before


def enrol(kernel: Any) -> None:
    """Every kernel of the package is known by the time something is announced."""
    _plan.kernels.append(kernel)


def announce(kernels: Iterable[Any]) -> None:
    """These kernels and those beside them in their packages are about to be used: what is missing is counted."""
    packages = {".".join(kernel.py_func.__module__.split(".")[:-2]) for kernel in kernels}
    _plan.expect(missing(entrances(packages)))


def ready(stage: str) -> None:
    """A stage gave its first result: what was not needed for it is not waited for."""
    _plan.leave(stage)


def elsewhere(kernels: Iterable[Any]) -> tuple[Callable[[str], None], Callable[[str], None]]:
    """These kernels are compiled by other processes; returns what to call with a kernel's name at its begin and end."""
    named = {name_of(kernel): kernel for kernel in kernels}
    _plan.expect(named.values())

    def tell(act: Callable[[Any], None]) -> Callable[[str], None]:
        return lambda name: act(named[name]) if name in named else None

    return tell(_plan.begin), tell(_plan.end)


def name_of(kernel: Any) -> str:
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"


def entrances(packages: Iterable[str]) -> list[Any]:
    """The kernels of these packages that no other kernel calls: Python calls them."""
    inner = {id(called) for kernel in _plan.kernels for called in called_by(kernel)}
    wanted = tuple(f"{package}." for package in packages)
    return [
        kernel for kernel in _plan.kernels if id(kernel) not in inner and kernel.py_func.__module__.startswith(wanted)
    ]


def missing(kernels: Iterable[Any]) -> list[Any]:
    """Those that are neither compiled in this process nor kept on disk."""
    kept = kernel_cache.kept()
    return [
        kernel
        for kernel in kernels
        if not kernel.signatures and isinstance(kernel._cache, KernelCache) and kernel._cache.prefix not in kept
    ]


def stage_of(kernel: Any) -> str:
    """The part of the package that a kernel belongs to."""
    return kernel.py_func.__module__.split(".")[1]


def _is_ours(kernel: Any) -> bool:
    return (kernel.py_func.__module__ or "").startswith("roadbed.")


def _cost(kernel: Any) -> int:
    """How long a kernel may take to compile, in a unit of its own: by the length of all its code."""
    seen: dict[int, Any] = {}
    waiting = [kernel]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            waiting += called_by(one)
    return sum(len(one.py_func.__code__.co_code) for one in seen.values())
