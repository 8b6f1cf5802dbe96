# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled with less work compute the same bits, and leave Numba as they found it."""

import ast
import gc
from pathlib import Path

import numba
import numpy as np
import pytest
from llvmlite import binding as llvm
from numba.core import event
from numba.core.compiler import Compiler
from numba.core.registry import cpu_target
from numba.core.types.functions import BaseFunction

import roadbed
from roadbed.kernels import jit as kernels
from roadbed.kernels.jit import inlined, inner, njit

FAST = {"reassoc", "contract", "arcp", "nsz", "afn"}


def smooth(values, weights):
    total = np.zeros(values.shape[0], np.float32)
    total[:] = 1
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            total[row] += weights[column] * np.exp(-(values[row, column] ** 2))
    return total


def test_a_kernel_gives_the_bits_of_numbas_own():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(500, 37)).astype(np.float32), rng.random(37).astype(np.float32)
    usual_libraries = cpu_target.target_context.codegen()._library_class
    ours = njit(fastmath=FAST)(smooth)(values, weights)
    assert cpu_target.target_context.codegen()._library_class is usual_libraries
    theirs = numba.njit(fastmath=FAST)(smooth)(values, weights)
    assert ours.tobytes() == theirs.tobytes()


def test_a_number_written_out_is_any_number():
    """Numba alone would compile the helper for 0, for 1 and for 2."""

    @njit()
    def plus(x, k):
        return x + k

    @njit()
    def caller(x):
        return plus(x, 0) + plus(x, 1) + plus(x, k=2)

    assert caller(1) == 6
    assert len(plus.signatures) == 1


@inlined(allocates=True)  # an error that names a number does
def checked(values, k):
    if k < 0:
        raise ValueError("below zero", k)
    return min(values[k], 3.0)


def test_what_is_only_linked_works_in_our_kernels_and_in_those_of_others():
    """With its constants, which are found by name, and its errors."""
    assert gc.isenabled()
    for decorate in (njit, numba.njit):
        kernel = decorate()(lambda values, k: checked(np.sort(values), k))
        assert kernel(np.array([7.0, 2.0]), 0) == 2.0
        assert kernel(np.array([7.0, 2.0]), 1) == 3.0
        with pytest.raises(ValueError, match="below zero"):
            kernel(np.array([7.0, 2.0]), -1)
    assert gc.isenabled()


class _Compiled(event.Listener):
    """Names of the functions that are compiled."""

    def __init__(self):
        self.names = []

    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__qualname__)

    def on_end(self, event):
        pass


def test_what_numba_has_worked_out_is_not_worked_out_again():
    """The smaller of two bytes is compiled once for three callers, and once more where sums may be reordered."""

    @inner()
    def one(a, b):
        return min(a, b)

    @inner(nogil=True)
    def other(a, b):
        return min(b, a)

    @inner(fastmath=FAST)
    def fast(a, b):
        return min(a, b)

    usual, timers = BaseFunction.get_call_type, llvm.ffi.lib._lock._cblist
    with event.install_listener("numba:compile", _Compiled()) as compiled:
        kernel = njit(allocates=False)(lambda a, b: one(a, b) + other(a, b) + min(a, b) + fast(a, b))
        assert kernel(np.int8(5), np.int8(-3)) == -12
    assert sum("ol_min" in name for name in compiled.names) == 2
    assert BaseFunction.get_call_type is usual
    assert llvm.ffi.lib._lock._cblist is timers


def test_steps_are_left_out_only_where_they_would_find_nothing_to_do():
    """Functions inside a kernel, copies of one in its source, and expressions of whole arrays work as ever."""

    @njit(inline="always")
    def thrice(x):
        return 3 * x

    def kernel(values):
        def square(x):
            return x * x

        shifted = values + 2 * values[::-1] - 1
        return thrice(sum([square(x) for x in values])) + shifted.max()

    assert njit()(kernel)(np.array([1.0, 2.0, 5.0])) == 100.0
    assert not thrice.signatures, "compiled by itself: nobody copied it"


_ALLOCATE = {
    "empty",
    "zeros",
    "ones",
    "full",
    "array",
    "arange",
    "copy",
    "argsort",
    "sort",
    "flatnonzero",
    "concatenate",
}


def test_a_kernel_that_says_so_allocates_nothing():
    """Numba finds out too, but only when the kernel is compiled: some are on the first drive that needs them."""
    wrong = []
    for path in Path(roadbed.__file__).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            for decorator in getattr(function, "decorator_list", ()):
                kind = getattr(getattr(decorator, "func", None), "id", "")
                if kind not in ("njit", "inner", "inlined"):
                    continue
                said = {keyword.arg: ast.unparse(keyword.value) for keyword in decorator.keywords}
                named = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
                if said.get("allocates", str(kind == "njit")) == "False" and named & _ALLOCATE:
                    wrong.append(f"{path.name}: {function.name}: {named & _ALLOCATE}")
    assert wrong == []


def test_where_numba_is_not_known_from_inside_its_own_compiler_does_the_work(monkeypatch):
    values, weights = np.ones((3, 4), np.float32), np.ones(4, np.float32)
    expected = njit()(smooth)(values, weights)
    monkeypatch.setattr(kernels, "_LEAN_UNTIL", kernels._LEAN_FROM)
    kernels._compiler.cache_clear()
    try:
        kernel = njit()(smooth)
        assert kernel._compiler.pipeline_class is Compiler
        np.testing.assert_array_equal(kernel(values, weights), expected)
    finally:
        kernels._compiler.cache_clear()
