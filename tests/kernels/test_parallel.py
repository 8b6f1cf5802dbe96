# SPDX-License-Identifier: Apache-2.0
"""Work shared among threads: every part is done once, whoever does it, and what goes wrong is told."""

import multiprocessing
import os
import threading
import time
import weakref

import numba
import numpy as np
import pytest

from roadbed.kernels.parallel import parallel_begin, parallel_for, parallel_invoke, parallel_region
from roadbed.kernels.tasks import barrier, first_chunk, next_chunk


@numba.njit(nogil=True)
def count_up(first, last, counts):
    for i in range(first, last):
        counts[i] += 1


@numba.njit(nogil=True)
def add_rows(tasks, values):
    """Each row is one more than the sum of the row before, which must be complete."""
    for phase in range(values.shape[0]):
        part = first_chunk(tasks, phase)
        while part < values.shape[1]:
            values[phase, part] += 1 + (values[phase - 1].sum() if phase > 0 else 0)
            part = next_chunk(tasks, phase)
        barrier(tasks, phase, values.shape[1])


@numba.njit(nogil=True)
def fail_at(tasks, wrong, parts):
    part = first_chunk(tasks, 0)
    while part < parts:
        if part == wrong:
            raise ArithmeticError("at the wrong one")
        part = next_chunk(tasks, 0)
    barrier(tasks, 0, parts)


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
        parallel_for(count_up, count, counts, grain=grain)
        assert (counts == 1).all()


def test_ranges_are_as_large_as_the_grain_and_go_to_several_threads(threads):
    workers = min(threads, 2)
    seen, together = [], threading.Barrier(workers, timeout=300)

    def kernel(first, last):
        seen.append((first, last, threading.get_ident()))
        together.wait()

    parallel_for(kernel, 200, grain=100)
    assert sorted((first, last) for first, last, _ in seen) == ([(0, 100), (100, 200)] if workers == 2 else [(0, 200)])
    assert len({thread for *_, thread in seen}) == workers


def test_callers_in_several_threads_do_not_wait_for_each_other_forever():
    counts = np.zeros((8, 5000), np.int64)
    callers = [threading.Thread(target=parallel_for, args=(count_up, 5000, row)) for row in counts]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=300)
    assert (counts == 1).all()


def test_what_goes_wrong_in_a_helper_is_raised_here(threads):
    def kernel(first, last):
        if first >= 100:
            raise ArithmeticError(f"at {first}")

    with pytest.raises(ArithmeticError, match="at 1"):
        parallel_for(kernel, 200, grain=100)


def test_a_forked_child_has_helpers_of_its_own():
    parallel_for(count_up, 1000, np.zeros(1000, np.int64))
    child = multiprocessing.get_context("fork").Process(target=_count_in_a_child)
    child.start()
    child.join(timeout=300)
    assert child.exitcode == 0


def _count_in_a_child():
    counts = np.zeros(1000, np.int64)
    parallel_for(count_up, 1000, counts)
    assert (counts == 1).all()


@pytest.mark.parametrize("parts", [1, 3, 64])
def test_a_phase_begins_when_all_parts_of_the_one_before_are_done(threads, parts):
    expected = [sum(parts**power for power in range(phase + 1)) for phase in range(8)]
    for number in range(1, threads + 1):
        numba.set_num_threads(number)
        for _ in range(200):
            values = np.zeros((8, parts), np.int64)
            parallel_region(add_rows, 8, values)
            assert (values == np.array(expected)[:, None]).all()


def test_a_call_begins_in_another_thread_and_is_made_once(threads):
    numba.set_num_threads(threads)
    begun, seen = threading.Event(), []

    def call():
        seen.append(threading.get_ident())
        begun.set()
        return 7

    found = parallel_begin(call)
    if threads > 1:
        assert begun.wait(timeout=300)
    assert found() == 7
    assert len(seen) == 1
    assert (seen[0] != threading.get_ident()) == (threads > 1)


def test_a_call_that_no_thread_has_begun_is_made_by_the_one_that_waits(threads):
    numba.set_num_threads(1)
    seen = []
    found = parallel_begin(lambda: seen.append(threading.get_ident()))
    assert not seen
    found()
    assert seen == [threading.get_ident()]
    with pytest.raises(ArithmeticError, match="wrong"):
        parallel_begin(lambda: (_ for _ in ()).throw(ArithmeticError("wrong")))()


def test_alone_no_other_thread_is_woken(threads):
    numba.set_num_threads(threads)
    seen = []

    def work(tasks, number):
        seen.append((threading.get_ident(), number))
        time.sleep(0.2)  # long enough for another one to begin

    parallel_region(work, 1, 5, single_thread=True)
    assert seen == [(threading.get_ident(), 5)]


def test_crews_of_several_callers_do_not_wait_for_each_other_forever():
    values = np.zeros((8, 8, 16), np.int64)
    callers = [threading.Thread(target=parallel_region, args=(add_rows, 8, one)) for one in values]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=300)
    assert (values == values[:, :, :1]).all()
    assert values.all()


@pytest.mark.parametrize("wrong", [0, 7, 15])
def test_nobody_waits_for_a_part_that_failed(threads, wrong):
    parallel_region(fail_at, 1, -1, 16)  # compiled, so that helpers take part
    for _ in range(20):
        with pytest.raises(ArithmeticError, match="wrong one"):
            parallel_region(fail_at, 1, wrong, 16)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_calls_at_once_are_made_once_each_and_spread_no_further_if_there_are_several(number):
    done, seen = [], {}

    def call(k):
        def part(first, last):
            seen.setdefault(k, set()).add((first, last, threading.get_ident()))

        parallel_for(part, 1000)
        done.append(k)

    parallel_invoke([lambda k=k: call(k) for k in range(number)])
    assert sorted(done) == list(range(number))
    for ranges in seen.values():  # one call alone has all threads for its kernels
        if numba.get_num_threads() > 1:
            assert (len(ranges) == 1) == (number > 1)
        assert sum(last - first for first, last, _ in ranges) == 1000


def test_a_call_that_fails_is_told_and_kernels_are_spread_again_afterwards():
    def wrong():
        raise ArithmeticError("at the wrong one")

    with pytest.raises(ArithmeticError, match="at the wrong one"):
        parallel_invoke([wrong, lambda: None, lambda: None])
    ranges = []
    parallel_for(lambda first, last: ranges.append((first, last)), 1000)
    assert len(ranges) > 1 or numba.get_num_threads() == 1


def test_work_that_is_done_holds_nothing():
    """A filter is freed when it is closed, also where its last work still waits for a thread: all are busy."""

    class Held:
        def work(self):
            return 1

    busy = [parallel_begin(time.sleep, 0.5) for _ in range(max(2, os.cpu_count() or 1))]
    held = Held()
    known, result = weakref.ref(held), parallel_begin(held.work)
    assert result() == 1
    del held, result
    assert known() is None
    for wait in busy:
        wait()
