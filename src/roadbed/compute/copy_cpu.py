# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Copy an array by several threads."""

from __future__ import annotations

from numba import njit, prange

_PARTS = 8


@njit(parallel=True, cache=True)
def copy(target, source):
    n = source.shape[0]
    for part in prange(_PARTS):
        for i in range(part * n // _PARTS, (part + 1) * n // _PARTS):
            target[i] = source[i]
