# SPDX-License-Identifier: Apache-2.0
"""The filter's equations for the masses of one cell, as functions of numbers. The device's: cells.cl.

Masses per cell: s static, d dynamic, e empty, u unknown = 1 - s - d - e; `born` is newborn dynamic mass.
"""

from roadbed.kernels.jit import inlined
from roadbed.kernels.numeric import min
from roadbed.occupancy.hsbof.model import (
    ARRIVAL_CEILING,
    CEILING,
    LONGEST_FREE,
    MATURING,
    NOTHING_LEFT,
    OLDEST,
    PROBABLY_FREE,
)
from roadbed.occupancy.model import CLEAR, HIT, OBSERVED


@inlined()
def forget_and_vacate(s, d, e, seen, rules):
    """P7, P8: unseen masses fade; dynamic mass has moved on with its particles and leaves a visible cell empty.

    The sum of both may still exceed 1: see `limit_sum`.
    """
    if seen <= 0:
        s *= rules.keep_static
        # Unseen space may be entered at any moment: it stays probably free, but not surely.
        probable = min(e, PROBABLY_FREE)
        e = probable * rules.keep_free + (e - probable) * rules.keep_sure
    return s, e + rules.vacated * seen * d


@inlined()
def limit_sum(s, e):
    """Static and empty mass, together not more than 1."""
    total = s + e
    return (s / total, e / total) if total > 1 else (s, e)


@inlined()
def seen_free(seconds, p_z, seen, rules):
    """Seconds in which a cell was seen free, after the update."""
    if p_z > HIT:
        return seconds * rules.free_decay
    if seen > OBSERVED and p_z < CLEAR:
        return min(seconds + rules.time_step, LONGEST_FREE)
    return seconds


@inlined()
def matured(q, s, p_z, seen, rules):
    """Seconds of static life of a cell after the update."""
    if p_z > HIT and s > MATURING:
        return min(q + rules.time_step, OLDEST)
    if seen > OBSERVED and p_z < CLEAR:
        return q * rules.maturity_decay
    return q


@inlined()
def transit(s, e, mature, beside, rules):
    """P9: empty and static mass become static or newborn dynamic mass, more of it `beside` moving cells."""
    e_sd = rules.static_to_dynamic
    e_ed = (rules.beside if beside else rules.empty_to_dynamic) * (1 - mature)
    e_es = rules.empty_to_static + mature * (rules.maturity_static - rules.empty_to_static)
    born = e_sd * s + e_ed * e
    s = (1 - e_sd) * s + e_es * e
    e = (1 - e_es - e_ed) * e
    return s, e, born


@inlined()
def claim(s, u, seen, tested, rules):
    """Unknown mass of a hit cell is static rather than what arrives there, but for the share that was `tested`."""
    claimed = rules.claimed * (1 - tested) * seen * u
    return s + claimed, u - claimed


@inlined()
def compose(s, arriving, e, born, u, rules):
    """P10: static and arriving dynamic mass exclude each other; the other masses fill the rest."""
    if not rules.exclusive:
        total = s + arriving + e + born + u
        return s / total, arriving / total, e / total, born / total, u / total
    d = min(arriving, ARRIVAL_CEILING)
    only_static, only_dynamic, neither = s * (1 - d), d * (1 - s), (1 - s) * (1 - d)
    total = only_static + only_dynamic + neither
    s, d, rest = only_static / total, only_dynamic / total, neither / total
    others = e + born + u
    if others <= NOTHING_LEFT:
        return s + rest, d, 0.0, 0.0, 0.0
    scale = rest / others
    return s, d, e * scale, born * scale, u * scale


@inlined()
def compose_without_arrivals(s, e, born, u, rules):
    """P10 where no particle is; s + (1 - s) is 1 to the last bit, so nothing has to be divided."""
    if not rules.exclusive:
        total = s + e + born + u
        return s / total, e / total, born / total, u / total
    rest, others = 1 - s, e + born + u
    if others <= NOTHING_LEFT:
        return s + rest, 0.0, 0.0, 0.0
    scale = rest / others
    return s, e * scale, born * scale, u * scale


@inlined()
def resolve_unknown(s, e, born, u, seen, hit, mature, rules):
    """U1: observing unknown mass makes it static, dynamic or empty; without `keep_unknown` every step does."""
    k = seen * u if rules.keep_unknown else u
    if hit:
        k_d = rules.hit_dynamic * (1 - mature)
        k_s = rules.hit_static + rules.hit_dynamic * mature
    else:
        k_s, k_d = rules.free_static, rules.free_dynamic
    return s + k_s * k, e + (1 - k_s - k_d) * k, born + k_d * k, u - k


@inlined()
def bayes_update(s, d, e, born, u, p_z):
    """U2, U3: likelihoods p_z for occupied, 1 - p_z for empty, 1/2 for unknown. Static and empty mass after the update,
    and the gain of what is dynamic."""
    z = p_z * (s + d + born) + (1 - p_z) * e + 0.5 * u
    gain = p_z / z
    return min(s * gain, CEILING), min((1 - p_z) * e / z, CEILING), gain
