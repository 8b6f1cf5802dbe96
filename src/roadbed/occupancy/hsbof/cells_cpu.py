# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of the measurement update: masses of every cell, and of the particles in it.

Masses per cell: S static, D dynamic, E empty, U unknown = 1 - S - D - E. Grids are float32 of shape (rows, columns).
"""

import math

import numpy as np

from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import U, max, min
from roadbed.occupancy.hsbof.masses_cpu import (
    bayes_update,
    claim,
    compose,
    forget_and_vacate,
    limit_sum,
    matured,
    resolve_unknown,
    seen_free,
    transit,
)
from roadbed.occupancy.hsbof.model import (
    BESIDE_CELLS,
    BESIDE_MASS,
    BESIDE_REACH,
    CEILING,
    NO_SURFACE,
    REPLACED,
    SURFACE_REACH,
    WAS_EMPTY,
)
from roadbed.occupancy.hsbof.no_evidence_cpu import update_without_evidence
from roadbed.occupancy.model import CLEAR, HIT, OBSERVED, SUBCELLS

_BLOCK = 32  # cells
_LINE = (1 << SUBCELLS) - 1  # a row of a cell's subcells, as bits


@inlined()
def maturity_around(maturity, row, column, rules):
    """Weight in [0, 1] of the longest static cell nearby: 0 none, 1 fully mature."""
    radius, full = rules.maturity_radius, rules.maturity_begin + rules.maturity_span
    oldest = maturity[row, column]
    if oldest >= full:
        return 1.0
    if full == math.inf:  # without maturity, as in the paper
        return 0.0
    for r in range(max(row - radius, 0), min(row + radius + 1, maturity.shape[0])):
        for c in range(max(column - radius, 0), min(column + radius + 1, maturity.shape[1])):
            oldest = max(oldest, maturity[r, c])
        if oldest >= full:
            return 1.0
    return min(max((oldest - rules.maturity_begin) / rules.maturity_span, 0.0), 1.0)


@inlined()
def beside_mover(dynamic, row, column):
    """Whether several cells around one were dynamic: a hit there belongs to the same moving object."""
    rows, columns = dynamic.shape
    count = 0
    for r in range(max(row - BESIDE_REACH, 0), min(row + BESIDE_REACH + 1, rows)):
        for c in range(max(column - BESIDE_REACH, 0), min(column + BESIDE_REACH + 1, columns)):
            count += dynamic[r, c] > BESIDE_MASS
    return count >= BESIDE_CELLS


@njit(cache=True, nogil=True)
def test_particles(first, last, particles, prior, observation, rules):
    """Mark particles that free space confirms: they moved into a hit cell that was free before, or out of one that is
    free now. Particles inside a large object are not tested, whatever their velocity."""
    probability, observedness = observation.probability.reshape(-1), observation.observedness.reshape(-1)
    tested, free, known_free = particles.tested, prior.free.reshape(-1), prior.known_free.reshape(-1)
    for i in range(U(first), U(last)):
        tested[i] *= rules.test_memory
        here, before = particles.cell[i], particles.origin[i]
        if here == before or before < 0 or probability[here] <= HIT:
            continue
        left = probability[before] < CLEAR and observedness[before] > OBSERVED
        was_free = known_free[here] > rules.test_free if rules.test_free > 0 else free[here] > WAS_EMPTY
        if left or was_free:
            tested[i] = 1


@njit(cache=True, forceinline=True)
def surface_likelihood(surface, x, y, rules):
    """Likelihood of a particle at (x, y), in subcells: 1 on a return, `surface_floor` far from any."""
    rows, columns = surface.shape
    left, low = int(x) - SURFACE_REACH, int(y) - SURFACE_REACH
    # The subcells around it lie in two neighbouring columns of cells.
    west, aside = left // SUBCELLS, left % SUBCELLS
    nearest = NO_SURFACE
    for k in range(2 * SURFACE_REACH + 1):
        row, line = (low + k) // SUBCELLS, (low + k) % SUBCELLS * SUBCELLS
        if row < 0 or row >= rows:
            continue
        bits = np.int64(0)
        if west >= 0:
            bits |= (np.int64(surface[row, west]) >> line) & _LINE
        if west + 1 < columns:
            bits |= ((np.int64(surface[row, west + 1]) >> line) & _LINE) << SUBCELLS
        across = (low + k + 0.5 - y) ** 2
        for i in range(2 * SURFACE_REACH + 1):
            there = (left + i + 0.5 - x) ** 2 + across
            nearest = min(nearest, there if (bits >> (aside + i)) & 1 else NO_SURFACE)
    return rules.surface_floor + (1 - rules.surface_floor) * math.exp(-nearest * rules.surface_precision)


@merged()
def _follow_registered(first, last, particles, vx, vy, rules):
    """Reweight particles by a registered velocity; their sum stays."""
    mass = particles.mass
    before = after = 0.0
    for i in range(first, last):
        dx, dy = particles.vx[i] - vx, particles.vy[i] - vy
        before += mass[i]
        near = math.exp(-(dx * dx + dy * dy) * rules.registered_precision)
        mass[i] *= rules.registered_floor + (1 - rules.registered_floor) * near
        after += mass[i]
    for i in range(first, last):
        mass[i] *= before / after


@njit(cache=True, nogil=True)
def update_measurement(first, last, prior, observation, registered, start, particles, rules, out, birth):
    """Update priors and particles with the observation grid. Cell c owns the particles [start[c], start[c + 1]).

    Changes their masses in place; `birth` is the newborn part of the dynamic mass.
    """
    update_without_evidence(first, last, prior, observation, rules, out, birth)
    probability = observation.probability.reshape(-1)
    for begin in range(first, last, _BLOCK):
        end = min(begin + _BLOCK, last)
        if start[begin] == start[end] and not _some_hit(probability, U(begin), U(end)):
            continue
        _update_with_evidence(begin, end, prior, observation, registered, start, particles, rules, out, birth)


@merged()
def _some_hit(probability, begin, end):
    some = False
    for cell in range(begin, end):
        some |= probability[cell] > HIT
    return some


@inner()
def _update_with_evidence(begin, end, prior, observation, registered, start, particles, rules, out, birth):
    """Update the cells of a block that were hit or hold particles."""
    mass, surface, width = particles.mass, observation.surface, birth.shape[1]
    row, column = begin // width, begin % width - 1
    for cell in range(begin, end):
        column += 1
        if column == width:
            row, column = row + 1, 0
        p_z = observation.probability[row, column]
        hit = p_z > HIT
        if not hit and start[cell] == start[cell + 1]:
            continue
        seen = observation.observedness[row, column]
        s, d, e = prior.static[row, column], prior.dynamic[row, column], prior.free[row, column]
        # P3-P5: survival, stopping, arrival of the particles in this cell.
        stopped = arriving = tested = 0.0
        survive = rules.survival * (1 - rules.unobserved_loss * (1 - seen))
        for i in range(start[cell], start[cell + 1]):
            m = mass[i] * survive
            speed2 = particles.vx[i] * particles.vx[i] + particles.vy[i] * particles.vy[i]
            stop = rules.dynamic_to_static * math.exp(-speed2 * rules.inverse_stop_speed)
            stopped += stop * m
            m *= 1 - stop
            mass[i] = m
            arriving += m
            tested += m * min(2 * particles.tested[i], np.float32(1))

        # A cell that is hit again while little comes was not left: the end of a fence, where a shadow gives it free.
        left = min(float(d), REPLACED * (stopped + arriving)) if hit else float(d)
        s, e = forget_and_vacate(float(s), left, float(e), seen, rules)
        s, e = limit_sum(s, e)
        u = 1 - s - e

        component = registered.label[row, column]
        moves = component >= 0 and not math.isnan(registered.velocity[component, 0])
        born = mature = 0.0
        beside = hit and rules.beside > 0 and beside_mover(prior.dynamic, row, column)
        if hit and not moves:
            no_surface = rules.surface_births and not beside and surface[row, column] == 0
            mature = 1.0 if no_surface else maturity_around(prior.maturity, row, column, rules)
        if hit or not rules.hits_only:
            s, e, born = transit(s, e, mature, beside, rules)
            if moves:
                born += rules.released * s
                s -= rules.released * s
        if hit and arriving > 0:
            s, u = claim(s, u, seen, tested / arriving, rules)
        s = min(s + stopped, CEILING)
        s, d, e, born, u = compose(s, arriving, e, born, u, rules)
        s, e, born, u = resolve_unknown(s, e, born, u, seen, hit, mature, rules)

        # Reweight particles by the surface seen in a hit cell; the cell's mass stays.
        if hit and arriving > 0 and rules.surface_precision > 0 and surface[row, column] != 0:
            kept = 0.0
            for i in range(start[cell], start[cell + 1]):
                x, y = particles.x[i] * rules.subcells_per_metre, particles.y[i] * rules.subcells_per_metre
                mass[i] *= surface_likelihood(surface, x, y, rules)
                kept += mass[i]
            for i in range(start[cell], start[cell + 1]):
                mass[i] *= arriving / kept

        if hit and arriving > 0 and moves:
            vx, vy = registered.velocity[component, 0], registered.velocity[component, 1]
            _follow_registered(start[cell], start[cell + 1], particles, vx, vy, rules)

        s, e, gain = bayes_update(s, d, e, born, u, p_z)
        if arriving > 0:
            factor = gain * d / arriving
            for i in range(start[cell], start[cell + 1]):
                mass[i] *= factor
        out.static[row, column] = s
        out.dynamic[row, column] = (d + born) * gain
        out.free[row, column] = e
        birth[row, column] = born * gain
        out.known_free[row, column] = seen_free(prior.known_free[row, column], p_z, seen, rules)
        out.maturity[row, column] = matured(prior.maturity[row, column], s, p_z, seen, rules)
