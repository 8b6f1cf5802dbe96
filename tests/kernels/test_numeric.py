# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The smaller and the larger of two numbers are Python's, also for NaN, signed zeros and mixed types."""

import builtins
import itertools
import math

import numpy as np
import pytest

from roadbed.kernels import numeric
from roadbed.kernels.jit import njit

FLOATS = (math.nan, -math.inf, -0.0, 0.0, 1.5)
PAIRS = (
    *itertools.product(FLOATS, FLOATS),
    *itertools.product((-3, 0, 2**62), (-3, 0, 2**62)),
    (np.uint64(2**63), np.uint64(1)),
    (np.int32(-5), 7),
    (np.float32(0.1), 0.1),
)


@njit()
def both(a, b):
    return numeric.min(a, b), numeric.max(a, b)


@pytest.mark.parametrize("compute", [both, both.py_func])
def test_min_and_max_are_those_of_python(compute):
    for a, b in PAIRS:
        for found, expected in zip(compute(a, b), (builtins.min(a, b), builtins.max(a, b))):
            assert found == expected or (math.isnan(found) and math.isnan(expected)), (a, b)
            assert math.copysign(1, found) == math.copysign(1, expected), (a, b)
