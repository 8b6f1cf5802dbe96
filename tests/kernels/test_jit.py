# SPDX-License-Identifier: Apache-2.0
"""Options of compiled functions."""

from roadbed.kernels.jit import inner, njit
from roadbed.kernels.numeric import FAST


def test_a_function_does_not_take_the_fastmath_of_the_caller_compiled_first():
    @inner()
    def ratio(a, b):
        return a / b

    @njit(fastmath=FAST)
    def fast(a, b):
        return ratio(a, b)

    fast(1.0, 2.0)
    (code,) = ratio.inspect_llvm().values()
    assert "fdiv double" in code
