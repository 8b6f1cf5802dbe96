# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of the filter that work on particles: propagate, reorder, resample, normalise.

Positions are metres from the grid's lower left corner, velocities metres per second along the grid's axes.
"""

from __future__ import annotations

import math

from numba import njit, prange

from roadbed.compute.philox_cpu import normals, uniforms
from roadbed.occupancy.model import PROPAGATE, SYSTEMATIC


@njit(cache=True, inline="always")
def _cell_at(x, y, resolution, columns, rows):
    column, row = math.floor(x / resolution), math.floor(y / resolution)
    if 0 <= column < columns and 0 <= row < rows:
        return row * columns + column
    return -1


@njit(cache=True, parallel=True)
def propagate(
    count, x, y, vx, vy, dt, acceleration, diffusion, rotation, shift, resolution, columns, rows, seed, frame,
    cell, origin,
):  # fmt: skip
    """P2: constant velocity with random acceleration, then into the new grid: `p_old = rotation p_new + shift`.

    `origin` is the cell of the new grid in which the particle was before.
    """
    for i in prange(count):
        ax, ay, ex, ey = normals(seed, frame, PROPAGATE, i)
        ax *= acceleration
        ay *= acceleration
        px, py = x[i] - shift[0], y[i] - shift[1]
        origin[i] = _cell_at(
            rotation[0, 0] * px + rotation[1, 0] * py,
            rotation[0, 1] * px + rotation[1, 1] * py,
            resolution, columns, rows,
        )  # fmt: skip
        px += vx[i] * dt + 0.5 * ax * dt * dt + diffusion * ex
        py += vy[i] * dt + 0.5 * ay * dt * dt + diffusion * ey
        qx = vx[i] + ax * dt
        qy = vy[i] + ay * dt
        x[i] = rotation[0, 0] * px + rotation[1, 0] * py
        y[i] = rotation[0, 1] * px + rotation[1, 1] * py
        vx[i] = rotation[0, 0] * qx + rotation[1, 0] * qy
        vy[i] = rotation[0, 1] * qx + rotation[1, 1] * qy
        cell[i] = _cell_at(x[i], y[i], resolution, columns, rows)


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


@njit(cache=True, parallel=True)
def gather(
    count, order, x, y, vx, vy, mass, age, tested, cell, origin,
    out_x, out_y, out_vx, out_vy, out_mass, out_age, out_tested, out_cell, out_origin,
):  # fmt: skip
    """Copy particles into the order found."""
    for k in prange(count):
        i = order[k]
        out_x[k] = x[i]
        out_y[k] = y[i]
        out_vx[k] = vx[i]
        out_vy[k] = vy[i]
        out_mass[k] = mass[i]
        out_age[k] = age[i]
        out_tested[k] = tested[i]
        out_cell[k] = cell[i]
        out_origin[k] = origin[i]


@njit(cache=True)
def resample(count, cell, mass, born, born_cell, born_mass, wanted, seed, frame, source, out_cell, drawn):
    """Systematic draw of `wanted` particles from persistent (sorted) and newborn (sorted) ones, merged by cell.

    `source[k]` is the persistent index, or -1 - the newborn index; `drawn` counts per cell. Returns the number drawn.
    """
    total = 0.0
    for i in range(count):
        total += mass[i]
    for i in range(born):
        total += born_mass[i]
    if total <= 0:
        return 0
    offset = uniforms(seed, frame, SYSTEMATIC, 1)[0]
    reached = 0.0
    out = i = j = 0
    while i < count or j < born:
        persistent = j >= born or (i < count and cell[i] <= born_cell[j])
        if persistent:
            reached += mass[i]
            c, where = cell[i], i
            i += 1
        else:
            reached += born_mass[j]
            c, where = born_cell[j], -1 - j
            j += 1
        while out < wanted and (out + offset) * total < reached * wanted:
            source[out] = where
            out_cell[out] = c
            drawn[c] += 1
            out += 1
    return out


@njit(cache=True, parallel=True)
def normalise(
    count, source, cell, drawn, dynamic, x, y, vx, vy, age, tested, born_x, born_y, born_vx, born_vy,
    out_x, out_y, out_vx, out_vy, out_mass, out_age, out_tested,
):  # fmt: skip
    """Copy the drawn particles; in every cell their masses are equal and sum to its dynamic mass."""
    for k in prange(count):
        i = source[k]
        if i >= 0:
            out_x[k], out_y[k], out_vx[k], out_vy[k] = x[i], y[i], vx[i], vy[i]
            out_age[k] = age[i] + 1
            out_tested[k] = tested[i]
        else:
            j = -1 - i
            out_x[k], out_y[k], out_vx[k], out_vy[k] = born_x[j], born_y[j], born_vx[j], born_vy[j]
            out_age[k] = 1
            out_tested[k] = 0
        out_mass[k] = dynamic[cell[k]] / drawn[cell[k]]


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
