# SPDX-License-Identifier: Apache-2.0
"""Room on a kernel's stack, and arrays whose references are not counted: arrays like any others."""

import sys
from typing import NamedTuple

import numpy as np

from roadbed.kernels.jit import inner, njit
from roadbed.kernels.scratch import scratch, uncounted

ROOM = 40


@inner()
def _running_sum(values, room):
    for k in range(values.shape[0]):
        room[k] += values[k] + (room[k - 1] if k > 0 else 0)
    return room[values.shape[0] - 1]


@njit()
def _last_sum_and_rest(values):
    room, other = scratch(ROOM, np.float32), scratch(ROOM, np.int64)
    last = _running_sum(values, room)
    return last, room[values.shape[0] :].sum() + other.sum(), room.shape[0], room.itemsize, other.strides[0]


def test_room_begins_as_zeros_in_every_call_and_is_the_kernels_own():
    values = np.arange(1, 31, dtype=np.float32)
    for _ in range(3):
        assert _last_sum_and_rest(values) == (465.0, 0.0, ROOM, 4, 8)


def test_room_in_a_loop_is_taken_once():
    """A kernel that is called a million times by another does not use up the stack."""

    @inner()
    def count_up(k):
        room = scratch(ROOM, np.int64)
        room[k % ROOM] += 1
        return room.sum()

    @njit()
    def kernel(times):
        total = 0
        for k in range(times):
            total += count_up(k)
        return total

    assert kernel(1_000_000) == 1_000_000


class _Table(NamedTuple):
    rows: np.ndarray
    factor: float


@njit()
def _add_rows(given):
    (rows, factor), total = uncounted(given)
    for k in range(rows.shape[0]):
        total[k] = factor * _running_sum(rows[k], np.zeros(4))


def test_arrays_without_references_are_read_and_written_like_others():
    rows, total = np.arange(12.0).reshape(3, 4), np.zeros(3)
    held = sys.getrefcount(rows), sys.getrefcount(total)
    _add_rows((_Table(rows, 2.0), total))
    assert np.array_equal(total, 2 * rows.sum(1))
    assert (sys.getrefcount(rows), sys.getrefcount(total)) == held
    assert "NRT_incref" not in next(iter(_add_rows.inspect_llvm().values()))
