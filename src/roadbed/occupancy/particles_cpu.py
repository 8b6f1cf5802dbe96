# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of the filter that work on particles: propagate, reorder, resample, normalise.

Positions are metres from the grid's lower left corner, velocities metres per second along the grid's axes.
"""

from __future__ import annotations

import math

import numpy as np

from roadbed.compute.cpu import U
from roadbed.compute.kernels import njit
from roadbed.compute.philox_cpu import normals
from roadbed.occupancy.draw_cpu import comb, tooth, units
from roadbed.occupancy.model import PROPAGATE


@njit(cache=True, inline="always")
def _cell_at(x, y, cells):
    column, row = math.floor(x / cells.spacing), math.floor(y / cells.spacing)
    if 0 <= column < cells.columns and 0 <= row < cells.rows:
        return row * cells.columns + column
    return -1


@njit(cache=True, nogil=True)
def propagate(first, last, particles, rule, rotation, shift, cells, draw):
    """P2: constant velocity with random acceleration, then into the new grid: `p_old = rotation p_new + shift`.

    The origin is the cell of the new grid in which the particle was before.
    """
    x, y, vx, vy, dt = particles.x, particles.y, particles.vx, particles.vy, rule.dt
    xx, xy, yx, yy = rotation[0, 0], rotation[1, 0], rotation[0, 1], rotation[1, 1]  # from the old axes to the new
    shift_x, shift_y = shift[0], shift[1]
    for i in range(U(first), U(last)):
        ax, ay, ex, ey = normals(draw.seed, draw.frame, PROPAGATE, i)
        # What is slow cannot turn or speed up as fast as it could with more momentum behind it: people walk steadily.
        q = min(rule.acceleration, rule.at_rest + rule.per_speed2 * (vx[i] * vx[i] + vy[i] * vy[i]))
        ax *= q
        ay *= q
        px, py = x[i] - shift_x, y[i] - shift_y
        particles.origin[i] = _cell_at(xx * px + xy * py, yx * px + yy * py, cells)
        px += vx[i] * dt + 0.5 * ax * dt * dt + rule.diffusion * ex
        py += vy[i] * dt + 0.5 * ay * dt * dt + rule.diffusion * ey
        qx = vx[i] + ax * dt
        qy = vy[i] + ay * dt
        x[i] = xx * px + xy * py
        y[i] = yx * px + yy * py
        vx[i] = xx * qx + xy * qy
        vy[i] = yx * qx + yy * qy
        particles.cell[i] = _cell_at(x[i], y[i], cells)


@njit(cache=True)
def reorder(count, cell, start, order):
    """Stable counting sort by cell: `order` lists the particles, cell c owns [start[c], start[c + 1]). Returns how many
    are inside the grid."""
    cells = start.shape[0] - 1
    start[:] = 0
    for i in range(count):
        if cell[i] >= 0:
            start[cell[i] + 1] += 1
    for c in range(cells):
        start[c + 1] += start[c]
    # Shift by one while filling, so that `start` ends as the first index again.
    for i in range(count):
        c = cell[i]
        if c >= 0:
            order[start[c]] = i
            start[c] += 1
    for c in range(cells - 1, 0, -1):
        start[c] = start[c - 1]
    start[0] = 0
    return start[cells]


@njit(cache=True, nogil=True)
def gather(first, last, order, particles, out):
    """Copy particles into the order found."""
    for k in range(U(first), U(last)):
        i = order[k]
        out.x[k] = particles.x[i]
        out.y[k] = particles.y[i]
        out.vx[k] = particles.vx[i]
        out.vy[k] = particles.vy[i]
        out.mass[k] = particles.mass[i]
        out.age[k] = particles.age[i]
        out.tested[k] = particles.tested[i]
        out.cell[k] = particles.cell[i]
        out.origin[k] = particles.origin[i]


@njit(cache=True)
def resample(count, persistent, births, born, wanted, draw, source, out_cell, drawn):
    """Systematic draw of `wanted` particles from persistent and newborn ones, both sorted, merged by cell.

    `source[k]` is the persistent index, or -1 - the newborn index; `drawn` counts per cell. Returns the number drawn.
    """
    cell, mass, born_cell, born_mass = persistent.cell, persistent.mass, born.cell, born.mass
    total = np.int64(0)
    for i in range(count):
        total += units(mass[i])
    for i in range(births):
        total += units(born_mass[i])
    drawn[:] = 0
    if total <= 0:
        return 0
    step, rest, offset = comb(total, wanted, draw, 1)
    reached = np.int64(0)
    out = i = j = 0
    while i < count or j < births:
        if j >= births or (i < count and cell[i] <= born_cell[j]):
            reached += units(mass[i])
            c, where = cell[i], i
            i += 1
        else:
            reached += units(born_mass[j])
            c, where = born_cell[j], -1 - j
            j += 1
        while out < wanted and tooth(out, step, rest, offset, wanted) < reached:
            source[out] = where
            out_cell[out] = c
            drawn[c] += 1
            out += 1
    return out


@njit(cache=True)
def drop_uncarried(dynamic, drawn):
    """Dynamic mass without a particle cannot be predicted: it becomes unknown. Returns that mass and the whole."""
    lost = total = 0.0
    for c in range(dynamic.shape[0]):
        d = dynamic[c]
        if d > 0:
            total += d
            if drawn[c] == 0:
                lost += d
                dynamic[c] = 0
    return lost, total


@njit(cache=True, nogil=True)
def normalise(first, last, source, drawn, dynamic, persistent, born, out):
    """Copy the drawn particles; in every cell their masses are equal and sum to its dynamic mass."""
    for k in range(U(first), U(last)):
        i = source[k]
        if i >= 0:
            out.x[k], out.y[k] = persistent.x[i], persistent.y[i]
            out.vx[k], out.vy[k] = persistent.vx[i], persistent.vy[i]
            out.age[k] = persistent.age[i] + 1
            out.tested[k] = persistent.tested[i]
        else:
            j = -1 - i
            out.x[k], out.y[k] = born.x[j], born.y[j]
            out.vx[k], out.vy[k] = born.vx[j], born.vy[j]
            out.age[k] = born.age[j] + 1
            out.tested[k] = 0
        cell = out.cell[k]
        out.mass[k] = dynamic[cell] / drawn[cell]
