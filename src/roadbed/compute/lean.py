# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Kernels compiled with less work: without looking for garbage, and a parallel loop's body three times, not five.

Only what is written with `prange` becomes parallel: Numba would make a loop of its own, with all that belongs to it,
of every `zeros` and every assignment to a slice beside it.

Numba wraps the body of a parallel loop in two small functions, each in a library of its own with a copy of the body,
optimises and emits all three, and then links them into the kernel, where everything is optimised and emitted again.
Nothing ever calls the wrappers' own copies: here they are only linked.
"""

from __future__ import annotations

import gc

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.cpu_options import ParallelOptions

_SILENT = ("comprehension", "reduction", "inplace_binop", "setitem", "numpy", "stencil", "fusion")
PRANGE_ONLY = ParallelOptions({**dict.fromkeys(_SILENT, False), "prange": True})
_WRAPPERS = ("parallelgufuncwrapper", "_GufuncWrapper")


class _LeanLibrary(JITCodeLibrary):
    def _optimize_final_module(self):
        if not self._is_wrapper():
            super()._optimize_final_module()

    def _finalize_final_module(self):
        if not self._is_wrapper():
            super()._finalize_final_module()
            return
        self._finalize_dynamic_globals()
        self._finalized = True

    def _is_wrapper(self):
        return any(name in self.name for name in _WRAPPERS)


class LeanCompiler(Compiler):
    """Numba's own compiler, with such libraries while a kernel is compiled; Numba lets one compile at a time."""

    def compile_extra(self, function):
        codegen, collects = self.state.targetctx.codegen(), gc.isenabled()
        usual, codegen._library_class = codegen._library_class, _LeanLibrary
        gc.disable()  # millions of objects are made, and nearly all are needed until the end
        try:
            return super().compile_extra(function)
        finally:
            codegen._library_class = usual
            if collects:
                gc.enable()
