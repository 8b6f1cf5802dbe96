# SPDX-License-Identifier: Apache-2.0
"""Random numbers without state: Philox 4x32-10 (Salmon et al. 2011), one contract for the CPU and every device.

Counter (index, frame, stream, 0), key (seed, 0), words of 32 bits; the same numbers in any order, on any machine.
`philox_cpu.py` and `philox.cl` implement it with the numbers below, each written once.
"""

from __future__ import annotations

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

DEFINITIONS = MappingProxyType(
    {name: value for name, value in globals().items() if isinstance(value, (int, np.generic)) and name[0] != "_"}
)
