# SPDX-License-Identifier: Apache-2.0
"""The CPU as a backend, and the check that its kernels do not run in a forked process."""

import os
import platform

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.core.errors import DeviceError
from roadbed.runtime.backend import Shape
from roadbed.runtime.device import Device

_used_in: int | None = None  # the process that ran CPU kernels first


class CpuBackend:
    """Stages run their Numba kernels on the CPU; nothing is uploaded."""

    error_types: tuple[type[Exception], ...] = ()

    def __init__(self) -> None:
        import numba

        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        driver = f"Numba {numba.__version__}"
        name = f"{platform.machine()}, {numba.get_num_threads()} threads"
        self.device = Device("cpu", 0, name, "cpu", pages, numba.get_num_threads(), driver, True)

    def host_array(self, shape: Shape, dtype: DTypeLike) -> NDArray:
        """An array, not cleared."""
        return np.empty(shape, dtype)


def refuse_after_fork() -> None:
    """Called before every use of CPU kernels: the threads that they run on do not exist in a child of `fork`."""
    global _used_in
    if _used_in is not None and _used_in != os.getpid():
        raise DeviceError(
            "this process was forked from one that already ran Roadbed, whose threads do not survive a fork: "
            "start workers with multiprocessing.get_context('spawn')"
        )
    _used_in = os.getpid()
