# SPDX-License-Identifier: Apache-2.0
"""Random numbers as defined in `runtime/philox.py`, for Numba kernels. Device twin: philox.cl.

There are no branches, so that LLVM vectorises loops over draws.
"""

import math

import numpy as np

from roadbed.kernels.jit import inlined, merged
from roadbed.kernels.numeric import bits_of_float, float_from_bits, min
from roadbed.runtime import philox as contract

# 32-bit words in 64-bit integers: products do not overflow.
_U = np.uint64
_ROUNDS = contract.PHILOX_ROUNDS
_MULTIPLIER_0, _MULTIPLIER_1 = _U(contract.PHILOX_MULTIPLIER_0), _U(contract.PHILOX_MULTIPLIER_1)
_WEYL_0, _WEYL_1 = _U(contract.PHILOX_WEYL_0), _U(contract.PHILOX_WEYL_1)
_LOW_WORD, _WORD_BITS = _U(0xFFFFFFFF), _U(32)
_SHIFT = _U(contract.UNIFORM_SHIFT)
_STEP, _FIRST, _LAST = contract.UNIFORM_STEP, contract.UNIFORM_FIRST, contract.UNIFORM_LAST
_TWO_PI, _ROOT_HALF = contract.TWO_PI, contract.ROOT_HALF
_LOG, _SINE, _COSINE = contract.LOG_SERIES, contract.SINE_SERIES, contract.COSINE_SERIES
_LOG_2_HIGH, _LOG_2_LOW = contract.LOG_2_HIGH, contract.LOG_2_LOW
_F, _I = np.float32, np.int32


@merged()
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


@inlined()
def random_words(seed, frame, stream, index):
    """The four words of draw `index` of a stream."""
    # The masks show LLVM that words have 32 bits, so that it vectorises the products.
    counter, key = np.uint64(index) & _LOW_WORD, np.uint64(seed) & _LOW_WORD
    return philox(counter, np.uint64(frame) & _LOW_WORD, np.uint64(stream), np.uint64(0), key, np.uint64(0))


@inlined()
def uniform_of(word):
    """A float32 strictly between 0 and 1: adding half a step can round to 1, hence the limit."""
    return min(np.float32(np.int32(word >> _SHIFT)) * _STEP + _FIRST, _LAST)


@inlined()
def uniforms(seed, frame, stream, index):
    """Four uniform numbers."""
    a, b, c, d = random_words(seed, frame, stream, index)
    return uniform_of(a), uniform_of(b), uniform_of(c), uniform_of(d)


@inlined()
def logarithm(u):
    """Logarithm of a number between 0 and 1."""
    bits = bits_of_float(u)
    exponent = (bits >> _I(23)) - _I(126)
    mantissa = float_from_bits((bits & _I(0x7FFFFF)) | _I(0x3F000000))  # in [0.5, 1)
    low = mantissa < _ROOT_HALF
    exponent -= _I(low)
    m = (mantissa + mantissa if low else mantissa) - _F(1)
    square, e = m * m, _F(exponent)
    p = _LOG[0] * m
    for k in range(1, 9):
        p = (p + _LOG[k]) * m
    p = p * square
    p = p + e * _LOG_2_LOW
    p = p - _F(0.5) * square
    return (m + p) + e * _LOG_2_HIGH


@inlined()
def cos_sin_turns(u):
    """Cosine and sine of an angle in turns, between 0 and 1."""
    quarters = np.floor(_F(4) * u + _F(0.5))
    angle = _TWO_PI * (u - _F(0.25) * quarters)
    z = angle * angle
    sine = ((_SINE[0] * z + _SINE[1]) * z + _SINE[2]) * z * angle + angle
    cosine = ((_COSINE[0] * z + _COSINE[1]) * z + _COSINE[2]) * z * z - _F(0.5) * z + _F(1)
    quadrant = _I(quarters) & _I(3)
    crosswise = (quadrant & _I(1)) != 0
    first, second = (sine if crosswise else cosine), (cosine if crosswise else sine)
    left, lower = (quadrant == 1) | (quadrant == 2), quadrant >= 2
    return (-first if left else first), (-second if lower else second)


@inlined()
def normals(seed, frame, stream, index):
    """Four standard normal numbers (Box-Muller)."""
    a, b, c, d = uniforms(seed, frame, stream, index)
    radius_0, radius_1 = _F(math.sqrt(_F(-2) * logarithm(a))), _F(math.sqrt(_F(-2) * logarithm(c)))
    cosine_0, sine_0 = cos_sin_turns(b)
    cosine_1, sine_1 = cos_sin_turns(d)
    return radius_0 * cosine_0, radius_0 * sine_0, radius_1 * cosine_1, radius_1 * sine_1
