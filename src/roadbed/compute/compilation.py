# SPDX-License-Identifier: Apache-2.0
"""Says so, once, when kernels are about to be compiled: it takes a while on first use and never again."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

_announced = False


def announce(kernels: Iterable[Any]) -> None:
    """One line on the screen if any of the kernels is neither compiled in this process nor cached on disk."""
    global _announced
    if not _announced and any(_is_missing(kernel) for kernel in kernels):
        _announced = True
        print("roadbed: compiling for this machine, once; the next start is fast", file=sys.stderr, flush=True)


def _is_missing(kernel: Any) -> bool:
    if kernel.signatures:
        return False
    try:
        return not kernel._cache._cache_file._load_index()
    except (AttributeError, OSError):  # another Numba, or no cache: say nothing rather than something wrong
        return False
