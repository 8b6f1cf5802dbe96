# SPDX-License-Identifier: Apache-2.0
"""The systematic draw that births and resampling share, in whole numbers. Twin: resample.cl.

Masses are counted in units of 1 / MASS_UNIT: a sum is then the same in any order, and so is every draw, on any machine.
"""

from __future__ import annotations

import numpy as np

from roadbed.kernels.jit import inlined
from roadbed.occupancy.model import MASS_UNIT, OFFSET_BITS, OFFSET_SPLIT, SYSTEMATIC
from roadbed.runtime.philox_cpu import random_words

_I = np.int64


@inlined()
def units(mass):
    """A mass in whole units."""
    return _I(mass * MASS_UNIT)


@inlined()
def comb(total, wanted, draw, which):
    """`wanted` teeth over a length of `total` units: whole part and rest of their distance, and where the first is."""
    step, rest = total // wanted, total % wanted
    word = random_words(draw.seed, draw.frame, SYSTEMATIC, which)[0]
    chance = _I(word >> np.uint64(32 - OFFSET_BITS)) | _I(1)  # odd: strictly between 0 and 1, in 2^-OFFSET_BITS
    low = step & _I((1 << OFFSET_SPLIT) - 1)
    offset = ((step >> OFFSET_SPLIT) * chance >> (OFFSET_BITS - OFFSET_SPLIT)) + (low * chance >> OFFSET_BITS)
    return step, rest, offset


@inlined()
def next_tooth(place, carried, step, rest, wanted):
    """Where the tooth after `place` stands, and what is carried: tooth k is at k step + k rest // wanted + offset, and
    what covers this place is drawn. Counting on is many times as fast as dividing for each."""
    carried += rest
    if carried >= wanted:
        return place + step + 1, carried - wanted
    return place + step, carried
