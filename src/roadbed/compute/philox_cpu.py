# SPDX-License-Identifier: Apache-2.0
"""Random numbers as `compute/philox.py` defines them, for Numba kernels. Twin: philox.cl."""

from __future__ import annotations

import math

import numpy as np

from roadbed.compute import philox as contract
from roadbed.compute.kernels import njit

# Words are held in 64 bits, so that a product is there as a whole.
_U = np.uint64
_ROUNDS = contract.PHILOX_ROUNDS
_MULTIPLIER_0, _MULTIPLIER_1 = _U(contract.PHILOX_MULTIPLIER_0), _U(contract.PHILOX_MULTIPLIER_1)
_WEYL_0, _WEYL_1 = _U(contract.PHILOX_WEYL_0), _U(contract.PHILOX_WEYL_1)
_LOW_WORD, _WORD_BITS = _U(0xFFFFFFFF), _U(32)
_SHIFT = _U(contract.UNIFORM_SHIFT)
_STEP, _FIRST, _LAST = contract.UNIFORM_STEP, contract.UNIFORM_FIRST, contract.UNIFORM_LAST
_TWO_PI = contract.TWO_PI


@njit(cache=True, inline="always")
def philox(c0, c1, c2, c3, k0, k1):
    """Four 32-bit words (as uint64) from a counter of four words and a key of two."""
    for _ in range(_ROUNDS):
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
def random_words(seed, frame, stream, index):
    """Four words, for a draw of a stream."""
    return philox(np.uint64(index), np.uint64(frame), np.uint64(stream), np.uint64(0), np.uint64(seed), np.uint64(0))


@njit(cache=True, inline="always")
def uniform_of(word):
    """A float32 strictly between 0 and 1. Adding half a step rounds to 1 at the very end, hence the limit."""
    return min(np.float32(word >> _SHIFT) * _STEP + _FIRST, _LAST)


@njit(cache=True, inline="always")
def uniforms(seed, frame, stream, index):
    """Four uniform numbers."""
    a, b, c, d = random_words(seed, frame, stream, index)
    return uniform_of(a), uniform_of(b), uniform_of(c), uniform_of(d)


@njit(cache=True, inline="always")
def normals(seed, frame, stream, index):
    """Four standard normal numbers (Box-Muller)."""
    a, b, c, d = uniforms(seed, frame, stream, index)
    radius_0 = np.float32(math.sqrt(np.float32(-2) * np.float32(math.log(a))))
    radius_1 = np.float32(math.sqrt(np.float32(-2) * np.float32(math.log(c))))
    angle_0 = _TWO_PI * b
    angle_1 = _TWO_PI * d
    return (
        radius_0 * np.float32(math.cos(angle_0)),
        radius_0 * np.float32(math.sin(angle_0)),
        radius_1 * np.float32(math.cos(angle_1)),
        radius_1 * np.float32(math.sin(angle_1)),
    )
