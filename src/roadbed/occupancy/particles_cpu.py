# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of the filter that work on particles: propagate, reorder, velocities, birth, resample, normalise.

Positions are metres from the grid's lower left corner, velocities metres per second along the grid's axes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from roadbed.compute.philox_cpu import (
    BIRTH_PLACE,
    BIRTH_SEED,
    BIRTH_SEED_SPREAD,
    BIRTH_TRAFFIC,
    BIRTH_VELOCITY,
    PROPAGATE,
    SYSTEMATIC,
    normals,
    uniforms,
)

_SEED_MASS = 0.2  # a neighbour with at least this much persistent mass passes its velocity on
_SEED_ATTEMPTS = 4
_MIN_MASS = 1e-3  # below it a cell has no velocity
_MIN_VARIANCE = 1e-4  # m^2/s^2
_COHERENT = 0.5  # square of the share by which velocities of neighbours may differ
_STANDSTILL_VARIANCE = 0.01  # m^2/s^2 added before asking whether a velocity differs from zero


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


class MovingRule(NamedTuple):
    """MovingConfig as plain numbers; see there."""

    occupancy: float
    dynamic_share: float
    speed: float
    mahalanobis: float
    old_share: float
    age: int
    untested: float


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


@njit(cache=True, parallel=True)
def velocities(start, vx, vy, mass, age, tested, static, dynamic, free, rule, old_mass, velocity, covariance, moving):
    """Mean and covariance (xx, xy, yy) per cell over particles old enough to be trusted, and what surely moves.

    Particles whose motion was put to the test lately count most: inside a large object any velocity survives a while.
    """
    rows, columns = dynamic.shape
    for row in prange(rows):
        for column in range(columns):
            cell = row * columns + column
            old = m = mx = my = mxx = mxy = myy = 0.0
            for i in range(start[cell], start[cell + 1]):
                if age[i] >= rule.age:
                    old += mass[i]
                    w = mass[i] * (rule.untested + (1 - rule.untested) * min(2 * tested[i], np.float32(1)))
                    m += w
                    mx += w * vx[i]
                    my += w * vy[i]
                    mxx += w * vx[i] * vx[i]
                    mxy += w * vx[i] * vy[i]
                    myy += w * vy[i] * vy[i]
            old_mass[row, column] = old
            moving[row, column] = False
            if old <= _MIN_MASS:
                velocity[row, column, 0] = velocity[row, column, 1] = np.nan
                covariance[row, column, 0] = covariance[row, column, 1] = covariance[row, column, 2] = np.nan
                continue
            mx /= m
            my /= m
            cxx = max(mxx / m - mx * mx, _MIN_VARIANCE)
            cyy = max(myy / m - my * my, _MIN_VARIANCE)
            cxy = mxy / m - mx * my
            velocity[row, column, 0] = mx
            velocity[row, column, 1] = my
            doubt = old / m  # 1 where every particle was tested, up to 1 / untested
            covariance[row, column, 0] = cxx * doubt
            covariance[row, column, 1] = cxy * doubt
            covariance[row, column, 2] = cyy * doubt

            s, d = static[row, column], dynamic[row, column]
            occupancy = 0.5 * (1 + s + d - free[row, column])  # S + D + U/2
            if occupancy <= rule.occupancy or d <= rule.dynamic_share * (s + d) or old < rule.old_share * d:
                continue
            if mx * mx + my * my <= rule.speed**2:
                continue
            a, c = cxx + _STANDSTILL_VARIANCE, cyy + _STANDSTILL_VARIANCE
            distance = (c * mx * mx - 2 * cxy * mx * my + a * my * my) / (a * c - cxy * cxy)
            moving[row, column] = distance > rule.mahalanobis


@njit(cache=True, parallel=True)
def drop_lone_cells(moving, velocity, neighbours, out):
    """A cell moves only together with others: enough of the cells around it must move the same way."""
    rows, columns = moving.shape
    for row in prange(rows):
        for column in range(columns):
            out[row, column] = False
            if not moving[row, column]:
                continue
            vx, vy = velocity[row, column, 0], velocity[row, column, 1]
            limit = _COHERENT * (vx * vx + vy * vy)
            alike = -1  # the cell itself will be counted
            for r in range(max(row - 2, 0), min(row + 3, rows)):
                for c in range(max(column - 2, 0), min(column + 3, columns)):
                    if moving[r, c]:
                        dx, dy = velocity[r, c, 0] - vx, velocity[r, c, 1] - vy
                        alike += dx * dx + dy * dy <= limit
            out[row, column] = alike >= neighbours


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
        for attempt in range(_SEED_ATTEMPTS):
            ux, uy, _, _ = uniforms(seed, frame, BIRTH_SEED, _SEED_ATTEMPTS * k + attempt)
            c = column + int(ux * reach) - rule.seed_cells
            r = row + int(uy * reach) - rule.seed_cells
            if 0 <= c < columns and 0 <= r < rows and old_mass[r, c] > _SEED_MASS:
                nx, ny, _, _ = normals(seed, frame, BIRTH_SEED_SPREAD, k)
                vx[k] = velocity[r, c, 0] + rule.seed_spread * nx
                vy[k] = velocity[r, c, 1] + rule.seed_spread * ny
                break


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
