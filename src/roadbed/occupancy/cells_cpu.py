# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of the measurement update: masses of every cell, and of the particles in it.

Masses per cell: S static, D dynamic, E empty, U unknown = 1 - S - D - E. Grids are float32 of shape (rows, columns).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from numba import njit, prange

from roadbed.occupancy.model import (
    ARRIVAL_CEILING,
    CEILING,
    CLEAR,
    HIT,
    MATURING,
    NO_SURFACE,
    NORMALISE,
    NOTHING_LEFT,
    ODDS,
    OLDEST,
    SUBCELLS,
    SURFACE_REACH,
    WAS_EMPTY,
    WATCHED,
)


class CellRates(NamedTuple):
    """FilterConfig for one time step, as plain numbers; see there."""

    keep_static: float  # exp(-dt / tau_S)
    keep_free: float  # exp(-dt / tau_E)
    vacated: float  # 1: vacated mass becomes empty, 0: unknown
    empty_to_static: float  # e_ES
    empty_to_dynamic: float  # e_ED
    static_to_dynamic: float  # e_SD
    dynamic_to_static: float  # e_DS
    inverse_stop_speed: float  # 1 / (2 v_s^2)
    survival: float  # p_S
    unobserved_loss: float
    hit_static: float  # k_S, k_D in hit cells
    hit_dynamic: float
    free_static: float  # k_S, k_D elsewhere
    free_dynamic: float
    maturity_begin: float  # s; infinite when the rule is off
    maturity_span: float  # s
    maturity_static: float  # e_ES beside mature cells
    maturity_decay: float
    time_step: float  # s
    surface_precision: float  # 1 / (2 sigma^2) in subcells; 0: particles of a cell are not told apart
    surface_floor: float


@njit(cache=True, inline="always")
def forget_and_vacate(s, d, e, seen, rates):
    """P7, P8: unseen masses fade; what was dynamic moved on with its particles and leaves a visible cell empty."""
    if seen <= 0:
        s *= rates.keep_static
        e *= rates.keep_free
    e += rates.vacated * seen * d
    total = s + e
    if total > 1:
        s /= total
        e /= total
    return s, e


@njit(cache=True, inline="always")
def mature_neighbour(maturity, row, column, radius, rates):
    """Weight in [0, 1] of the oldest static cell within `radius` cells: 0 none, 1 has been there for long."""
    full = rates.maturity_begin + rates.maturity_span
    oldest = maturity[row, column]
    if oldest >= full:
        return 1.0
    for r in range(max(row - radius, 0), min(row + radius + 1, maturity.shape[0])):
        for c in range(max(column - radius, 0), min(column + radius + 1, maturity.shape[1])):
            oldest = max(oldest, maturity[r, c])
        if oldest >= full:
            return 1.0
    return min(max((oldest - rates.maturity_begin) / rates.maturity_span, 0.0), 1.0)


@njit(cache=True, inline="always")
def matured(q, s, p_z, seen, rates):
    """Seconds of static life of a cell after the update."""
    if p_z > HIT and s > MATURING:
        return min(q + rates.time_step, OLDEST)
    if seen > WATCHED and p_z < CLEAR:
        return q * rates.maturity_decay
    return q


@njit(cache=True, inline="always")
def transit(s, e, mature, rates):
    """P9 in hit cells: empty and static mass become static or newborn dynamic mass."""
    e_sd = rates.static_to_dynamic
    e_ed = rates.empty_to_dynamic * (1 - mature)
    e_es = rates.empty_to_static + mature * (rates.maturity_static - rates.empty_to_static)
    born = e_sd * s + e_ed * e
    s = (1 - e_sd) * s + e_es * e
    e = (1 - e_es - e_ed) * e
    return s, e, born


@njit(cache=True, inline="always")
def compose(mode, s, arriving, e, born, u):
    """P10: static and arriving dynamic mass exclude each other; the other masses fill the rest."""
    if mode == NORMALISE:
        total = s + arriving + e + born + u
        return s / total, arriving / total, e / total, born / total, u / total
    if mode == ODDS:
        d = min(arriving, ARRIVAL_CEILING)
        only_static, only_dynamic, neither = s * (1 - d), d * (1 - s), (1 - s) * (1 - d)
        total = only_static + only_dynamic + neither
        s, d, rest = only_static / total, only_dynamic / total, neither / total
    else:
        d = min(arriving, 1 - s)
        rest = 1 - s - d
    others = e + born + u
    if others <= NOTHING_LEFT:
        return s + rest, d, 0.0, 0.0, 0.0
    scale = rest / others
    return s, d, e * scale, born * scale, u * scale


@njit(cache=True, inline="always")
def resolve_unknown(s, e, born, u, seen, hit, mature, rates):
    """U1: looking at unknown mass makes it static, dynamic or empty."""
    k = seen * u
    if hit:
        k_d = rates.hit_dynamic * (1 - mature)
        k_s = rates.hit_static + rates.hit_dynamic * mature
    else:
        k_s, k_d = rates.free_static, rates.free_dynamic
    return s + k_s * k, e + (1 - k_s - k_d) * k, born + k_d * k, u - k


@njit(cache=True, parallel=True)
def test_particles(count, cell, origin, tested, free, probability, observedness, memory):
    """Note which particles stood a test: they moved onto something that was empty before, or away from where it is
    empty now. Particles inside a large object are not tested, whatever their velocity."""
    columns = free.shape[1]
    for i in prange(count):
        tested[i] *= memory
        here, before = cell[i], origin[i]
        row, column = here // columns, here % columns
        if here == before or before < 0 or probability[row, column] <= HIT:
            continue
        old_row, old_column = before // columns, before % columns
        arrived = free[row, column] > WAS_EMPTY
        left = probability[old_row, old_column] < CLEAR and observedness[old_row, old_column] > WATCHED
        if arrived or left:
            tested[i] = 1


@njit(cache=True, inline="always")
def surface_likelihood(surface, x, y, rates):
    """How well a particle at (x, y), in subcells, lies on what was hit: 1 on a return, `surface_floor` far from any."""
    rows, columns = surface.shape
    column, row = int(x), int(y)
    nearest = NO_SURFACE
    for r in range(max(row - SURFACE_REACH, 0), min(row + SURFACE_REACH + 1, rows * SUBCELLS)):
        for c in range(max(column - SURFACE_REACH, 0), min(column + SURFACE_REACH + 1, columns * SUBCELLS)):
            bits = surface[r // SUBCELLS, c // SUBCELLS]
            if (bits >> ((r % SUBCELLS) * SUBCELLS + c % SUBCELLS)) & 1:
                nearest = min(nearest, (c + 0.5 - x) ** 2 + (r + 0.5 - y) ** 2)
    return rates.surface_floor + (1 - rates.surface_floor) * math.exp(-nearest * rates.surface_precision)


@njit(cache=True, parallel=True)
def update_measurement(
    mode, static, dynamic, free, maturity_prior, probability, observedness, surface, radius, rates, subcells_per_metre,
    start, position_x, position_y, velocity_x, velocity_y, mass, out_static, out_dynamic, out_free, out_maturity, birth,
):  # fmt: skip
    """Priors and particles meet the observation grid. Particles are sorted: cell c owns [start[c], start[c + 1]).

    Changes `mass` in place; `birth` is the newborn part of the dynamic mass.
    """
    height, width = static.shape
    for row in prange(height):
        for column in range(width):
            cell = row * width + column
            seen = observedness[row, column]
            p_z = probability[row, column]
            hit = p_z > HIT
            s, e = forget_and_vacate(static[row, column], dynamic[row, column], free[row, column], seen, rates)
            u = 1 - s - e

            # P3-P5: survival, stopping, arrival of the particles in this cell.
            stopped = arriving = 0.0
            survive = rates.survival * (1 - rates.unobserved_loss * (1 - seen))
            for i in range(start[cell], start[cell + 1]):
                m = mass[i] * survive
                speed2 = velocity_x[i] * velocity_x[i] + velocity_y[i] * velocity_y[i]
                stop = rates.dynamic_to_static * math.exp(-speed2 * rates.inverse_stop_speed)
                stopped += stop * m
                m *= 1 - stop
                mass[i] = m
                arriving += m

            born = mature = 0.0
            if hit:
                mature = mature_neighbour(maturity_prior, row, column, radius, rates)
                s, e, born = transit(s, e, mature, rates)
            s = min(s + stopped, CEILING)
            s, d, e, born, u = compose(mode, s, arriving, e, born, u)
            s, e, born, u = resolve_unknown(s, e, born, u, seen, hit, mature, rates)

            # Particles of a hit cell compete for the surface seen in it; the cell's mass is not touched by this.
            if hit and arriving > 0 and rates.surface_precision > 0 and surface[row, column] != 0:
                kept = 0.0
                for i in range(start[cell], start[cell + 1]):
                    x, y = position_x[i] * subcells_per_metre, position_y[i] * subcells_per_metre
                    mass[i] *= surface_likelihood(surface, x, y, rates)
                    kept += mass[i]
                for i in range(start[cell], start[cell + 1]):
                    mass[i] *= arriving / kept

            # U2, U3: likelihoods p_z for occupied, 1 - p_z for empty, 1/2 for unknown.
            z = p_z * (s + d + born) + (1 - p_z) * e + 0.5 * u
            gain = p_z / z
            if arriving > 0:
                factor = gain * d / arriving
                for i in range(start[cell], start[cell + 1]):
                    mass[i] *= factor
            s = min(s * gain, CEILING)
            out_static[row, column] = s
            out_dynamic[row, column] = (d + born) * gain
            out_free[row, column] = min((1 - p_z) * e / z, CEILING)
            birth[row, column] = born * gain

            out_maturity[row, column] = matured(maturity_prior[row, column], s, p_z, seen, rates)
