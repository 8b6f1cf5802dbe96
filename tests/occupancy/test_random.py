# SPDX-License-Identifier: Apache-2.0
"""Counter-based random numbers: the published vectors, and the distributions made from them."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from roadbed.occupancy import random_cpu


@njit
def words(c0, c1, c2, c3, k0, k1):
    return random_cpu.philox(c0, c1, c2, c3, k0, k1)


@njit
def draw(count):
    uniform, normal = np.empty((count, 4)), np.empty((count, 4))
    for i in range(count):
        uniform[i] = random_cpu.uniforms(7, 3, 1, i)
        normal[i] = random_cpu.normals(7, 3, 2, i)
    return uniform, normal


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter, key, expected):
    """The vectors of the Random123 distribution."""
    assert tuple(int(w) for w in words(*(np.uint64(v) for v in (*counter, *key)))) == expected


def test_distributions():
    uniform, normal = draw(20_000)
    assert uniform.min() > 0
    assert uniform.max() < 1
    assert uniform.mean() == pytest.approx(0.5, abs=0.005)
    assert normal.mean(axis=0) == pytest.approx(np.zeros(4), abs=0.03)
    assert normal.std(axis=0) == pytest.approx(np.ones(4), abs=0.02)
    assert np.abs(np.corrcoef(normal.T) - np.eye(4)).max() < 0.03
