# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that pool the sensors' grids, cell by cell. Shapes: (sensors, cells) in, (cells,) out."""

from __future__ import annotations

import math

from roadbed.compute.cpu import U
from roadbed.compute.kernels import njit
from roadbed.occupancy.model import DEMPSTER, FULL_CONFLICT, INDEPENDENT, LINEAR, LOGARITHMIC, NO_OPINION


@njit(cache=True, inline="always")
def _log_odds(p):
    return math.log(p / (1 - p))


@njit(cache=True, inline="always")
def _from_log_odds(l):
    return 1 / (1 + math.exp(-l))


@njit(cache=True, nogil=True)
def pool(first, last, rule, probability, observedness, reliability, clip, out_probability, out_observedness):
    """Pool by one of the rules above; `reliability` (sensors,) already holds the age discount."""
    sensors = probability.shape[0]
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
            if rule == LINEAR:
                weighted += w * p
            elif rule == DEMPSTER:
                occupied, free, unknown = _combine(occupied, free, unknown, w * p, w * (1 - p), 1 - w)
            else:
                weighted += w * _log_odds(p)
        out_observedness[cell] = 1 - unseen
        fused = 0.5
        if total >= NO_OPINION:
            if rule == LINEAR:
                fused = weighted / total
            elif rule == INDEPENDENT:
                fused = _from_log_odds(weighted)
            elif rule == LOGARITHMIC:
                fused = _from_log_odds(weighted / total)
            else:
                fused = occupied + 0.5 * unknown
        out_probability[cell] = min(max(fused, clip), 1 - clip)


@njit(cache=True, inline="always")
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
