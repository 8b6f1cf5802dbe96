# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that give birth to particles: in which cells, and with which velocities."""

from __future__ import annotations

import math
from typing import NamedTuple

from numba import njit, prange

from roadbed.compute.philox_cpu import normals, uniforms
from roadbed.occupancy.model import (
    BIRTH_PLACE,
    BIRTH_SEED,
    BIRTH_SEED_SPREAD,
    BIRTH_TRAFFIC,
    BIRTH_VELOCITY,
    SEED_ATTEMPTS,
    SEED_MASS,
    SYSTEMATIC,
)


class BirthRule(NamedTuple):
    """BirthConfig as plain numbers; see there."""

    speed: float
    traffic: float
    traffic_spread: float
    own_x: float  # m/s, the own vehicle
    own_y: float
    fast: float
    fast_speed: float
    seeded: float
    seed_cells: int
    seed_spread: float


@njit(cache=True)
def choose_birth_cells(birth, wanted, seed, frame, cells, born_in):
    """Systematic draw of birth cells, as often as their birth mass asks for. Returns the number of births."""
    total = 0.0
    for c in range(birth.shape[0]):
        total += birth[c]
    if total <= 0:
        return 0
    offset = uniforms(seed, frame, SYSTEMATIC, 0)[0]
    count = 0
    reached = 0.0
    for c in range(birth.shape[0]):
        if birth[c] <= 0:
            continue
        reached += birth[c]
        first = count
        while count < wanted and (count + offset) * total < reached * wanted:
            cells[count] = c
            count += 1
        born_in[c] = count - first
    return count


@njit(cache=True, inline="always")
def prior_velocity(rule, seed, frame, k):
    """A velocity for something just discovered: a slow disc, the traffic around the own vehicle, or a fast disc."""
    choice, radius, angle, _ = uniforms(seed, frame, BIRTH_VELOCITY, k)
    if choice < rule.traffic:
        nx, ny, _, _ = normals(seed, frame, BIRTH_TRAFFIC, k)
        direction = 1.0 if angle < 0.5 else -1.0
        return direction * rule.own_x + rule.traffic_spread * nx, direction * rule.own_y + rule.traffic_spread * ny
    reach = rule.fast_speed if choice < rule.traffic + rule.fast else rule.speed
    speed = reach * math.sqrt(radius)
    return speed * math.cos(2 * math.pi * angle), speed * math.sin(2 * math.pi * angle)


@njit(cache=True, parallel=True)
def give_birth(
    count, cells, born_in, birth, old_mass, velocity, rule, resolution, seed, frame, x, y, vx, vy, mass, age
):
    """New particles: uniform in their cell, with the velocity of a moving neighbour or from the prior."""
    rows, columns = old_mass.shape
    reach = 2 * rule.seed_cells + 1
    for k in prange(count):
        cell = cells[k]
        row, column = cell // columns, cell % columns
        px, py, choice, _ = uniforms(seed, frame, BIRTH_PLACE, k)
        x[k] = (column + px) * resolution
        y[k] = (row + py) * resolution
        vx[k], vy[k] = prior_velocity(rule, seed, frame, k)
        mass[k] = birth[row, column] / born_in[cell]
        age[k] = 0
        if choice >= rule.seeded:
            continue
        for attempt in range(SEED_ATTEMPTS):
            ux, uy, _, _ = uniforms(seed, frame, BIRTH_SEED, SEED_ATTEMPTS * k + attempt)
            c = column + int(ux * reach) - rule.seed_cells
            r = row + int(uy * reach) - rule.seed_cells
            if 0 <= c < columns and 0 <= r < rows and old_mass[r, c] > SEED_MASS:
                nx, ny, _, _ = normals(seed, frame, BIRTH_SEED_SPREAD, k)
                vx[k] = velocity[r, c, 0] + rule.seed_spread * nx
                vy[k] = velocity[r, c, 1] + rule.seed_spread * ny
                break
