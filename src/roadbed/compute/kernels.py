# SPDX-License-Identifier: Apache-2.0
"""`njit` as every kernel of the CPU is decorated: numba's, with a cache that knows a kernel by all it is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.dispatcher import Dispatcher

import roadbed.compute.host  # noqa: F401  (settles how threads wait before the first of them starts)
from roadbed.compute import compilation
from roadbed.compute.kernel_cache import KernelCache
from roadbed.compute.lean import PRANGE_ONLY, LeanCompiler

_njit: Any = numba.njit  # kernels are typed by Numba, not by annotations
prange: Any = numba.prange


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable], Any]:
    """`numba.njit` with these options; with `cache` compiled code is kept in `kernel_cache.folder()`."""

    def decorate(function: Callable) -> Any:
        if options.get("parallel"):
            options.update(parallel=PRANGE_ONLY, pipeline_class=LeanCompiler)
        # Nothing calls a kernel from C: the wrapper for that would be compiled for nothing.
        kernel: Any = _njit(no_cfunc_wrapper=True, **options)(function)
        compiled = isinstance(kernel, Dispatcher)  # with NUMBA_DISABLE_JIT it stays a function
        if compiled:
            compilation.enrol(kernel)
            if cache:
                kernel._cache = KernelCache(kernel)
        return kernel

    return decorate
