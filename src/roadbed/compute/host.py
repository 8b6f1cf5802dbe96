# SPDX-License-Identifier: Apache-2.0
"""The host's own cores as a backend, and what its parallel kernels may not do: run in two threads, or after a fork."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.compute.backend import Device
from roadbed.errors import DeviceError

# Read when the thread pool starts: waiting threads sleep instead of spinning, or a busy machine slows down tenfold.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# They spin for some microseconds first: iterations follow each other faster than a thread falls asleep and wakes.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

_turn = threading.RLock()
_used_in: int | None = None  # process in which the thread pool was started


class Host:
    """The CPU: stages run their Numba kernels on it, and nothing is uploaded."""

    failures: tuple[type[Exception], ...] = ()

    def __init__(self) -> None:
        import numba

        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        driver = f"Numba {numba.__version__}"
        name = f"{platform.machine()}, {numba.get_num_threads()} threads"
        self.device = Device("cpu", 0, name, "cpu", pages, numba.get_num_threads(), driver, True)

    def host(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray:
        """An array, not cleared."""
        return np.empty(shape, dtype)


@contextmanager
def parallel_kernels() -> Iterator[None]:
    """Around every use of the host's kernels.

    Numba's workqueue layer aborts the process when two threads enter it: there calls take turns, until another layer is
    known to be in use. In a child of `fork` the pool's threads are gone: an error instead of a dead or hanging child.
    """
    global _used_in
    if _used_in is not None and _used_in != os.getpid():
        raise DeviceError(
            "this process was forked from one that already ran Roadbed, whose threads do not survive a fork: "
            "start workers with multiprocessing.get_context('spawn')"
        )
    _used_in = os.getpid()
    if _layer_takes_many_threads():
        yield
    else:
        with _turn:
            yield


def _layer_takes_many_threads() -> bool:
    import numba

    try:
        return numba.threading_layer() != "workqueue"
    except ValueError:  # not started yet
        return False
