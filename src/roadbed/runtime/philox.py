# SPDX-License-Identifier: Apache-2.0
"""Random numbers without state: Philox 4x32-10 (Salmon et al. 2011), defined once for the CPU and devices.

Counter (index, frame, stream, 0), key (seed, 0), words of 32 bits; draws are the same in any order and on any machine.
`philox_cpu.py` and `philox.cl` implement it with the constants below.
"""

import math
from types import MappingProxyType

import numpy as np

PHILOX_ROUNDS = 10
PHILOX_MULTIPLIER_0, PHILOX_MULTIPLIER_1 = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
PHILOX_WEYL_0, PHILOX_WEYL_1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)

# A word's upper 24 bits as a number strictly between 0 and 1: both log(u) and log(1 - u) are finite.
UNIFORM_SHIFT = 8
UNIFORM_STEP, UNIFORM_FIRST, UNIFORM_LAST = np.float32(2.0**-24), np.float32(2.0**-25), np.float32(1 - 2.0**-24)
TWO_PI = np.float32(2 * math.pi)

# Logarithm, sine and cosine by sums and products alone (the coefficients are those of Cephes, errors below one unit in
# the last place): libraries differ in their last bits, and a normal number must not.
LOG_SERIES = tuple(
    np.float32(c)
    for c in (
        7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )
)  # fmt: skip
LOG_2_HIGH, LOG_2_LOW, ROOT_HALF = np.float32(0.693359375), np.float32(-2.12194440e-4), np.float32(0.70710678)
SINE_SERIES = tuple(np.float32(c) for c in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1))
COSINE_SERIES = tuple(np.float32(c) for c in (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2))

_SERIES = {"LOG": LOG_SERIES, "SINE": SINE_SERIES, "COSINE": COSINE_SERIES}
DEFINITIONS = MappingProxyType(
    {name: value for name, value in globals().items() if isinstance(value, (int, np.generic)) and name[0] != "_"}
    | {f"{name}_{k}": value for name, series in _SERIES.items() for k, value in enumerate(series)}
)
