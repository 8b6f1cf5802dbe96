# SPDX-License-Identifier: Apache-2.0
"""Occlusion within one direction: returns that a beam passed below, or that rise steeply, are not ground.

Twins: directions.cl and mark.cl.
"""

import numpy as np

from roadbed.ground.visibility import model
from roadbed.kernels.jit import inner, merged
from roadbed.kernels.numeric import U, max, min
from roadbed.runtime.primitives_cpu import fast_azimuth


@inner()
def find_directions(first, last, views, cell, range_height, level):
    """For a range of points, write `cell` (sensor and direction, -1: none), `range_height` (N, 2) from the sensor, m,
    and `level` (N, 3), coordinates along the level axes, NaN for missing returns.

    Near the border of a direction the angle is computed from that border, by sums, products and quotients only, which
    every device rounds the same: the approximate angle could be on the wrong side.
    """
    points, rotation, origins, sensor, borders = views
    directions = borders.shape[0] - 1
    per_radian = directions / (2 * np.pi)
    for i in range(U(first), U(last)):
        cell[i], seen_by = -1, U(sensor[i])
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        if (x == 0 and y == 0 and z == 0) or not np.isfinite(x + y + z):
            level[i, 0] = level[i, 1] = level[i, 2] = np.nan
            continue
        for axis in range(3):
            level[i, axis] = rotation[axis, 0] * x + rotation[axis, 1] * y + rotation[axis, 2] * z
        x, y, z = x - origins[seen_by, 0], y - origins[seen_by, 1], z - origins[seen_by, 2]
        east = rotation[0, 0] * x + rotation[0, 1] * y + rotation[0, 2] * z
        north = rotation[1, 0] * x + rotation[1, 1] * y + rotation[1, 2] * z
        r = np.sqrt(east * east + north * north)
        range_height[i, 0], range_height[i, 1] = r, rotation[2, 0] * x + rotation[2, 1] * y + rotation[2, 2] * z
        if r >= model.NEAREST:
            part = (fast_azimuth(east, north) + np.pi) * per_radian
            nearest = np.floor(part + 0.5)
            if abs(part - nearest) < model.AZIMUTH_ERROR * per_radian:
                border = np.int32(nearest)
                beyond = (north * borders[border, 1] - east * borders[border, 2]) / r
                part = (borders[border, 0] + beyond + np.pi) * per_radian
            cell[i] = seen_by * U(directions) + U(min(np.int32(part), directions - 1))


@inner()
def sort_by_direction(cell, range_height, start, order, seen):
    """Sort points by cell: their numbers to `order`, ranges and heights to `seen` (2, N), and where each cell begins to
    `start` (cells + 1,), zeros before. Returns the number of cells with points."""
    for c in cell:
        if c >= 0:
            start[U(c)] += 1
    used, total = 0, 0
    for own in range(U(start.shape[0])):
        used += start[own] > 0
        total += start[own]
        start[own] = total
    for i in range(cell.shape[0] - 1, -1, -1):  # backwards: the end of each cell becomes its beginning
        if cell[i] >= 0:
            own = U(cell[i])
            start[own] -= 1
            k = U(start[own])
            order[k], seen[0, k], seen[1, k] = i, range_height[i, 0], range_height[i, 1]
    return used


@merged()
def _is_undercut(r, z, other_r, other_z):
    """Whether the beam of the other return passed well below this one and went on."""
    return other_r - r > model.GAP + model.GAP_GROWTH * r and z - r * other_z / other_r > model.BENEATH


@merged()
def _is_lone(own, c, directions, start, seen, most):
    """Whether no other return of direction c or the next ones is at the range and height of return `own` of c."""
    first = c - c % directions
    r, z, found = seen[0, own], seen[1, own], 0
    for side in (directions - 1, directions, directions + 1):
        other = first + (c - first + side) % directions
        begin, end = U(start[other]), U(start[other + 1])
        for k in range(begin, end if end - begin <= most else begin):
            found += (abs(seen[0, k] - r) < model.LONE_RANGE * r) & (abs(seen[1, k] - z) < model.LONE_HEIGHT)
    return found < 2  # it finds itself


@merged()
def _count_beams(begin, end, seen):
    """How many beams the returns of a direction are of: those without one just below are counted."""
    found = 0
    for a in range(begin, end):
        slope, lowest = seen[1, a] / seen[0, a], True
        for b in range(begin, end):
            below = slope - seen[1, b] / seen[0, b]
            lowest &= not (0 < below < model.BEAM or (below == 0 and b < a))
        found += lowest
    return found


@inner()
def find_lone(first, last, directions, start, seen, most, beams, lone, counts):
    """Of the returns whose beam passed below another of their direction, for a range of directions: set `lone` (N,) for
    those that ended alone; `counts` gains how many there are, how many of them are lone, and how many directions have
    returns of more than `beams` beams."""
    for c in range(first, last):
        begin, end = U(start[c]), U(start[c + 1])
        if not 1 < end - begin <= most:
            continue
        counts[2] += _count_beams(begin, end, seen) > beams
        for b in range(begin, end):
            passed, lone[b] = False, np.uint8(0)
            for a in range(begin, end):
                passed |= _is_undercut(seen[0, a], seen[1, a], seen[0, b], seen[1, b])
            if passed:
                lone[b] = np.uint8(_is_lone(b, c, directions, start, seen, most))
                counts[0] += 1
                counts[1] += lone[b]


@merged()
def _mark_direction(n, ranges, heights, ignored, slope, marked, marked_before):
    """Compare the returns of one direction with each other; `marked` becomes 1 for those that cannot be ground.

    The beams of `ignored` returns show nothing of the returns above them.
    """
    for a in range(n):
        slope[a], marked[a] = heights[a] / ranges[a], np.uint8(0)
    for a in range(n):
        r, z = ranges[a], heights[a]
        for b in range(n):
            other_r, other_z = ranges[b], heights[b]
            if ignored[b] == 0 and _is_undercut(r, z, other_r, other_z):
                marked[a] = np.uint8(1)
            rise, apart = other_z - z, abs(other_r - r)
            if (rise <= model.RISE) | (apart >= model.NEAR) | (rise <= model.STEEP * apart):
                continue
            low_r, high_r = min(r, other_r) - model.NEAR, max(r, other_r) + model.NEAR
            low_z, high_z = z - model.BETWEEN, other_z + model.BETWEEN
            for c in range(n):
                as_high = (low_z <= heights[c]) & (heights[c] <= high_z)
                marked[c] |= np.uint8(as_high & (low_r <= ranges[c]) & (ranges[c] <= high_r))
    _mark_far(np.int64(n), ranges, heights, slope, marked)
    _mark_undersides(n, ranges, heights, marked, marked_before)


@merged()
def _mark_far(n, ranges, heights, slope, marked):
    """Mark far returns below a steep step: two beams hit a car at bonnet and window, less steep than a wall."""
    for a in range(n):
        if ranges[a] < model.FAR:
            continue
        nearest, other = np.inf, -1
        for b in range(n):
            above = slope[b] - slope[a]
            if model.BEAM < above < nearest:
                nearest, other = above, b
        if other >= 0:
            apart, rise = ranges[other] - ranges[a], heights[other] - heights[a]
            if apart > 0 and rise > model.FAR_STEEP * apart:
                marked[a] = np.uint8(1)


@merged()
def _mark_undersides(n, ranges, heights, marked, marked_before):
    """Mark returns just behind and below a marked one: the underside or a wheel of an object."""
    for a in range(n):
        marked_before[a] = marked[a]
    for a in range(n):
        for b in range(n if marked_before[a] == 0 else U(0)):
            behind, lower = ranges[a] - ranges[b], heights[b] - heights[a]
            near = (behind > 0) & (behind < model.BEHIND) & (lower > 0) & (lower < model.BEHIND_LOWER)
            marked[a] |= marked_before[b] & np.uint8(near)


@merged()
def _sort_by_slope(n, ranges, heights, order, slope, spare_slope, spare_order):
    """Sort the returns of a direction by the slopes of their beams, lowest first.

    Sensors report beams from the top or from the bottom, so the input is a few monotonic runs, which are merged.
    """
    done = 0
    for k in range(n):
        order[k], slope[k] = k, heights[k] / ranges[k]
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


@merged()
def _mark_foot(n, ranges, heights, marked, order, slope, spare_slope, spare_order):
    """Mark returns on a wall whose next return is right above them, where beams are far apart.

    The lower beam may have hit the ground just before the wall, but only few beams of the gap would. A rising beam
    meets ceilings, too, so that it needs the wall that a falling one has met.
    """
    for a in range(n):
        marked[a] = np.uint8(0)
    _sort_by_slope(n, ranges, heights, order, slope, spare_slope, spare_order)
    above, falling = 0, 0  # the first return of the next beam, which never decreases; returns of falling beams
    for a in range(n):
        falling += slope[a] < 0
        r, z = ranges[order[a]], heights[order[a]]
        while above < n and slope[above] < slope[a] + model.BEAM:
            above += 1
        if above == n or slope[above] - slope[a] <= model.FAR_APART:
            continue
        gap, b = slope[above] - slope[a], above
        apart, rise = np.inf, 0.0
        while b < n and slope[b] < slope[a] + gap + model.BEAM:
            other = order[b]
            if abs(ranges[other] - r) < apart:
                apart, rise = abs(ranges[other] - r), heights[other] - z
            b += 1
        if apart < model.NEAR and rise > model.WALL_RISE + model.WALL * apart:
            # Range of slopes of the beams that end on the ground before the wall.
            ground = -slope[a] * (apart + model.RANGE_NOISE) / r
            met = slope[a] < 0
            for b in range(0 if met else falling):
                met |= marked[order[b]] > 0 and abs(ranges[order[b]] - r) < model.NEAR
            marked[order[a]] = np.uint8(met and ground < model.GROUND_SHARE * gap)


@inner()
def mark_directions(first, last, order, start, seen, lone, most, sparse, has_strays, non_ground):
    """Set `non_ground` for points that cannot be ground, in a range of directions of at most `most` returns each.

    `sparse`: by the rules for a few layers, else by the rule for 16 or 32 layers. With strays `lone` ones are ignored.
    """
    ranges, heights, slope, spare = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    marked, marked_before, ignored = np.empty(most, np.uint8), np.empty(most, np.uint8), np.empty(most, np.uint8)
    sorted_order, spare_order = np.empty(most, np.int32), np.empty(most, np.int32)
    for c in range(first, last):
        begin, end = start[c], start[c + 1]
        if not 1 < end - begin <= most:
            continue
        for k in range(begin, end):
            ranges[k - begin], heights[k - begin] = seen[0, k], seen[1, k]
            ignored[k - begin] = lone[k] if has_strays else np.uint8(0)
        if sparse:
            _mark_direction(U(end - begin), ranges, heights, ignored, slope, marked, marked_before)
        else:
            _mark_foot(np.int64(end - begin), ranges, heights, marked, sorted_order, slope, spare, spare_order)
        for k in range(begin, end):
            non_ground[order[k]] = marked[k - begin] > 0
