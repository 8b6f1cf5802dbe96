# SPDX-License-Identifier: Apache-2.0
"""The measurement update of cells without evidence, which were not hit and hold no particle: most of a grid.

Cells are processed in blocks that are copied to one array first: the compiler then knows that layers do not overlap,
and turns the loop without branches into vector instructions.
"""

import numpy as np

from roadbed.kernels.jit import inlined, inner, merged
from roadbed.kernels.numeric import NO, U, min
from roadbed.kernels.scratch import scratch
from roadbed.occupancy.hsbof.masses_cpu import (
    bayes_update,
    compose_without_arrivals,
    forget_and_vacate,
    limit_sum,
    matured,
    resolve_unknown,
    seen_free,
    transit,
)
from roadbed.occupancy.hsbof.model import CEILING

_BLOCK = 256  # cells
# Offsets of a block's layers in that array: first inputs, then outputs. Where nothing is known all inputs but the
# probability are 0.
_P_Z, _SEEN, _S, _D, _E, _AGE, _FREE, _NEW_S, _NEW_D, _NEW_E, _NEW_AGE, _NEW_FREE = (U(k * _BLOCK) for k in range(12))
_ROOM, _FADED_ROOM = 12 * _BLOCK, 2 * _BLOCK


@inner(error_model="numpy")
def update_without_evidence(first, last, prior, observation, rules, out, birth):
    """Masses of a range of cells as if none had evidence; those that have are updated afterwards."""
    block, faded = scratch(_ROOM, np.float32), scratch(_FADED_ROOM, np.float64)
    probability, observedness = observation.probability.reshape(-1), observation.observedness.reshape(-1)
    static, dynamic, free = prior.static.reshape(-1), prior.dynamic.reshape(-1), prior.free.reshape(-1)
    maturity, known_free = prior.maturity.reshape(-1), prior.known_free.reshape(-1)
    new_static, new_dynamic, new_free = out.static.reshape(-1), out.dynamic.reshape(-1), out.free.reshape(-1)
    new_maturity, new_known_free, newborn = out.maturity.reshape(-1), out.known_free.reshape(-1), birth.reshape(-1)
    for begin in range(first, last, _BLOCK):
        count = U(min(_BLOCK, last - begin))
        bring(block, _P_Z, probability, U(begin), count)
        bring(block, _SEEN, observedness, U(begin), count)
        bring(block, _S, static, U(begin), count)
        bring(block, _D, dynamic, U(begin), count)
        bring(block, _E, free, U(begin), count)
        bring(block, _AGE, maturity, U(begin), count)
        bring(block, _FREE, known_free, U(begin), count)
        if rules.keep_unknown and _nothing_known(block):
            block[_NEW_S:] = 0
        else:
            _fade(block, faded, rules)
            _update_block(block, faded, rules)
        take(block, _NEW_S, new_static, U(begin), count)
        take(block, _NEW_D, new_dynamic, U(begin), count)
        take(block, _NEW_E, new_free, U(begin), count)
        take(block, _NEW_AGE, new_maturity, U(begin), count)
        take(block, _NEW_FREE, new_known_free, U(begin), count)
        take(block, _NEW_D, newborn, U(begin), count)


@inlined()
def bring(block, at, layer, begin, count):
    """Copy `count` numbers of a layer into the block, to the offset `at`."""
    for i in range(count):
        block[at + i] = layer[begin + i]


@inlined()
def take(block, at, layer, begin, count):
    """Copy them back."""
    for i in range(count):
        layer[begin + i] = block[at + i]


@merged()
def _nothing_known(block):
    """Whether no cell of a block is or was observed: it then stays unknown."""
    some = False
    for i in range(U(_BLOCK), U(7 * _BLOCK)):
        some |= block[i] != 0
    return not some


@merged()
def _fade(block, faded, rules):
    """P7, P8 of a block: static and free mass, to `faded`; few blocks need the division that limits their sum."""
    full = False
    for i in range(U(_BLOCK)):
        s, d, e, seen = block[_S + i], block[_D + i], block[_E + i], block[_SEEN + i]
        s, e = forget_and_vacate(float(s), float(d), float(e), float(seen), rules)
        faded[i] = s
        faded[U(_BLOCK) + i] = e
        full |= s + e > 1
    for i in range(U(_BLOCK if full else 0)):
        s, e = limit_sum(faded[i], faded[U(_BLOCK) + i])
        faded[i] = s
        faded[U(_BLOCK) + i] = e


@inlined()
def _update_block(block, faded, rules):
    for i in range(U(_BLOCK)):
        p_z, seen = float(block[_P_Z + i]), float(block[_SEEN + i])
        s, e = faded[i], faded[U(_BLOCK) + i]
        u = 1 - s - e
        born = 0.0
        if not rules.hits_only:
            s, e, born = transit(s, e, 0.0, NO, rules)
        s, e, born, u = compose_without_arrivals(min(s, CEILING), e, born, u, rules)
        s, e, born, u = resolve_unknown(s, e, born, u, seen, NO, 0.0, rules)
        s, e, gain = bayes_update(s, 0.0, e, born, u, p_z)
        block[_NEW_S + i] = s
        block[_NEW_D + i] = born * gain
        block[_NEW_E + i] = e
        block[_NEW_FREE + i] = seen_free(float(block[_FREE + i]), p_z, seen, rules)
        block[_NEW_AGE + i] = matured(float(block[_AGE + i]), s, p_z, seen, rules)
