# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Small numeric parts that every CPU kernel of the ground shares."""

from __future__ import annotations

import os
from typing import Any

# Read when the thread pool starts: waiting threads sleep instead of spinning, or a busy machine slows down tenfold.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

# Everything of fastmath except the promise that no NaN or infinity occurs: raw scans contain both.
FAST = {"reassoc", "contract", "arcp", "nsz", "afn"}
F: Any = np.float32
njit: Any = numba.njit  # kernels are typed by Numba, not by annotations
prange: Any = numba.prange


@intrinsic
def _float_from_bits(_typing_context, _bits):
    def codegen(_context, builder, _signature, arguments):
        from llvmlite import ir

        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), codegen


@njit(inline="always", fastmath=FAST)
def exp_negative(x):
    """exp(x) for x <= 0 to 3e-6, without a branch or a call, so that loops around it vectorise."""
    scaled = max(x, F(-87.0)) * F(1.4426950408889634)
    whole = np.floor(scaled)
    part = scaled - whole
    # 2^part on [0, 1): a polynomial with the smallest largest relative error that is 1 at 0.
    series = F(1.0) + part * (
        F(0.69315308) + part * (F(0.24015361) + part * (F(0.05582633) + part * (F(0.00898934) + part * F(0.00187757))))
    )
    return series * _float_from_bits(np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)))
