# SPDX-License-Identifier: Apache-2.0
"""Numba kernels that register components against an older scan: each is shifted until both scans agree.

Positions are subcells of the present grid, (x, y). A bitmap is int64 (rows, columns): see `model.py`.
"""

from __future__ import annotations

import math

import numpy as np

from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import ZERO, max, min
from roadbed.occupancy.model import HITS_IN_CELL, SUBCELLS
from roadbed.occupancy.registration.arrays import GridTransform
from roadbed.occupancy.registration.model import COARSE_LOSS, FAR, LINE_RATIO, STATIC_SHARE
from roadbed.occupancy.registration.shifts_cpu import agreement, older_place, scores_around


@inner()
def total_agreement(present, former, now, old, transform, dx, dy, least):
    """Sum of g over the present points in the old scan and the former ones in the present scan, for a shift (dx, dy).

    Stops as soon as it cannot reach `least`.
    """
    total, left = 0, present.shape[0] + former.shape[0]
    for k in range(present.shape[0]):
        x, y = older_place(present[k, 0] - dx, present[k, 1] - dy, transform)
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
def best_shift(present, former, now, old, transform, reach, same, gain, rule):
    """The shift (x, y) in subcells under which the points agree best, (0, 0) where none is sure enough."""
    count = present.shape[0] + former.shape[0]
    still = total_agreement(present, former, now, old, transform, ZERO, ZERO, -count)
    if still > same * count:
        return 0, 0
    needed = max(rule.good * count, still + gain * count)
    best = math.ceil(needed - COARSE_LOSS * count) - 1
    found_x = found_y = 0
    back = scores_around(present, old, transform, reach)  # present points are looked up where they came from: at -d
    ahead = scores_around(former, now, GridTransform(1.0, 0.0, 0.0, 1.0, 0.0, 0.0), reach)
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
            score = total_agreement(present, former, now, old, transform, dx, dy, best + 1)
            if score > best:
                best, found_x, found_y = score, dx, dy
    if best < needed:
        return 0, 0
    # Along a smooth face many shifts agree equally: a shift that is hardly a motion must not be among them.
    enough = math.ceil(best - rule.slack * count)
    small = math.ceil(rule.least)
    for dy in range(-small, small + 1):
        for dx in range(-small, small + 1):
            if dx * dx + dy * dy >= rule.least * rule.least:
                continue
            if total_agreement(present, former, now, old, transform, dx, dy, enough) >= enough:
                return 0, 0
    return found_x, found_y


@inlined()
def _row_of(cell, columns, row):
    """The row of a cell, which is `row` or a later one: cells are sorted, and a division takes far longer."""
    while cell >= (row + 1) * columns:
        row += 1
    return row


@inner()
def points_of(bitmap, cells, most, out):
    """Hit subcells of some cells, evenly subsampled where there are more than `most`. Returns how many."""
    columns, flat, hits = bitmap.shape[1], bitmap.reshape(-1), 0
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
def box_of(cells, columns):
    """First and last row, first and last column of some cells."""
    first = cells[0] // columns
    row, low, high = first, columns, 0
    for k in range(cells.shape[0]):
        row = _row_of(cells[k], columns, row)
        low, high = min(low, cells[k] - row * columns), max(high, cells[k] - row * columns)
    return first, row, low, high


@inner()
def extent_of(cells, columns):
    """Cells along the longer side of the bounding box of some cells, less one."""
    first, last, low, high = box_of(cells, columns)
    return max(last - first, high - low)


@inlined()
def reach_of(extent, rule):
    """Shifts, in subcells, that are tried for a component of some extent, in cells."""
    return int(min(rule.reach, rule.reach_per_extent * extent + rule.reach_least))


@inlined()
def former_cell(row, column, transform):
    """Row and column of a cell's centre in the older grid."""
    x, y = (column + 0.5) * SUBCELLS, (row + 0.5) * SUBCELLS
    return (
        math.floor((transform.yx * x + transform.yy * y + transform.y) / SUBCELLS),
        math.floor((transform.xx * x + transform.xy * y + transform.x) / SUBCELLS),
    )


@inlined()
def _vote(one, best, first, votes, voted):
    """Count a vote for an old component. Returns the one with most votes so far, the lowest of several."""
    votes[one] = votes[one] + 1 if voted[one] == first else 1
    voted[one] = first
    return one if best < 0 or votes[one] > votes[best] or (votes[one] == votes[best] and one < best) else best


@inner()
def partner_of(cells, old_label, transform, votes, voted):
    """The old component found most often in the 3 x 3 cells around some present cells, or -1.

    `votes` of an old component are valid where `voted` holds the first of these cells."""
    rows, columns = old_label.shape
    best, now_row = np.int64(-1), cells[0] // columns
    for k in range(cells.shape[0]):
        now_row = _row_of(cells[k], columns, now_row)
        row, column = former_cell(now_row, cells[k] - now_row * columns, transform)
        for r in range(max(row - 1, 0), min(row + 2, rows)):
            for c in range(max(column - 1, 0), min(column + 2, columns)):
                if old_label[r, c] >= 0:
                    best = _vote(old_label[r, c], best, cells[0], votes, voted)
    return best


@inner()
def vacated_partner(cells, label, old_label, transform, reach, votes, voted):
    """The old component with most cells that are hit no more, at most `reach` cells from the box of some present cells,
    or -1: what moved further than its length overlaps with nothing, or with another piece of the same object. `votes`
    are valid where `voted` holds the complement of the first of these cells."""
    rows, columns = old_label.shape
    best = np.int64(-1)
    first, last, low, high = box_of(cells, columns)
    for now_row in range(max(first - reach, 0), min(last + reach + 1, rows)):
        for now_column in range(max(low - reach, 0), min(high + reach + 1, columns)):
            if label[now_row, now_column] >= 0:
                continue
            row, column = former_cell(now_row, now_column, transform)
            if row < 0 or column < 0 or row >= rows or column >= columns or old_label[row, column] < 0:
                continue
            best = _vote(old_label[row, column], best, ~cells[0], votes, voted)
    return best


@inner()
def _alone(cells, label, old_label, transform, reach):
    """Whether a component alone has new cells, and one single old one lost some, at most `reach` cells from its box:
    returns of a wall at grazing incidence lie between several older ones. Beyond the grid there may be more."""
    rows, columns = old_label.shape
    only, own = -1, label[cells[0] // columns, cells[0] % columns]
    first, last, low, high = box_of(cells, columns)
    for now_row in range(first - reach, last + reach + 1):
        for now_column in range(low - reach, high + reach + 1):
            row, column = former_cell(now_row, now_column, transform)
            if (
                min(min(now_row, now_column), min(row, column)) < 0
                or max(now_row, row) >= rows
                or max(now_column, column) >= columns
            ):
                return False
            new, one = label[now_row, now_column], old_label[row, column]
            if (new >= 0) == (one >= 0) or new == own or (one >= 0 and one == only):
                continue
            if new >= 0 or only >= 0:
                return False
            only = one
    return only >= 0


@merged()
def _is_static(cells, prior, rule):
    """Whether enough cells of a component have been static for long."""
    rows, columns = prior.maturity.shape
    long_static, now_row = 0, cells[0] // columns
    for k in range(cells.shape[0]):
        now_row = _row_of(cells[k], columns, now_row)
        row, column = former_cell(now_row, cells[k] - now_row * columns, prior.transform)
        if 0 <= row < rows and 0 <= column < columns:
            long_static += prior.maturity[row, column] >= rule.standing_time
    return long_static >= STATIC_SHARE * cells.shape[0]


@inner()
def _contradicted(present, former, now, old, transform):
    """Number of present points in cells that were free, and of former points in cells that are free now."""
    count = 0
    for k in range(present.shape[0]):
        x, y = older_place(present[k, 0], present[k, 1], transform)
        count += agreement(old, x, y) < 0
    for k in range(former.shape[0]):
        count += agreement(now, former[k, 0], former[k, 1]) < 0
    return count


@merged()
def former_points(old, partner, transform, most, former):
    """Points of an old component on the present grid: the inverse of p_old = R p_new + shift. Returns their number."""
    count = points_of(old.bitmap, old.cells[old.start[partner] : old.start[partner + 1]], most, former)
    for j in range(count):
        x, y = former[j, 0] + 0.5 - transform.x, former[j, 1] + 0.5 - transform.y
        former[j, 0] = math.floor(transform.xx * x + transform.yx * y)
        former[j, 1] = math.floor(transform.xy * x + transform.yy * y)
    return count


@inlined()
def set_velocity(velocity, k, dx, dy, rule):
    """The velocity of component k, which moved by (dx, dy) subcells."""
    velocity[k, 0] = np.float32(dx / rule.age) * np.float32(rule.subcell)
    velocity[k, 1] = np.float32(dy / rule.age) * np.float32(rule.subcell)


@inner()
def matched_points(cells, now, old, transform, voting, points, rule):
    """Number of points of a component and of its partner in the old scan; 0 without a partner, or with too few. The
    background, which has the number after the last component, is no partner."""
    background, extent = old.start.shape[0] - 1, extent_of(cells, now.label.shape[1])
    partner = partner_of(cells, old.label, transform, voting[0], voting[1])
    if partner == background:
        return 0, 0
    size = old.start[partner + 1] - old.start[partner] if partner >= 0 else 0
    piece = extent > rule.small and size < rule.piece * cells.shape[0]
    if piece or partner < 0:
        reach = reach_of(extent, rule) // SUBCELLS
        left = vacated_partner(cells, now.label, old.label, transform, reach, voting[0], voting[1])
        partner = left if left >= 0 else partner
    if partner < 0 or partner == background:
        return 0, 0
    if extent_of(old.cells[old.start[partner] : old.start[partner + 1]], now.label.shape[1]) > rule.partner_extent:
        return 0, 0
    count = points_of(now.bitmap, cells, rule.points, points[0])
    old_count = former_points(old, partner, transform, rule.points, points[1])
    enough = count >= rule.fewest_points and old_count >= rule.fewest_points
    return (count, old_count) if enough else (0, 0)


@inner()
def _spread(points, dx, dy):
    """Length of some points along a shift, and their width across it, in subcells."""
    first_along = first_across = FAR
    last_along = last_across = -FAR
    for k in range(points.shape[0]):
        along, across = points[k, 0] * dx + points[k, 1] * dy, points[k, 1] * dx - points[k, 0] * dy
        first_along, last_along = min(first_along, along), max(last_along, along)
        first_across, last_across = min(first_across, across), max(last_across, across)
    shift = math.sqrt(dx * dx + dy * dy)
    return (last_along - first_along) / shift, (last_across - first_across) / shift


@merged()
def _touches_background(cells, label, background):
    """Whether one of the 3 x 3 cells around some cells is background."""
    rows, columns = label.shape
    row = cells[0] // columns
    for k in range(cells.shape[0]):
        row = _row_of(cells[k], columns, row)
        column = cells[k] - row * columns
        for r in range(max(row - 1, 0), min(row + 2, rows)):
            for c in range(max(column - 1, 0), min(column + 2, columns)):
                if label[r, c] == background:
                    return True
    return False


@njit(cache=True, nogil=True)
def register_components(first, last, prior, now, old, transform, rule, velocity):
    """Velocities of components first to last, (components, 2) in m/s; known ones stay."""
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
        if extent > rule.extent:
            continue
        count, old_count = matched_points(cells, now, old, transform, (votes, voted), (present, former), rule)
        if count == 0:
            continue
        reach = reach_of(extent, rule)
        matched = present[:count], former[:old_count], now.bitmap, old.bitmap, transform
        same, gain, freed = rule.same, rule.gain, rule.freed
        if extent <= rule.small:
            same, gain = rule.small_same, rule.small_gain
        elif _is_static(cells, prior, rule):
            # Its flank still agrees with the past, but free space opens behind it, or closes before it.
            same, gain, freed = rule.standing_same, rule.standing_gain, rule.standing_freed
        # What was out of sight, or is now, may have stood there: a wall that the grid's rim, a shadow or the sensor's
        # view cuts off does not move with its end. What is small and alone has no such end.
        if _contradicted(*matched) < freed * (count + old_count) and not (
            extent <= rule.small and _alone(cells, now.label, old.label, transform, reach // SUBCELLS)
        ):
            continue
        dx, dy = best_shift(*matched, reach, same, gain, rule)
        if dx == 0 and dy == 0:
            continue
        length, width = _spread(present[:count], dx, dy)
        # Each piece of a guard rail looks like the next one, and so does a parked car. A rail's end that comes out of a
        # shadow moves along the rail.
        shift = math.sqrt(dx * dx + dy * dy)
        narrow, leaves = width < rule.across, shift > length
        alike = (narrow and leaves) if rule.short_shift == 0 else shift > rule.short_shift and (narrow or leaves)
        line = width < rule.line and length > LINE_RATIO * width
        if not alike and not (line and _touches_background(cells, now.label, now.start.shape[0] - 1)):
            set_velocity(velocity, k, float(dx), float(dy), rule)
