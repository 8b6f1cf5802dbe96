# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled with less work compute the same bits, and leave Numba as they found it."""

import gc

import numba
import numpy as np
import pytest
from numba.core.registry import cpu_target

from roadbed.compute.kernels import inlined, njit

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


@inlined()
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
