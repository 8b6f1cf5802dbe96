# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of the filter that work on particles: propagate, reorder, resample, normalise.

Positions are metres from the grid's lower left corner, velocities metres per second along the grid's axes.
"""

import numpy as np

from roadbed.kernels.jit import inlined, merged, njit
from roadbed.kernels.numeric import ONE, F, U, min
from roadbed.kernels.scratch import scratch
from roadbed.occupancy.hsbof.model import PROPAGATE
from roadbed.occupancy.hsbof.no_evidence_cpu import bring, take
from roadbed.occupancy.hsbof.resample_cpu import next_position, start_draw, units
from roadbed.runtime.philox_cpu import normals

_BLOCK = 64  # particles
_X, _Y, _VX, _VY, _AX, _AY, _EX, _EY, _ORIGIN, _CELL = (U(k * _BLOCK) for k in range(10))
_ROOM = 10 * _BLOCK


@inlined()
def _cell_at(x, y, cells):
    """Cell index as a float, so that loops stay vectors; -1 outside."""
    column, row = np.floor(x / cells.spacing), np.floor(y / cells.spacing)
    inside = (column >= 0) & (row >= 0) & (column < cells.columns) & (row < cells.rows)
    return row * cells.columns + column if inside else -1.0


@njit(cache=True, nogil=True)
def propagate(first, last, particles, rule, rotation, shift, cells, draw):
    """P2: constant velocity with random acceleration, then into the new grid: `p_old = rotation p_new + shift`.

    The origin is the cell of the new grid in which the particle was before. Particles are processed in blocks in one
    array with constant offsets, which compiles to vector instructions.
    """
    block = scratch(_ROOM, np.float64)
    for begin in range(first, last, _BLOCK):
        count = U(min(_BLOCK, last - begin))
        bring(block, _X, particles.x, U(begin), count)
        bring(block, _Y, particles.y, U(begin), count)
        bring(block, _VX, particles.vx, U(begin), count)
        bring(block, _VY, particles.vy, U(begin), count)
        _draw_block(U(begin), draw, block)
        _move_block(rule, rotation, shift, cells, block)
        take(block, _X, particles.x, U(begin), count)
        take(block, _Y, particles.y, U(begin), count)
        take(block, _VX, particles.vx, U(begin), count)
        take(block, _VY, particles.vy, U(begin), count)
        take(block, _ORIGIN, particles.origin, U(begin), count)
        take(block, _CELL, particles.cell, U(begin), count)


@merged()
def _draw_block(begin, draw, block):
    seed, frame = draw.seed, draw.frame
    for i in range(U(_BLOCK)):
        ax, ay, ex, ey = normals(seed, frame, PROPAGATE, begin + i)
        block[_AX + i] = ax
        block[_AY + i] = ay
        block[_EX + i] = ex
        block[_EY + i] = ey


@merged()
def _move_block(rule, rotation, shift, cells, block):
    dt, shift_x, shift_y = rule.dt, shift[0], shift[1]
    xx, xy, yx, yy = rotation[0, 0], rotation[1, 0], rotation[0, 1], rotation[1, 1]  # from the old axes to the new
    for i in range(U(_BLOCK)):
        vx, vy = F(block[_VX + i]), F(block[_VY + i])
        # Slow objects accelerate less: pedestrians walk steadily.
        q = min(rule.acceleration, rule.at_rest + rule.per_speed2 * (vx * vx + vy * vy))
        ax, ay = block[_AX + i] * q, block[_AY + i] * q
        px, py = block[_X + i] - shift_x, block[_Y + i] - shift_y
        block[_ORIGIN + i] = _cell_at(xx * px + xy * py, yx * px + yy * py, cells)
        px += vx * dt + 0.5 * ax * dt * dt + rule.diffusion * block[_EX + i]
        py += vy * dt + 0.5 * ay * dt * dt + rule.diffusion * block[_EY + i]
        qx, qy = vx + ax * dt, vy + ay * dt
        x, y = float(F(xx * px + xy * py)), float(F(yx * px + yy * py))
        block[_X + i] = x
        block[_Y + i] = y
        block[_VX + i] = xx * qx + xy * qy
        block[_VY + i] = yx * qx + yy * qy
        block[_CELL + i] = _cell_at(x, y, cells)


@njit(cache=True, nogil=True)
def reorder(count, cell, start, order):
    """Stable counting sort by cell: `order` lists the particles, cell c owns [start[c], start[c + 1]). Returns how many
    are inside the grid."""
    cells = start.shape[0] - 1
    start[:] = 0
    for i in range(count):
        if cell[i] >= 0:
            start[cell[i]] += 1
    inside = 0
    for c in range(cells):
        inside += start[c]
        start[c] = inside
    start[cells] = inside
    # Filling each cell from its end turns ends into starts.
    for i in range(count - 1, -1, -1):
        c = cell[i]
        if c >= 0:
            start[c] -= 1
            order[start[c]] = i
    return inside


@njit(cache=True, nogil=True)
def gather(first, last, order, particles, out):
    for k in range(U(first), U(last)):
        i = order[k]
        out.x[k] = particles.x[i]
        out.y[k] = particles.y[i]
        out.vx[k] = particles.vx[i]
        out.vy[k] = particles.vy[i]
        out.mass[k] = particles.mass[i]
        out.tested[k] = particles.tested[i]
        out.cell[k] = particles.cell[i]
        out.origin[k] = particles.origin[i]


@njit(cache=True, nogil=True)
def resample(count, persistent, births, born, draws, draw, source, out_cell, drawn):
    """Systematic draw of `draws` particles from persistent and newborn ones, both sorted, merged by cell.

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
    stride, rest, offset = start_draw(total, draws, draw, ONE)
    reached = carried = np.int64(0)
    position = offset
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
        while out < draws and position < reached:
            source[out] = where
            out_cell[out] = c
            drawn[c] += 1
            out += 1
            position, carried = next_position(position, carried, stride, rest, draws)
    return out


@njit(cache=True, nogil=True)
def drop_mass_without_particles(dynamic, drawn):
    """Dynamic mass without particles cannot be predicted: it becomes unknown. Returns that mass and the total."""
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
    # Named outside of the loop, inside of which Numba would count references to the arrays.
    x, y, vx, vy, tested, mass, cell = out.x, out.y, out.vx, out.vy, out.tested, out.mass, out.cell
    for k in range(U(first), U(last)):
        i = source[k]
        if i >= 0:
            x[k], y[k] = persistent.x[i], persistent.y[i]
            vx[k], vy[k] = persistent.vx[i], persistent.vy[i]
            tested[k] = persistent.tested[i]
        else:
            j = -1 - i
            x[k], y[k] = born.x[j], born.y[j]
            vx[k], vy[k] = born.vx[j], born.vy[j]
            tested[k] = 0
        mass[k] = dynamic[cell[k]] / drawn[cell[k]]
