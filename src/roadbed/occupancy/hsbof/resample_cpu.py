# SPDX-License-Identifier: Apache-2.0
"""Systematic resampling in integers, which births and resampling share. The device's: resample.cl.

Masses are counted in units of 1 / MASS_UNIT, so that sums and draws do not depend on the order of additions.
"""

import numpy as np

from roadbed.kernels.jit import inlined
from roadbed.occupancy.hsbof.model import MASS_UNIT, OFFSET_BITS, OFFSET_SPLIT, SYSTEMATIC
from roadbed.runtime.philox_cpu import random_words

_I = np.int64


@inlined()
def units(mass):
    """A mass in integer units."""
    return _I(mass * MASS_UNIT)


@inlined()
def start_draw(total, draws, draw, which):
    """Stride of `draws` equidistant positions over `total` units, as quotient and remainder, and the first position."""
    stride, rest = total // draws, total % draws
    word = random_words(draw.seed, draw.frame, SYSTEMATIC, which)[0]
    chance = _I(word >> np.uint64(32 - OFFSET_BITS)) | _I(1)  # odd: strictly between 0 and 1, in 2^-OFFSET_BITS
    low = stride & _I((1 << OFFSET_SPLIT) - 1)
    offset = ((stride >> OFFSET_SPLIT) * chance >> (OFFSET_BITS - OFFSET_SPLIT)) + (low * chance >> OFFSET_BITS)
    return stride, rest, offset


@inlined()
def next_position(position, carried, stride, rest, draws):
    """The position of the next draw, and the remainder carried on: draw k is at k stride + k rest // draws + offset.

    Adding up is many times as fast as dividing for each.
    """
    carried += rest
    if carried >= draws:
        return position + stride + 1, carried - draws
    return position + stride, carried
