# SPDX-License-Identifier: Apache-2.0
"""Numba kernels for newborn particles: their cells and velocities."""

import math

import numpy as np

from roadbed.kernels.jit import njit
from roadbed.kernels.numeric import U, min
from roadbed.occupancy.hsbof.model import (
    BIRTH_PLACE,
    BIRTH_SEED,
    BIRTH_SEED_SPREAD,
    BIRTH_TRAFFIC,
    BIRTH_VELOCITY,
    SEED_ATTEMPTS,
    SEED_MASS,
)
from roadbed.occupancy.hsbof.resample_cpu import next_position, start_draw, units
from roadbed.runtime.philox_cpu import cos_sin_turns, normals, uniforms

_BLOCK = 32  # cells that are skipped together where none is chosen


@njit(cache=True, nogil=True)
def choose_birth_cells(birth, draws, draw, cell, born_in):
    """Systematic draw of birth cells in proportion to their newborn mass. Returns the number of births."""
    blocks = np.empty(-(-birth.shape[0] // _BLOCK), np.int64)  # mass of so many cells
    total = np.int64(0)
    for block in range(blocks.shape[0]):
        mass = np.int64(0)
        for c in range(U(block * _BLOCK), U(min((block + 1) * _BLOCK, birth.shape[0]))):
            mass += units(birth[c])
        blocks[block] = mass
        total += mass
    born_in[:] = 0
    if total <= 0:
        return 0
    stride, rest, position = start_draw(total, draws, draw, U(0))
    count = 0
    reached = carried = np.int64(0)
    for block in range(blocks.shape[0]):
        if reached + blocks[block] <= position:
            reached += blocks[block]
            continue
        for c in range(block * _BLOCK, min((block + 1) * _BLOCK, birth.shape[0])):
            reached += units(birth[c])
            while count < draws and position < reached:
                cell[count] = c
                born_in[c] += 1
                count += 1
                position, carried = next_position(position, carried, stride, rest, draws)
    return count


@njit(inline="always")
def prior_velocity(rule, draw, k):
    """A velocity from the prior: uniform in a disc, or that of the ego vehicle or its opposite."""
    choice, radius, angle, _ = uniforms(draw.seed, draw.frame, BIRTH_VELOCITY, k)
    if choice < rule.traffic:
        nx, ny, _, _ = normals(draw.seed, draw.frame, BIRTH_TRAFFIC, k)
        direction = 1.0 if angle < 0.5 else -1.0
        return direction * rule.ego_x + rule.traffic_spread * nx, direction * rule.ego_y + rule.traffic_spread * ny
    speed = rule.speed * math.sqrt(radius)
    cosine, sine = cos_sin_turns(angle)
    return speed * cosine, speed * sine


@njit(cache=True, nogil=True)
def give_birth(first, last, born, born_in, birth, velocities, registered, rule, cells, draw):
    """New particles, uniform in their cell, with the registered velocity, that of a moving neighbour or the prior's."""
    rows, columns = cells.rows, cells.columns
    reach = 2 * rule.seed_cells + 1
    for k in range(U(first), U(last)):
        cell = born.cell[k]
        row, column = cell // columns, cell % columns
        px, py, choice, known = uniforms(draw.seed, draw.frame, BIRTH_PLACE, k)
        born.x[k] = (column + px) * cells.spacing
        born.y[k] = (row + py) * cells.spacing
        born.vx[k], born.vy[k] = prior_velocity(rule, draw, k)
        born.mass[k] = birth[row, column] / born_in[cell]
        component = registered.label[row, column]
        if component >= 0 and known < rule.registered and not math.isnan(registered.velocity[component, 0]):
            nx, ny, _, _ = normals(draw.seed, draw.frame, BIRTH_SEED_SPREAD, k)
            born.vx[k] = registered.velocity[component, 0] + rule.registered_spread * nx
            born.vy[k] = registered.velocity[component, 1] + rule.registered_spread * ny
            continue
        if choice >= rule.seeded:
            continue
        for attempt in range(SEED_ATTEMPTS):
            ux, uy, _, _ = uniforms(draw.seed, draw.frame, BIRTH_SEED, U(SEED_ATTEMPTS * k + attempt))
            c = column + int(ux * reach) - rule.seed_cells
            r = row + int(uy * reach) - rule.seed_cells
            if 0 <= c < columns and 0 <= r < rows and velocities.mass[r, c] > SEED_MASS:
                nx, ny, _, _ = normals(draw.seed, draw.frame, BIRTH_SEED_SPREAD, k)
                born.vx[k] = velocities.mean[r, c, 0] + rule.seed_spread * nx
                born.vy[k] = velocities.mean[r, c, 1] + rule.seed_spread * ny
                break
