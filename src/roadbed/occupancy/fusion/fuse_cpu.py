# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that fuse the sensors' grids cell by cell. Shapes: (sensors, cells) in, (cells,) out."""

import math

import numpy as np

from roadbed.kernels.jit import merged, njit
from roadbed.kernels.numeric import U, max, min
from roadbed.kernels.scratch import scratch
from roadbed.occupancy.fusion.model import DEMPSTER, FULL_CONFLICT, INDEPENDENT, LEAST_TOTAL, LINEAR, LOGARITHMIC

_BLOCK = 256  # cells
_UNSEEN, _TOTAL, _WEIGHTED = (U(k * _BLOCK) for k in range(3))  # offsets in one array
_ROOM = 3 * _BLOCK


@njit(inline="always")
def _log_odds(p):
    return math.log(p / (1 - p))


@njit(inline="always")
def _from_log_odds(l):
    return 1 / (1 + math.exp(-l))


@njit(cache=True, nogil=True, error_model="numpy")
def fuse_cells(first, last, rule, probability, observedness, reliability, clip, out_probability, out_observedness):
    """FusionStep by one of the rules above; `reliability` (sensors,) already holds the age discount."""
    sensors = probability.shape[0]
    if rule == LINEAR:
        _fuse_linearly(first, last, probability, observedness, reliability, clip, out_probability, out_observedness)
        return
    for cell in range(U(first), U(last)):
        unseen = 1.0
        total = 0.0
        weighted = 0.0
        occupied, free, unknown = 0.0, 0.0, 1.0
        for s in range(sensors):
            w = reliability[s] * observedness[s, cell]
            p = min(max(probability[s, cell], clip), 1 - clip)
            unseen *= 1 - w
            total += w
            if rule == DEMPSTER:
                occupied, free, unknown = _combine(occupied, free, unknown, w * p, w * (1 - p), 1 - w)
            else:
                weighted += w * _log_odds(p)
        out_observedness[cell] = 1 - unseen
        fused = 0.5
        if total >= LEAST_TOTAL:
            if rule == INDEPENDENT:
                fused = _from_log_odds(weighted)
            elif rule == LOGARITHMIC:
                fused = _from_log_odds(weighted / total)
            else:
                fused = occupied + 0.5 * unknown
        out_probability[cell] = min(max(fused, clip), 1 - clip)


@merged()
def _was_seen(observedness, begin, count):
    some = False
    for cell in range(begin, begin + count):
        some |= observedness[cell] > 0
    return some


@merged()
def _fuse_linearly(first, last, probability, observedness, reliability, clip, out_probability, out_observedness):
    """Linear opinion pool: means weighted by observedness, in blocks without branches that compile to vector code."""
    sums = scratch(_ROOM, np.float64)
    for begin in range(first, last, _BLOCK):
        count = min(_BLOCK, last - begin)
        sums[:_BLOCK] = 1
        sums[_BLOCK:] = 0
        for s in range(probability.shape[0]):
            if not _was_seen(observedness[s], U(begin), U(count)):
                continue  # its weight is 0
            trust = reliability[s]
            for i in range(U(count)):
                w = trust * observedness[s, U(begin) + i]
                sums[_UNSEEN + i] *= 1 - w
                sums[_TOTAL + i] += w
                sums[_WEIGHTED + i] += w * min(max(probability[s, U(begin) + i], clip), 1 - clip)
        for i in range(U(count)):
            out_observedness[U(begin) + i] = 1 - sums[_UNSEEN + i]
            fused = sums[_WEIGHTED + i] / sums[_TOTAL + i]
            fused = fused if sums[_TOTAL + i] >= LEAST_TOTAL else 0.5
            out_probability[U(begin) + i] = min(max(fused, clip), 1 - clip)


@njit(cache=True, nogil=True)
def unite(first, last, surface, out):
    """Bitwise or of all sensors' surfaces."""
    for cell in range(U(first), U(last)):
        out[cell] = surface[0, cell]
    for s in range(1, surface.shape[0]):
        for cell in range(U(first), U(last)):
            out[cell] |= surface[s, cell]


@njit(inline="always")
def _combine(o1, f1, u1, o2, f2, u2):
    """Dempster's rule on occupied, free, unknown."""
    conflict = o1 * f2 + f1 * o2
    occupied = o1 * o2 + o1 * u2 + u1 * o2
    free = f1 * f2 + f1 * u2 + u1 * f2
    unknown = u1 * u2
    if conflict > FULL_CONFLICT:
        return occupied, free, unknown + conflict
    scale = 1 / (1 - conflict)
    return occupied * scale, free * scale, unknown * scale
