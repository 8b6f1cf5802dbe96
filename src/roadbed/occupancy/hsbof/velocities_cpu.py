# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that estimate each cell's velocity from its particles, and decide which cells move."""

import numpy as np

from roadbed.kernels.jit import inlined, merged, njit
from roadbed.kernels.numeric import U, max, min
from roadbed.occupancy.hsbof.model import (
    ALIKE,
    ALIKE_REACH,
    LEAST_MASS,
    LEAST_VARIANCE,
    REGISTERED_VARIANCE,
    STANDSTILL_VARIANCE,
)
from roadbed.occupancy.model import HIT

_BLOCK = 32  # cells of a row


@njit(cache=True, nogil=True)
def estimate_velocities(first, last, start, particles, masses, registered, rule, out):
    """Mean and covariance (xx, xy, yy) per cell over its particles, and which cells move.

    Particles whose motion was tested lately count most: inside a large object any velocity survives for a while. Cells
    of a registered component take its velocity, which is less late, if it is large or their particles agree.
    """
    vx, vy, mass, tested = particles.vx, particles.vy, particles.mass, particles.tested
    # Flat, as computing a row takes longer than all the rest in a cell without particles.
    velocity, covariance = out.mean.reshape(-1), out.covariance.reshape(-1)
    out_mass, moving = out.mass.reshape(-1), out.moving.reshape(-1)
    static, dynamic, free = masses.static.reshape(-1), masses.dynamic.reshape(-1), masses.free.reshape(-1)
    velocity[2 * first : 2 * last] = np.nan
    covariance[3 * first : 3 * last] = np.nan
    out_mass[first:last] = 0
    moving[first:last] = False
    label = registered.label.reshape(-1)
    for cell in range(first, last):
        component, rx, ry, trusted = label[cell], np.nan, np.nan, False
        if component >= 0:
            rx, ry = float(registered.velocity[component, 0]), float(registered.velocity[component, 1])
            trusted = not np.isnan(rx) and registered.cells[component] >= rule.trusted_cells
        if start[cell] == start[cell + 1] and not trusted:
            continue
        total = m = mx = my = mxx = mxy = myy = 0.0
        for i in range(start[cell], start[cell + 1]):
            total += mass[i]
            w = mass[i] * (rule.untested + (1 - rule.untested) * min(2 * tested[i], np.float32(1)))
            m += w
            mx += w * vx[i]
            my += w * vy[i]
            mxx += w * vx[i] * vx[i]
            mxy += w * vx[i] * vy[i]
            myy += w * vy[i] * vy[i]
        out_mass[cell] = total
        cxx = cyy = REGISTERED_VARIANCE
        cxy, doubt, few = 0.0, 1.0, 0.0
        if total > LEAST_MASS:
            mx /= m
            my /= m
            cxx = max(mxx / m - mx * mx, LEAST_VARIANCE)
            cyy = max(myy / m - my * my, LEAST_VARIANCE)
            cxy = mxy / m - mx * my
            doubt = total / m  # 1 where every particle was tested, up to 1 / untested
            few = rule.one_particle / (start[cell + 1] - start[cell])
        elif not trusted:
            continue
        apart = (mx - rx) * (mx - rx) + (my - ry) * (my - ry)  # NaN where nothing is registered
        follows = trusted or apart <= rule.agreement * (rx * rx + ry * ry)
        if follows:
            mx, my = rx, ry
        velocity[2 * cell], velocity[2 * cell + 1] = mx, my
        covariance[3 * cell] = (cxx + few) * doubt
        covariance[3 * cell + 1] = cxy * doubt
        covariance[3 * cell + 2] = (cyy + few) * doubt

        s, d = static[cell], dynamic[cell]
        occupancy = 0.5 * (1 + s + d - free[cell])  # S + D + U/2
        if occupancy <= rule.occupancy or mx * mx + my * my <= rule.speed**2:
            continue
        a, c = cxx + STANDSTILL_VARIANCE, cyy + STANDSTILL_VARIANCE
        distance = (c * mx * mx - 2 * cxy * mx * my + a * my * my) / (a * c - cxy * cxy)
        moving[cell] = follows or (d > rule.dynamic_share * (s + d) and distance > rule.mahalanobis)


@njit(cache=True, nogil=True)
def drop_lone_cells(first, last, velocities, probability, registered, rule, out):
    """A cell moves only if enough of the hit cells around it move alike, or one other as their component does."""
    moving, velocity = velocities.moving, velocities.mean
    columns = moving.shape[1]
    for row in range(first, last):
        for begin in range(0, columns, _BLOCK):
            end, some = min(begin + _BLOCK, columns), False
            for column in range(U(begin), U(end)):
                out[row, column] = False
                some |= moving[row, column]
            for column in range(begin, end if some else begin):
                if moving[row, column]:
                    alike, hits = _around(moving, velocity, probability, row, column)
                    known = _as_registered(velocity, registered, row, column)
                    out[row, column] = alike >= (1 if known else rule.alike * hits)


@inlined()
def _as_registered(velocity, registered, row, column):
    """Whether a cell took the velocity of its component."""
    component = registered.label[row, column]
    if component < 0:
        return False
    vx, vy = registered.velocity[component, 0], registered.velocity[component, 1]
    return velocity[row, column, 0] == vx and velocity[row, column, 1] == vy


@merged()
def _around(moving, velocity, probability, row, column):
    """How many cells around one move as it does, and how many are hit.

    A bank or a tree is hit in many cells, of which a few seem to move; of a moving object nearly all do.
    """
    rows, columns = moving.shape
    vx, vy = velocity[row, column, 0], velocity[row, column, 1]
    limit = ALIKE * (vx * vx + vy * vy)
    alike, hits = -1, 0  # the cell itself will be counted as alike
    for r in range(max(row - ALIKE_REACH, 0), min(row + ALIKE_REACH + 1, rows)):
        for c in range(max(column - ALIKE_REACH, 0), min(column + ALIKE_REACH + 1, columns)):
            hits += probability[r, c] > HIT and (r != row or c != column)
            if moving[r, c]:
                dx, dy = velocity[r, c, 0] - vx, velocity[r, c, 1] - vy
                alike += dx * dx + dy * dy <= limit
    return alike, hits
