# SPDX-License-Identifier: Apache-2.0
"""Scan and stable sort against NumPy, on every accelerator present."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadbed.runtime import primitives
from roadbed.runtime.primitives_cpu import fast_azimuth
from tests.devices import ACCELERATORS, accelerator

EXAMPLES = settings(max_examples=15, deadline=None)
sizes = st.one_of(st.integers(1, 70), st.sampled_from([2047, 2048, 2049, 4097, 30_000]))


@pytest.fixture(scope="module", params=ACCELERATORS)
def device(request):
    return accelerator(request.param)


@cache
def program(device):
    return primitives.build(device)


def moved(device, array):
    """A device buffer with the array's content, also where kernels could read host memory."""
    output = device.output((1, array.size), array.dtype)
    if output.addresses[0]:
        output.host[0] = array
    else:
        device.bind(array, output.buffer)
    return output


def result(device, output):
    device.fetch(output, 0, output.host.size)
    device.finish()
    return output.host[0].copy()


@EXAMPLES
@given(count=sizes, seed=st.integers(0, 1000))
def test_scan_equals_cumulative_sum(device, count, seed):
    values = np.random.default_rng(seed).integers(0, 1000, count).astype(np.int32)
    sums = device.output((1, count), np.int32)
    progress = device.zeros(primitives.scan_progress_size(count), np.int32)
    launch = primitives.scan(moved(device, values).buffer, sums.buffer, progress, count)
    device.graph(program(device), [launch]).run()
    np.testing.assert_array_equal(result(device, sums), np.cumsum(values) - values)


@EXAMPLES
@given(count=sizes, cells=st.sampled_from([1, 7, 256, 257, 9600, 70_000]), seed=st.integers(0, 1000))
def test_sort_by_cell_is_stable(device, count, cells, seed):
    cell = (np.random.default_rng(seed).random(count) ** 3 * cells).astype(np.int32)
    sorting = primitives.CellSort(device, count, cells)
    items = moved(device, np.arange(count, dtype=np.int32))
    launches, cells_out, items_out = sorting.launches(moved(device, cell).buffer, items.buffer, count)
    copies = [device.output((1, count), np.int32) for _ in range(2)]
    launches += [
        primitives.copy(cells_out, copies[0].buffer, count),
        primitives.copy(items_out, copies[1].buffer, count),
    ]
    device.graph(program(device), launches).run()
    order = np.argsort(cell, kind="stable")
    np.testing.assert_array_equal(result(device, copies[1]), order)
    np.testing.assert_array_equal(result(device, copies[0]), cell[order])


def test_the_fast_azimuth_is_atan2_within_a_thousandth_of_a_degree():
    """In every octant, on the axes and at the origin; the source of the kernel, run by Python."""
    angles = np.radians(np.arange(0, 360, 0.25))
    for angle in np.concatenate([angles, np.nextafter(angles, 10)]):
        for length in (1e-3, 1.0, 1e3):
            dx, dy = length * np.cos(angle), length * np.sin(angle)
            turn = fast_azimuth.py_func(dx, dy) - math.atan2(dy, dx)
            assert abs(math.remainder(turn, 2 * math.pi)) < math.radians(0.001), (dx, dy)
    assert fast_azimuth.py_func(0.0, 0.0) == 0.0
