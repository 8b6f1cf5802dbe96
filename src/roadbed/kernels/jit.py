# SPDX-License-Identifier: Apache-2.0
"""`njit` for the CPU kernels: Numba's, with a cache folder that no edit of the sources makes stale."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numba
from numba.extending import intrinsic

from roadbed.kernels import progress
from roadbed.kernels.cache import cache_folder_of

_njit: Any = numba.njit  # kernels are typed by Numba, not by annotations


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable], Any]:
    """`numba.njit` with these options. `cache`: a kernel that Python calls, cached on disk and counted by `progress`.

    Division by zero follows NumPy and raises nothing: exits by exceptions keep Numba from removing reference counts.
    `fastmath` is always set: a function without it would keep that of the caller that happens to be compiled first.
    """
    options = {"no_cfunc_wrapper": True, "error_model": "numpy", "fastmath": False, **options}  # none is called from C

    def decorate(function: Callable) -> Any:
        if not cache:
            return _njit(**options)(function)
        progress.register(function)
        with cache_folder_of(function.__code__.co_filename) as usable:
            return _njit(cache=usable, **options)(function)

    return decorate


def inner(**options: Any) -> Callable[[Callable], Any]:
    """For a function that only kernels call: it gets no wrapper for calls from Python."""
    return njit(no_cpython_wrapper=True, **options)


def inlined(**options: Any) -> Callable[[Callable], Any]:
    """`inner` for a small function that LLVM inlines at every call.

    Numba's `inline="always"` inlines the Python code instead, and so types and lowers it again at every call.
    """
    return inner(forceinline=True, **options)


def merged() -> Callable[[Callable], Any]:
    """For a function with one caller: Numba inlines its code there and compiles both with the caller's options."""
    return njit(inline="always")


def instruction(result: Any, *arguments: Any) -> Callable[[Callable], Any]:
    """Decorates `write(builder, *values)`, which emits LLVM code; kernels call it with arguments of these types."""

    def decorate(write: Callable) -> Any:
        @wraps(write)
        def typed(_typing_context: Any, *_given: Any) -> Any:
            return result(*arguments), lambda _context, builder, _signature, values: write(builder, *values)

        return intrinsic(typed)

    return decorate
