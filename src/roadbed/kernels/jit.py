# SPDX-License-Identifier: Apache-2.0
"""`njit` as every kernel of the CPU is decorated: numba's, with a cache that knows a kernel by all it is made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numba
from numba.core import types
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher

from roadbed.kernels import progress as compilation
from roadbed.kernels.cache import KernelCache

_njit: Any = numba.njit  # kernels are typed by Numba, not by annotations
_LEAN_FROM, _LEAN_UNTIL = (0, 68), (0, 69)  # versions of Numba whose inside `lean`, `shortcuts` and `loading` know


@cache
def _compiler() -> Any:
    """Ours where it knows Numba from inside; elsewhere Numba's own, which takes longer for the same."""
    return _lean_compiler if _is_known() else Compiler


def _is_known() -> bool:
    return _LEAN_FROM <= numba.version_info.short < _LEAN_UNTIL


_loading: Any = import_module("roadbed.kernels.loading") if _is_known() else None


def _lean_compiler(*given: Any) -> Any:
    """Made where something is compiled: a process whose kernels are all kept does not load what it needs."""
    from roadbed.kernels.lean import LeanCompiler

    return LeanCompiler(*given)


def njit(*, cache: bool = False, allocates: bool = True, **options: Any) -> Callable[[Callable], Any]:
    """`numba.njit` with these options; with `cache` compiled code is kept in `kernel_cache.folder()`.

    Numba counts the references to every part of an array that a kernel names, with atomic operations: a third of a
    short loop's time. One that allocates nothing, nor calls what returns an array, says so and does without.
    """

    def decorate(function: Callable) -> Any:
        options.update(_nrt=allocates)  # said always: what is not said is as in the kernel that calls
        # Nothing calls a kernel from C: the wrapper for that would be compiled for nothing.
        kernel: Any = _njit(no_cfunc_wrapper=True, pipeline_class=_compiler(), **options)(function)
        compiled = isinstance(kernel, Dispatcher)  # with NUMBA_DISABLE_JIT it stays a function
        if compiled:
            compilation.enrol(kernel)
            _take_numbers_alike(kernel)
            kernel._compilation_chain_init_hook = _extensions_are_not_needed
            if cache:
                kernel._cache = KernelCache(kernel, _loading)
        return kernel

    return decorate


def inner(*, allocates: bool = False, **options: Any) -> Callable[[Callable], Any]:
    """For a function that only kernels call: it is optimised and emitted as a part of them, and not once more alone."""
    return njit(no_cpython_wrapper=True, allocates=allocates, **options)


def inlined(*, allocates: bool = False, **options: Any) -> Callable[[Callable], Any]:
    """The same for a small function of numbers, which is to be no call at all.

    Numba's own inlining copies the source at every call, to be typed and lowered again; this one is left to LLVM.
    """
    return inner(forceinline=True, allocates=allocates, **options)


def _extensions_are_not_needed() -> None:
    """Numba would look through all installed packages for extensions of its own; kernels use none."""


def _take_numbers_alike(kernel: Any) -> None:
    """A number written out in a call is as good as any other: Numba would compile the kernel for each of them."""
    resolve: Callable[..., Any] = kernel.get_call_template
    plain: Any = types.unliteral

    def get_call_template(args: Any, kws: Any) -> Any:
        return resolve(tuple(map(plain, args)), {name: plain(kind) for name, kind in kws.items()})

    kernel.get_call_template = get_call_template
