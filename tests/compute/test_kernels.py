# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled with less work compute the same bits, and leave Numba as they found it."""

import numba
import numpy as np
from numba.core.registry import cpu_target

from roadbed.compute.kernels import njit, prange

FAST = {"reassoc", "contract", "arcp", "nsz", "afn"}


def smooth(values, weights):
    total = np.zeros(values.shape[0], np.float32)
    total[:] = 1
    for row in prange(values.shape[0]):
        for column in range(values.shape[1]):
            total[row] += weights[column] * np.exp(-(values[row, column] ** 2))
    return total


def test_a_parallel_kernel_gives_the_bits_of_numbas_own():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(500, 37)).astype(np.float32), rng.random(37).astype(np.float32)
    usual_libraries = cpu_target.target_context.codegen()._library_class
    ours = njit(parallel=True, fastmath=FAST)(smooth)(values, weights)
    assert cpu_target.target_context.codegen()._library_class is usual_libraries
    theirs = numba.njit(parallel=True, fastmath=FAST)(smooth)(values, weights)
    assert ours.tobytes() == theirs.tobytes()


def fills(values):
    sums = np.zeros((values.shape[0], 3), np.float32)
    marks = np.full(values.shape, -1, np.int32)
    for row in prange(values.shape[0]):
        for column in range(values.shape[1]):
            sums[row, 0] += values[row, column]
            marks[row, column] = column
    return sums, marks


def test_only_what_is_written_with_prange_is_parallel():
    """The fill beside the loop stays plain; Numba alone would make a second parallel loop of it."""
    loops = []
    for decorate in (njit, numba.njit):
        kernel = decorate(parallel=True)(fills)
        kernel(np.ones((3, 2)))
        loops.append(kernel.get_metadata(kernel.signatures[0])["parfor_diagnostics"].count_parfors())
    assert loops == [1, 2]
