# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""What joins lanes: the chosen ones in order, sums as of one vector alone, planes of arrays that share their places."""

import os
import subprocess
import sys

import numpy as np
import pytest

from roadbed.kernels import simd_reductions as across_lanes
from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import F, U
from roadbed.kernels.simd import (
    LANES,
    STEP,
    lacks_bits,
    load,
    load_flat,
    splat,
    store,
    store_first,
    store_flat,
    to_int32,
)
from roadbed.kernels.simd_reductions import compress, count_true, gather, store_column, sum_each, sum_lanes

RNG = np.random.default_rng(8)


def list_chosen(values, left_out, out, whole_out):
    place = U(0)
    for k in range(U(0), U(values.shape[0]), STEP):
        mask = lacks_bits(left_out, k, np.uint8(1)) & (load(values, k) < F(0.9)) | (load(values, k) < F(0.1))
        store_first(out, place, compress(mask, load(values, k)), count_true(mask))
        store_first(
            whole_out, place, compress(mask, to_int32(load(values, k) * F(1000)) & np.int32(0xFF)), count_true(mask)
        )
        place += U(count_true(mask))
    return place


@pytest.mark.parametrize("by_hand", [False, True])
def test_chosen_lanes_follow_each_other(by_hand, monkeypatch):
    if by_hand:
        monkeypatch.setattr(across_lanes, "_CAN_COMPRESS", False)
    values, left_out = RNG.uniform(0, 1, 40 * LANES).astype(np.float32), RNG.random(40 * LANES) < 0.5
    left_out[: 3 * LANES], values[:LANES], values[LANES : 2 * LANES] = True, 0.05, 0.5  # all of a vector, and none
    out, whole_out = np.full(len(values), -1, np.float32), np.full(len(values), -1, np.int32)
    n = njit()(list_chosen)(values, left_out, out, whole_out)
    wanted = values[~left_out & (values < np.float32(0.9)) | (values < np.float32(0.1))]
    assert n == len(wanted) > 10 * LANES
    assert np.array_equal(out[:n], wanted)
    assert np.array_equal(whole_out[:n], (wanted * np.float32(1000)).astype(np.int32) & 0xFF)
    assert (out[n:] == -1).all()
    assert (whole_out[n:] == -1).all()


@njit(nogil=True)
def sums(vectors, together, alone):
    a, b, c, d = load(vectors, (0, 0)), load(vectors, (1, 0)), load(vectors, (2, 0)), load(vectors, (3, 0))
    e, f, g, h = load(vectors, (4, 0)), load(vectors, (5, 0)), load(vectors, (6, 0)), load(vectors, (7, 0))
    store_column(together, (1, 2), sum_each((a, b, c, d, e, f, g, h)))
    for k in range(LANES):
        alone[k] = sum_lanes(load(vectors, (k, 0)))


def test_sums_of_eight_vectors_are_those_of_each_to_the_last_bit():
    vectors = (RNG.normal(size=(LANES, LANES)) * 10.0 ** RNG.integers(-3, 4, (LANES, LANES))).astype(np.float32)
    together, alone = np.zeros((LANES + 1, 4), np.float32), np.zeros(LANES, np.float32)
    sums(vectors, together, alone)
    assert np.array_equal(together[1:, 2], alone)
    assert np.count_nonzero(together) == LANES
    np.testing.assert_allclose(alone, vectors.astype(np.float64).sum(1), rtol=1e-5, atol=1e-3)


@njit(nogil=True)
def looked_up(table, places, offset, out):
    store(out, 0, gather(table, load(places, 0), offset))


@pytest.mark.parametrize("shape", [(105,), (3, 5, 7)])
def test_numbers_are_looked_up_by_lane(shape):
    table, places = RNG.normal(size=shape).astype(np.float32), RNG.integers(-12, 93, LANES).astype(np.int32)
    out = np.zeros(LANES, np.float32)
    looked_up(table, places, 12, out)
    assert np.array_equal(out, table.ravel()[places + 12])


@njit(nogil=True)
def double_planes(planes, out):
    for k in range(planes.shape[0]):
        for c in range(0, planes.shape[1], LANES):
            place = k * planes.shape[1] + c
            store_flat(out, place, load_flat(planes, place) * F(2) + splat(F(1)))


def test_planes_are_found_by_their_places():
    planes = RNG.normal(size=(3, 2 * LANES)).astype(np.float32)
    out = np.zeros_like(planes)
    double_planes(planes, out)
    np.testing.assert_allclose(out, planes * 2 + 1, rtol=1e-6, atol=1e-6)


_BEYOND = """
import numpy as np
from roadbed.kernels.simd_reductions import gather, store_column
from roadbed.kernels.jit import njit
from roadbed.kernels.simd import load, load_flat, store, store_first, store_flat, to_int32

@njit()
def read(planes, place, out):
    store(out, 0, load_flat(planes, place))

@njit()
def write(planes, place, out):
    store_flat(planes, place, load(out, 0))

@njit()
def across(planes, row, out):
    store_column(planes, (row - 8, 0), load(out, 0))

@njit()
def look(planes, place, out):
    store(out, 0, gather(planes, to_int32(load(out, 0)), place + 7))

@njit()
def none(planes, place, out):
    store_first(out, 7, load(out, 0), place)

planes, out = np.zeros((8, 1), np.float32), np.zeros(8, np.float32)
none(planes, 0, out)
for kernel in read, write, look, across:
    kernel(planes, 0 if kernel is not across else 8, out)
    try:
        kernel(planes, 1 if kernel is not across else 9, out)
    except IndexError:
        print("refused", kernel.__name__)
"""


def test_what_lies_beyond_the_end_is_refused_where_bounds_are_checked(tmp_path):
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", _BEYOND], env=environment, capture_output=True, text=True, timeout=900, check=True
    )
    assert ran.stdout.split() == ["refused", "read", "refused", "write", "refused", "look", "refused", "across"]
