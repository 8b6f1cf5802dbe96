# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The ground is opaque: returns that a beam passed beneath, or that stand above each other, are not ground."""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import inner, njit
from roadbed.compute.primitives_cpu import fast_azimuth

GAP, GAP_GROWTH = 0.5, 0.02  # m, and per m of range: how much farther a beam must have gone
BENEATH = 0.15  # m under a return at which it passed
NEAR = 0.25  # m of range within which returns stand above each other
RISE, STEEP = 0.04, 1.2  # m of height and per m of range from which they do
BETWEEN = 0.02  # m: what lies between two such returns, or this much beside, stands too
FAR, FAR_STEEP = 20.0, 0.4  # m of range from which, and height per range at which, the next beam above shows the same
BEHIND, BEHIND_LOWER = 0.8, 0.45  # m farther and lower than one that stands, up to which a return is its underside
BEAM = 0.003  # of height per range: returns that differ by less are of one beam
FAR_APART = 0.015  # two beams that differ by more leave a large gap between them
WALL, WALL_RISE = 3.0, 0.2  # height per range and m from which two returns are of one wall
RANGE_NOISE = 0.05  # m
GROUND_SHARE = 0.03  # of the gap between two beams in which the ground before the wall may lie
AZIMUTH_ERROR = 2e-5  # radians
MOST = 4  # times as many returns as a sparse direction holds, and it is left alone: seen well enough


@inner()
def _turn(east, north, per_radian):
    """The direction's number; by the true angle only where the fast one could mistake it."""
    part = (fast_azimuth(east, north) + np.pi) * per_radian
    unsure = part - np.floor(part + 0.5)  # from the border between two
    if abs(unsure) < AZIMUTH_ERROR * per_radian:
        part = (np.arctan2(north, east) + np.pi) * per_radian
    return np.int32(part)


@njit(cache=True, nogil=True, allocates=False)
def find_directions(first, last, points, rotation, origins, sensor, directions, cell, place):
    """`cell` of points in a range: their sensor and direction, -1 for what is no return; and `place` (N, 2): range and
    height over the sensor, m."""
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
        if place[i, 0] < 0.2:  # straight below: in no direction
            continue
        cell[i] = sensor[i] * directions + min(_turn(east, north, per_radian), directions - 1)


@njit(cache=True, allocates=False)
def sort_by_direction(cell, order, start):
    """Points in the order of their cells; `start` (cells + 1,) zeros: where each begins. Returns how many have any."""
    for c in cell:
        if c >= 0:
            start[c + 1] += 1
    used = 0
    for c in range(start.shape[0] - 1):
        used += start[c + 1] > 0
        start[c + 1] += start[c]
    for i in range(cell.shape[0] - 1, -1, -1):  # from the last, so that the ends of cells become their beginnings
        if cell[i] >= 0:
            start[cell[i] + 1] -= 1
            order[start[cell[i] + 1]] = i
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
def _sort_by_slope(order, place, slope):
    """The returns of a direction, lowest beam first, and the slopes of their beams: there are few."""
    for k in range(order.shape[0]):
        own = order[k]
        steepness = place[own, 1] / place[own, 0]
        while k > 0 and slope[k - 1] > steepness:
            slope[k], order[k] = slope[k - 1], order[k - 1]
            k -= 1
        slope[k], order[k] = steepness, own


@inner()
def _mark_foot(order, place, standing, slope):
    """One direction's returns on a wall whose next return is right above them, where beams are far apart.

    The lower beam may also have met the ground just before the wall, but few beams of all in that gap would.
    """
    n = order.shape[0]
    _sort_by_slope(order, place, slope)
    for a in range(n):
        r, z = place[order[a], 0], place[order[a], 1]
        b = a + 1
        while b < n and slope[b] < slope[a] + BEAM:
            b += 1
        if slope[a] >= 0 or b == n or slope[b] - slope[a] <= FAR_APART:
            continue
        gap = slope[b] - slope[a]
        apart, rise = np.inf, 0.0
        while b < n and slope[b] < slope[a] + gap + BEAM:
            other = order[b]
            if abs(place[other, 0] - r) < apart:
                apart, rise = abs(place[other, 0] - r), place[other, 1] - z
            b += 1
        ground = -slope[a] * (apart + RANGE_NOISE) / r  # slopes of beams that end on the ground before the wall
        if apart < NEAR and rise > WALL_RISE + WALL * apart and ground < GROUND_SHARE * gap:
            standing[order[a]] = True


@njit(cache=True, nogil=True)
def mark_standing(first, last, order, start, place, most, sparse, standing):
    """`standing` of the points that cannot be ground, in a range of directions that hold at most `most` returns each.

    `sparse`: by the rules for a few layers, else by the one for sixteen or thirty-two.
    """
    scratch = np.empty(most)
    for c in range(first, last):
        one = order[start[c] : start[c + 1]]
        if not 1 < one.shape[0] <= most:
            continue
        if sparse:
            _mark_direction(one, place, standing, scratch)
        else:
            _mark_foot(one, place, standing, scratch)
