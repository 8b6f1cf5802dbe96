# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The ground is opaque: returns that a beam passed beneath, or that stand above each other, are not ground."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import inner, njit
from roadbed.compute.primitives_cpu import fast_azimuth
from roadbed.ground.opacity.model import (
    AZIMUTH_ERROR,
    BEAM,
    BEHIND,
    BEHIND_LOWER,
    BENEATH,
    BETWEEN,
    FAR,
    FAR_APART,
    FAR_STEEP,
    GAP,
    GAP_GROWTH,
    GROUND_SHARE,
    NEAR,
    NEAREST,
    RANGE_NOISE,
    RISE,
    STEEP,
    WALL,
    WALL_RISE,
)  # fmt: skip


@inner()
def _turn(east, north, r, per_radian, borders):
    """The direction's number; by the angle from the border between two only where the fast angle could mistake it.

    Only sums, products and quotients, which every device rounds alike.
    """
    part = (fast_azimuth(east, north) + np.pi) * per_radian
    nearest = np.floor(part + 0.5)
    if abs(part - nearest) < AZIMUTH_ERROR * per_radian:
        border = np.int32(nearest)
        beyond = (north * borders[border, 1] - east * borders[border, 2]) / r
        part = (borders[border, 0] + beyond + np.pi) * per_radian
    return np.int32(part)


@njit(cache=True, nogil=True, allocates=False)
def find_directions(first, last, points, rotation, origins, sensor, borders, cell, place):
    """`cell` of points in a range: their sensor and direction, -1 for what is no return; and `place` (N, 2): range and
    height over the sensor, m."""
    directions = borders.shape[0] - 1
    per_radian = directions / (2 * np.pi)
    for i in range(first, last):
        cell[i] = -1
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        if (x == 0 and y == 0 and z == 0) or not np.isfinite(x + y + z):
            continue
        x, y, z = x - origins[sensor[i], 0], y - origins[sensor[i], 1], z - origins[sensor[i], 2]
        east = rotation[0, 0] * x + rotation[0, 1] * y + rotation[0, 2] * z
        north = rotation[1, 0] * x + rotation[1, 1] * y + rotation[1, 2] * z
        place[i, 0] = np.sqrt(east * east + north * north)
        place[i, 1] = rotation[2, 0] * x + rotation[2, 1] * y + rotation[2, 2] * z
        if place[i, 0] < NEAREST:
            continue
        cell[i] = sensor[i] * directions + min(_turn(east, north, place[i, 0], per_radian, borders), directions - 1)


@njit(cache=True, allocates=False)
def sort_by_direction(cell, order, start):
    """Points in the order of their cells; `start` (cells + 1,) zeros: where each begins. Returns how many have any."""
    for c in cell:
        if c >= 0:
            start[c] += 1
    used, total = 0, 0
    for c in range(start.shape[0]):
        used += start[c] > 0
        total += start[c]
        start[c] = total
    for i in range(cell.shape[0] - 1, -1, -1):  # from the last, so that the ends of cells become their beginnings
        if cell[i] >= 0:
            start[cell[i]] -= 1
            order[start[cell[i]]] = i
    return used


@inner()
def _is_undercut(r, z, other_r, other_z):
    """Whether the beam of the other return passed well beneath this one and went on."""
    return other_r - r > GAP + GAP_GROWTH * r and z - r * other_z / other_r > BENEATH


@inner()
def _mark_direction(order, place, standing, scratch):
    """One direction's returns against each other."""
    n = order.shape[0]
    for a in range(n):
        r, z = place[order[a], 0], place[order[a], 1]
        for b in range(n):
            other_r, other_z = place[order[b], 0], place[order[b], 1]
            if _is_undercut(r, z, other_r, other_z):
                standing[order[a]] = True
            rise, apart = other_z - z, abs(other_r - r)
            if rise <= RISE or apart >= NEAR or rise <= STEEP * apart:
                continue
            low_r, high_r = min(r, other_r) - NEAR, max(r, other_r) + NEAR
            for c in range(n):
                between_r, between_z = place[order[c], 0], place[order[c], 1]
                if z - BETWEEN <= between_z <= other_z + BETWEEN and low_r <= between_r <= high_r:
                    standing[order[c]] = True
    _mark_far(order, place, standing)
    _mark_undersides(order, place, standing, scratch)


@inner()
def _mark_far(order, place, standing):
    """Far away two beams meet a car at its bonnet and its window: less steep than a wall, steeper than a hillside."""
    n = order.shape[0]
    for a in range(n):
        r, z = place[order[a], 0], place[order[a], 1]
        if r < FAR:
            continue
        nearest, rise, apart = np.inf, 0.0, np.inf
        for b in range(n):
            above = place[order[b], 1] / place[order[b], 0] - z / r
            if BEAM < above < nearest:
                nearest, rise, apart = above, place[order[b], 1] - z, place[order[b], 0] - r
        if apart > 0 and rise > FAR_STEEP * apart:
            standing[order[a]] = True


@inner()
def _mark_undersides(order, place, standing, stood):
    """What a beam met just behind and below the side of something is its underside or a wheel."""
    n = order.shape[0]
    for a in range(n):
        stood[a] = standing[order[a]]
    for a in range(n):
        r, z = place[order[a], 0], place[order[a], 1]
        for b in range(n):
            behind, lower = r - place[order[b], 0], place[order[b], 1] - z
            if stood[b] > 0 and 0 < behind < BEHIND and 0 < lower < BEHIND_LOWER:
                standing[order[a]] = True


@inner()
def _sort_by_slope(order, place, slope, spare_slope, spare_order):
    """The returns of a direction, lowest beam first, and the slopes of their beams.

    Beams come in turns from the top or from the bottom: runs that rise or fall are merged one after the other.
    """
    n, done = order.shape[0], 0
    for k in range(n):
        slope[k] = place[order[k], 1] / place[order[k], 0]
    while done < n:
        end = done + 1
        falls = end < n and slope[end] < slope[done]
        while end < n and (slope[end] < slope[end - 1]) == falls:
            end += 1
        for k in range(end - done):
            origin = end - 1 - k if falls else done + k
            spare_slope[k], spare_order[k] = slope[origin], order[origin]
        before, run, to = done - 1, end - done - 1, end - 1
        while run >= 0:
            earlier = before >= 0 and slope[before] > spare_slope[run]
            slope[to] = slope[before] if earlier else spare_slope[run]
            order[to] = order[before] if earlier else spare_order[run]
            before, run, to = before - earlier, run - (not earlier), to - 1
        done = end


@inner()
def _mark_foot(order, place, standing, slope, spare_slope, spare_order):
    """One direction's returns on a wall whose next return is right above them, where beams are far apart.

    The lower beam may also have met the ground just before the wall, but few beams of all in that gap would.
    """
    n = order.shape[0]
    _sort_by_slope(order, place, slope, spare_slope, spare_order)
    above = 0  # the first return of the next beam: farther up for every next return
    for a in range(n):
        if slope[a] >= 0:
            break
        r, z = place[order[a], 0], place[order[a], 1]
        while above < n and slope[above] < slope[a] + BEAM:
            above += 1
        if above == n or slope[above] - slope[a] <= FAR_APART:
            continue
        gap, b = slope[above] - slope[a], above
        apart, rise = np.inf, 0.0
        while b < n and slope[b] < slope[a] + gap + BEAM:
            other = order[b]
            if abs(place[other, 0] - r) < apart:
                apart, rise = abs(place[other, 0] - r), place[other, 1] - z
            b += 1
        if apart < NEAR and rise > WALL_RISE + WALL * apart:
            ground = -slope[a] * (apart + RANGE_NOISE) / r  # slopes of beams that end on the ground before the wall
            standing[order[a]] = ground < GROUND_SHARE * gap


@njit(cache=True, nogil=True)
def mark_standing(first, last, order, start, place, most, sparse, standing):
    """`standing` of the points that cannot be ground, in a range of directions that hold at most `most` returns each.

    `sparse`: by the rules for a few layers, else by the one for sixteen or thirty-two.
    """
    scratch, spare, spare_order = np.empty(most), np.empty(most), np.empty(most, np.int32)
    for c in range(first, last):
        one = order[start[c] : start[c + 1]]
        if not 1 < one.shape[0] <= most:
            continue
        if sparse:
            _mark_direction(one, place, standing, scratch)
        else:
            _mark_foot(one, place, standing, scratch, spare, spare_order)
