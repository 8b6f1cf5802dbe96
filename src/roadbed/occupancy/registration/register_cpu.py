# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that find how connected hits moved: each is laid over an older scan and shifted until both agree.

Places are subcells of the present grid, (x, y). A picture is int64 (rows, columns): see `model.py`.
"""

from __future__ import annotations

import math

import numpy as np

from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.occupancy.arrays import Between
from roadbed.occupancy.model import COARSE_LOSS, HITS_IN_CELL, STANDING, SUBCELLS
from roadbed.occupancy.registration.shifts_cpu import agreement, older_place, scores_around


@inner()
def total_agreement(present, former, now, old, between, dx, dy, least):
    """Sum of g over the present points where they were and the former ones where they are, if all moved by (dx, dy).

    Given up as soon as it cannot reach `least`.
    """
    total, left = 0, present.shape[0] + former.shape[0]
    for k in range(present.shape[0]):
        x, y = older_place(present[k, 0] - dx, present[k, 1] - dy, between)
        total += agreement(old, x, y)
        left -= 1
        if total + left < least:
            return total - left
    for k in range(former.shape[0]):
        total += agreement(now, former[k, 0] + dx, former[k, 1] + dy)
        left -= 1
        if total + left < least:
            return total - left
    return total


@inner()
def best_shift(present, former, now, old, between, reach, same, gain, rule):
    """The shift (x, y) in subcells that makes the points agree best, (0, 0) where none is sure enough."""
    count = present.shape[0] + former.shape[0]
    still = total_agreement(present, former, now, old, between, 0, 0, -count)
    if still > same * count:
        return 0, 0
    wanted = max(rule.good * count, still + gain * count)
    best = math.ceil(wanted - COARSE_LOSS * count) - 1
    found_x = found_y = 0
    back = scores_around(present, old, between, reach)  # points of now are sought where they came from: at -d
    ahead = scores_around(former, now, Between(1.0, 0.0, 0.0, 1.0, 0.0, 0.0), reach)
    for j in range(reach + 1):
        for i in range(reach + 1):
            dx, dy = 2 * i - reach, 2 * j - reach
            score = ahead[j, i] + back[reach - j, reach - i]
            if score > best and dx * dx + dy * dy <= reach * reach:
                best, found_x, found_y = score, dx, dy
    if found_x == 0 and found_y == 0:
        return 0, 0
    coarse_x, coarse_y = found_x, found_y
    for dy in range(coarse_y - 1, coarse_y + 2):
        for dx in range(coarse_x - 1, coarse_x + 2):
            score = total_agreement(present, former, now, old, between, dx, dy, best + 1)
            if score > best:
                best, found_x, found_y = score, dx, dy
    if best < wanted:
        return 0, 0
    # Along a smooth face many shifts agree alike: one that is hardly a motion must not be among them.
    enough = math.ceil(best - rule.slack * count)
    small = math.ceil(rule.least)
    for dy in range(-small, small + 1):
        for dx in range(-small, small + 1):
            if dx * dx + dy * dy >= rule.least * rule.least:
                continue
            if total_agreement(present, former, now, old, between, dx, dy, enough) >= enough:
                return 0, 0
    return found_x, found_y


@inlined()
def _row_of(cell, columns, row):
    """The row of a cell, which is `row` or a later one: cells come in order, and dividing takes far longer."""
    while cell >= (row + 1) * columns:
        row += 1
    return row


@inner()
def points_of(picture, cells, most, out):
    """Hit subcells of some cells, every so manyth where there are more than `most`. Returns how many."""
    columns, flat, hits = picture.shape[1], picture.reshape(-1), 0
    for k in range(cells.shape[0]):
        bits = flat[cells[k]] & HITS_IN_CELL
        while bits:
            bits &= bits - 1
            hits += 1
    stride, count, until_next = max(1, hits // most), 0, 0
    row = cells[0] // columns
    for k in range(cells.shape[0]):
        row = _row_of(cells[k], columns, row)
        bits, bit = flat[cells[k]] & HITS_IN_CELL, 0
        while bits:
            if bits & 1:
                if until_next == 0:
                    out[count, 0] = (cells[k] - row * columns) * SUBCELLS + bit % SUBCELLS
                    out[count, 1] = row * SUBCELLS + bit // SUBCELLS
                    count += 1
                    until_next = stride
                until_next -= 1
            bits >>= 1
            bit += 1
    return count


@inner()
def extent_of(cells, columns):
    """Cells along the longer side of the box around some cells, less one."""
    first = cells[0] // columns
    row, low, high = first, columns, 0
    for k in range(cells.shape[0]):
        row = _row_of(cells[k], columns, row)
        low, high = min(low, cells[k] - row * columns), max(high, cells[k] - row * columns)
    return max(row - first, high - low)


@inlined()
def _former_cell(row, column, between):
    """Row and column in which the middle of a cell lay."""
    x, y = (column + 0.5) * SUBCELLS, (row + 0.5) * SUBCELLS
    return (
        math.floor((between.yx * x + between.yy * y + between.y) / SUBCELLS),
        math.floor((between.xx * x + between.xy * y + between.x) / SUBCELLS),
    )


@inner()
def partner_of(cells, old_label, between, votes, voted):
    """The old component found most often in the 3 x 3 cells around some cells of now, or -1.

    `votes` for an old component count where `voted` names the first of these cells."""
    rows, columns = old_label.shape
    best, now_row = -1, cells[0] // columns
    for k in range(cells.shape[0]):
        now_row = _row_of(cells[k], columns, now_row)
        row, column = _former_cell(now_row, cells[k] - now_row * columns, between)
        for r in range(max(row - 1, 0), min(row + 2, rows)):
            for c in range(max(column - 1, 0), min(column + 2, columns)):
                one = old_label[r, c]
                if one < 0:
                    continue
                votes[one] = votes[one] + 1 if voted[one] == cells[0] else 1
                voted[one] = cells[0]
                if best < 0 or votes[one] > votes[best] or (votes[one] == votes[best] and one < best):
                    best = one
    return best


@merged()
def _stands(cells, stood, rule):
    """Whether enough of its cells have been static for long."""
    rows, columns = stood.maturity.shape
    long_static, now_row = 0, cells[0] // columns
    for k in range(cells.shape[0]):
        now_row = _row_of(cells[k], columns, now_row)
        row, column = _former_cell(now_row, cells[k] - now_row * columns, stood.before)
        if 0 <= row < rows and 0 <= column < columns:
            long_static += stood.maturity[row, column] >= rule.standing_time
    return long_static >= STANDING * cells.shape[0]


@inner()
def _contradicted(present, former, now, old, between):
    """Points of now where it was free, and former ones where it is free now."""
    count = 0
    for k in range(present.shape[0]):
        x, y = older_place(present[k, 0], present[k, 1], between)
        count += agreement(old, x, y) < 0
    for k in range(former.shape[0]):
        count += agreement(now, former[k, 0], former[k, 1]) < 0
    return count


@merged()
def former_points(old, partner, between, most, former):
    """Points of an old component, brought to the present grid: back through p_old = R p_new + shift. Their number."""
    count = points_of(old.picture, old.cells[old.start[partner] : old.start[partner + 1]], most, former)
    for j in range(count):
        x, y = former[j, 0] + 0.5 - between.x, former[j, 1] + 0.5 - between.y
        former[j, 0] = math.floor(between.xx * x + between.yx * y)
        former[j, 1] = math.floor(between.xy * x + between.yy * y)
    return count


@inlined()
def set_velocity(velocity, k, dx, dy, rule):
    """That of component k, which moved by so many subcells."""
    velocity[k, 0] = np.float32(dx / rule.age) * np.float32(rule.subcell)
    velocity[k, 1] = np.float32(dy / rule.age) * np.float32(rule.subcell)


@inner()
def lay_over(cells, now, old, between, voting, points, rule):
    """Points of a component and of its old partner, and how many; none where there is no partner, or too few."""
    partner = partner_of(cells, old.label, between, voting[0], voting[1])
    if partner < 0:
        return 0, 0
    if extent_of(old.cells[old.start[partner] : old.start[partner + 1]], now.label.shape[1]) > rule.partner_extent:
        return 0, 0
    count = points_of(now.picture, cells, rule.points, points[0])
    old_count = former_points(old, partner, between, rule.points, points[1])
    enough = count >= rule.fewest_points and old_count >= rule.fewest_points
    return (count, old_count) if enough else (0, 0)


@njit(cache=True, nogil=True)
def register_components(first, last, now, old, stood, between, rule, velocity):
    """Velocities of some components of now, (components, 2) in m/s; what is known already stays."""
    columns = now.label.shape[1]
    votes, voted = np.zeros(old.start.shape[0], np.int32), np.full(old.start.shape[0], -1, np.int32)
    present, former = np.empty((2 * rule.points, 2), np.int32), np.empty((2 * rule.points, 2), np.int32)
    for k in range(first, last):
        if not math.isnan(velocity[k, 0]):
            continue
        cells = now.cells[now.start[k] : now.start[k + 1]]
        if cells.shape[0] < rule.fewest_cells or cells.shape[0] > rule.most_cells:
            continue
        extent = extent_of(cells, columns)
        if extent > rule.extent or extent < rule.least_extent:
            continue
        count, old_count = lay_over(cells, now, old, between, (votes, voted), (present, former), rule)
        if count == 0:
            continue
        reach = int(min(rule.reach, rule.reach_per_extent * extent + rule.reach_least))
        laid = present[:count], former[:old_count], now.picture, old.picture, between
        same, gain = rule.same, rule.gain
        if extent <= rule.small:
            same, gain = rule.small_same, rule.small_gain
        elif _stands(cells, stood, rule) and _contradicted(*laid) >= rule.standing_freed * (count + old_count):
            # Its flank agrees for long with where it stood, but free space opens behind it, or closes before it.
            same, gain = rule.standing_same, rule.standing_gain
        dx, dy = best_shift(*laid, reach, same, gain, rule)
        if dx != 0 or dy != 0:
            set_velocity(velocity, k, dx, dy, rule)
