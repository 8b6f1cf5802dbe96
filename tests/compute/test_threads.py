# SPDX-License-Identifier: Apache-2.0
"""Work shared among threads: every part is done once, whoever does it, and what goes wrong is told."""

import multiprocessing
import threading

import numba
import numpy as np
import pytest

from roadbed.compute.threads import spread


@numba.njit(nogil=True)
def count_up(first, last, counts):
    for i in range(first, last):
        counts[i] += 1


@pytest.fixture
def threads():
    """As many as there may be; their number is set back afterwards."""
    before = numba.get_num_threads()
    yield numba.config.NUMBA_NUM_THREADS
    numba.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, 2, 99, 100, 101, 12345])
@pytest.mark.parametrize("grain", [1, 100])
def test_every_part_is_done_once(threads, count, grain):
    for number in range(1, threads + 1):
        numba.set_num_threads(number)
        counts = np.zeros(count, np.int64)
        spread(count_up, count, counts, grain=grain)
        assert (counts == 1).all()


def test_ranges_are_as_large_as_the_grain_and_go_to_several_threads(threads):
    workers = min(threads, 2)
    seen, together = [], threading.Barrier(workers, timeout=60)

    def kernel(first, last):
        seen.append((first, last, threading.get_ident()))
        together.wait()

    spread(kernel, 200, grain=100)
    assert sorted((first, last) for first, last, _ in seen) == ([(0, 100), (100, 200)] if workers == 2 else [(0, 200)])
    assert len({thread for *_, thread in seen}) == workers


def test_callers_in_several_threads_do_not_wait_for_each_other_forever():
    counts = np.zeros((8, 5000), np.int64)
    callers = [threading.Thread(target=spread, args=(count_up, 5000, row)) for row in counts]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
    assert (counts == 1).all()


def test_what_goes_wrong_in_a_helper_is_raised_here(threads):
    def kernel(first, last):
        if first >= 100:
            raise ArithmeticError(f"at {first}")

    with pytest.raises(ArithmeticError, match="at 1"):
        spread(kernel, 200, grain=100)


def test_a_forked_child_has_helpers_of_its_own():
    spread(count_up, 1000, np.zeros(1000, np.int64))
    child = multiprocessing.get_context("fork").Process(target=_count_in_a_child)
    child.start()
    child.join(timeout=60)
    assert child.exitcode == 0


def _count_in_a_child():
    counts = np.zeros(1000, np.int64)
    spread(count_up, 1000, counts)
    assert (counts == 1).all()
