# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Eight numbers at once compute what each of them would alone, and are refused beyond the end of an array."""

import os
import subprocess
import sys

import numpy as np

from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import F, U
from roadbed.kernels.simd import (
    LANES,
    STEP,
    all_zero,
    exp2_lanes,
    floor,
    lacks_bits,
    lane_indices,
    load,
    load_points,
    mask_bits,
    maximum,
    minimum,
    splat,
    square_root,
    store,
    store_first,
    to_int32,
    where,
)
from roadbed.kernels.simd_reductions import min_lanes, sum_lanes

RNG = np.random.default_rng(5)


@njit(nogil=True)
def every_operator(planes, out):
    for c in range(U(0), U(planes.shape[1]), STEP):
        a, b = load(planes, (0, c)), load(planes, (1, c))
        store(out, (0, c), (a + b) * F(2) - square_root(a * a) / b)
        store(out, (1, c), where((a < b) & (F(0.5) >= a), maximum(a, splat(F(0.25))), floor(b * F(3))))
        store(out, (2, c), exp2_lanes(F(0) - a * a * F(40)))
        store(out, (3, c), splat(sum_lanes(a)))
        store(out, (4, c), splat(min_lanes(b)) + lane_indices())


@njit(nogil=True)
def coordinates(points, marks, out):
    for k in range(U(0), U(points.shape[0]), STEP):
        x, y, z = load_points(points, k)
        store(out, (0, k), x)
        store(out, (1, k), y)
        store(out, (2, k), where(lacks_bits(marks, k, np.uint16(0x8001)), z, splat(F(-1))))


@njit(nogil=True)
def whole_numbers(values, counts, own, out, begins, empty):
    for n, k in enumerate(range(U(0), U(values.shape[0]), STEP)):
        cell = to_int32(load(values, k)) * np.int32(3) + load(counts, k)
        store(out, k, where(lacks_bits(own, k, np.uint8(1)), cell, splat(np.int32(-7))))
        begins[n] = mask_bits(load(out, k) != splat(np.int32(-7)))
        empty[n] = all_zero(counts, k)


def test_whole_numbers_compute_what_numpy_does():
    values, own = RNG.uniform(-900, 900, 4 * LANES).astype(np.float32), RNG.random(4 * LANES) < 0.5
    counts = RNG.integers(1, 1 << 16, 4 * LANES).astype(np.uint16)
    counts[LANES : 2 * LANES] = 0
    out, begins, empty = np.zeros(4 * LANES, np.int32), np.zeros(4, np.uint64), np.zeros(4, np.bool_)
    whole_numbers(values, counts, own, out, begins, empty)
    assert np.array_equal(out, np.where(own, -7, values.astype(np.int32) * 3 + counts))
    assert np.array_equal(begins, np.packbits(out.reshape(4, LANES) != -7, axis=1, bitorder="little")[:, 0])
    assert empty.tolist() == [False, True, False, False]


@njit(nogil=True)
def first_lanes(values, counts, out, whole_out, small):
    for n in range(U(counts.shape[0])):
        lanes = load(values, n * STEP)
        store_first(out, n * STEP + U(1), minimum(lanes, splat(F(0.5))), counts[n])
        store_first(whole_out, n * STEP + U(1), to_int32(lanes * F(1000)), counts[n])
        store(small, n * STEP, to_int32(lanes * F(1000)))


def test_the_first_lanes_alone_are_stored():
    counts = np.arange(1, LANES + 1)
    values = RNG.uniform(0, 1, LANES * LANES).astype(np.float32)
    out, whole_out = np.full(len(values) + 1, -1, np.float32), np.full(len(values) + 1, -1, np.int32)
    small = np.zeros(len(values), np.uint16)
    first_lanes(values, counts, out, whole_out, small)
    thousandths, kept = (values * np.float32(1000)).astype(np.int32), (np.arange(LANES) < counts[:, None]).ravel()
    assert out[0] == whole_out[0] == -1
    assert np.array_equal(out[1:], np.where(kept, np.minimum(values, np.float32(0.5)), -1))
    assert np.array_equal(whole_out[1:], np.where(kept, thousandths, -1))
    assert np.array_equal(small, thousandths)


def test_lanes_compute_what_numpy_does():
    planes = RNG.uniform(0, 1, (2, 5 * LANES)).astype(np.float32)
    planes[1] += 0.01
    out = np.zeros((5, planes.shape[1]), np.float32)
    every_operator(planes, out)
    a, b = planes.astype(np.float64)
    np.testing.assert_allclose(out[0], (a + b) * 2 - abs(a) / b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out[1], np.where((a < b) & (a <= 0.5), np.maximum(a, 0.25), np.floor(b * 3)), rtol=1e-6)
    np.testing.assert_allclose(out[2], 2.0 ** (-40 * a * a), rtol=2e-5)
    a, b = (values.reshape(-1, LANES) for values in (a, b))
    np.testing.assert_allclose(out[3], np.repeat(a.sum(1), LANES), rtol=1e-6)
    np.testing.assert_allclose(out[4], (b.min(1)[:, None] + np.arange(LANES)).ravel(), rtol=1e-6)


def test_points_and_marks_come_apart():
    points = RNG.normal(size=(3 * LANES, 3)).astype(np.float32)
    marks = RNG.integers(0, 1 << 16, len(points)).astype(np.uint16)
    out = np.zeros((3, len(points)), np.float32)
    coordinates(points, marks, out)
    assert np.array_equal(out[:2], points.T[:2])
    assert np.array_equal(out[2], np.where(marks & 0x8001, np.float32(-1), points[:, 2]))
    assert 0 < (out[2] == -1).sum() < len(points)


def test_a_comparison_with_nan_is_false():
    planes = np.full((2, LANES), np.nan, np.float32)
    out = np.zeros((5, LANES), np.float32)
    planes[0], planes[1] = 0.3, np.nan
    every_operator(planes, out)
    assert np.isnan(out[1]).all()  # neither less nor more: the other side is taken, floor(NaN)


_BEYOND = """
import numpy as np
from roadbed.kernels.jit import njit
from roadbed.kernels.simd import load, store, store_first

@njit()
def copy(values, k, out):
    store(out, 0, load(values, k))

@njit()
def copy_first(values, count, out):
    store_first(out, 5, load(values, 0), count)

values, out = np.zeros(12, np.float32), np.zeros(8, np.float32)
copy(values, 4, out)
copy_first(values, 3, out)
for beyond, number in (copy, 5), (copy_first, 4):
    try:
        beyond(values, number, out)
    except IndexError:
        print("refused", beyond.__name__)
"""


def test_the_last_lane_is_checked_where_bounds_are(tmp_path):
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", _BEYOND], env=environment, capture_output=True, text=True, timeout=900, check=True
    )
    assert ran.stdout.split() == ["refused", "copy", "refused", "copy_first"]
