# SPDX-License-Identifier: Apache-2.0
"""Counter-based random numbers: Philox 4x32-10 (Salmon et al. 2011), a function of (seed, frame, stream, index)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)
_WEYL_1 = np.uint64(0xBB67AE85)
_LOW_WORD = np.uint64(0xFFFFFFFF)
_WORD_BITS = np.uint64(32)
_UNIT = np.float32(2.0**-24)
_HALF_UNIT = np.float32(2.0**-25)

# Streams keep the draws of different steps apart.
PROPAGATE, BIRTH_PLACE, BIRTH_VELOCITY, BIRTH_TRAFFIC, BIRTH_SEED, BIRTH_SEED_SPREAD, SYSTEMATIC = range(7)


@njit(cache=True, inline="always")
def philox(c0, c1, c2, c3, k0, k1):
    """Four 32-bit words (as uint64) from a counter of four words and a key of two."""
    for _ in range(10):
        product_0 = _MULTIPLIER_0 * c0
        product_1 = _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = (
            (product_1 >> _WORD_BITS) ^ c1 ^ k0,
            product_1 & _LOW_WORD,
            (product_0 >> _WORD_BITS) ^ c3 ^ k1,
            product_0 & _LOW_WORD,
        )
        k0 = (k0 + _WEYL_0) & _LOW_WORD
        k1 = (k1 + _WEYL_1) & _LOW_WORD
    return c0, c1, c2, c3


@njit(cache=True, inline="always")
def uniform(word):
    """A float32 strictly between 0 and 1 from a 32-bit word."""
    return np.float32(word >> np.uint64(8)) * _UNIT + _HALF_UNIT


@njit(cache=True, inline="always")
def uniforms(seed, frame, stream, index):
    """Four uniform numbers."""
    a, b, c, d = philox(
        np.uint64(index), np.uint64(frame), np.uint64(stream), np.uint64(0), np.uint64(seed), np.uint64(0)
    )
    return uniform(a), uniform(b), uniform(c), uniform(d)


@njit(cache=True, inline="always")
def normals(seed, frame, stream, index):
    """Four standard normal numbers (Box-Muller)."""
    a, b, c, d = uniforms(seed, frame, stream, index)
    radius_0 = np.float32(math.sqrt(np.float32(-2) * np.float32(math.log(a))))
    radius_1 = np.float32(math.sqrt(np.float32(-2) * np.float32(math.log(c))))
    angle_0 = np.float32(2 * math.pi) * b
    angle_1 = np.float32(2 * math.pi) * d
    return (
        radius_0 * np.float32(math.cos(angle_0)),
        radius_0 * np.float32(math.sin(angle_0)),
        radius_1 * np.float32(math.cos(angle_1)),
        radius_1 * np.float32(math.sin(angle_1)),
    )
