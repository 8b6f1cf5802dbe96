# SPDX-License-Identifier: Apache-2.0
"""Free memory, an error for sizes that do not fit into it, and loading without garbage collection."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

from roadbed.core.errors import ConfigError


def available_bytes() -> int | None:
    """Free memory of this machine, None where it is not known."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def check_memory(what: str, needed: int) -> None:
    """Raise with the size `what` needs (bytes) when it is larger than the free memory."""
    free = available_bytes()
    if free is not None and needed > free:
        raise ConfigError(f"{what} needs {needed / 2**30:.1f} GiB, found {free / 2**30:.1f} GiB free")


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection while modules and kernels are loaded; after it all objects count as old ones.

    They live as long as the process, and tracing them in each generation would delay its first result by a tenth.
    """
    if not gc.isenabled() or gc.get_freeze_count():  # the caller has decided on collection, or another thread loads
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # into the oldest generation
        gc.enable()
