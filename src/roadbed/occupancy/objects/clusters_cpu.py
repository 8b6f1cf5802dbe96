# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Numba kernels that group the moving cells of one frame into clusters, with their velocity, returns and boxes."""

import math

import numpy as np

from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import max, min
from roadbed.occupancy.model import HIT, SUBCELLS
from roadbed.occupancy.objects.arrays import CLUSTER
from roadbed.occupancy.objects.lshape_cpu import HAS_SIDES, fit_box
from roadbed.occupancy.objects.track_filter_cpu import is_alive, odds_at
from roadbed.runtime.components_cpu import root_of

_CELL_VARIANCE = 0.05  # m^2/s^2 added to every cell's covariance: cells of one object are not independent
_ROOM = 2048  # points at first
_BODY_MARGIN = 0.5  # m around an object's box in which parts of it are looked for


@njit(cache=True, error_model="numpy")
def find_clusters(moving, layers, grid, rule, stamps, known, time):
    """Clusters (CLUSTER records) of the moving cells, whose indices are sorted.

    Cells within `reach` of each other are one part; parts of one body are merged, and then those of a `known` object.
    Fewer than `min_cells` are a cluster only where they belong to such an object. `stamps` are zeros, one per cell.
    """
    rows, columns = np.empty(moving.shape[0], np.int64), np.empty(moving.shape[0], np.int64)
    for i in range(moving.shape[0]):
        rows[i] = moving[i] // grid.columns
        columns[i] = moving[i] - rows[i] * grid.columns
    start, members = components(moving, columns, grid.columns, rule.reach)
    roots = 0
    for root in range(rows.shape[0]):
        roots += start[root + 1] > start[root]
    parts = np.empty(2 * roots + 1, CLUSTER)  # two that are merged make a third
    points = np.empty((_ROOM, 2), np.float64)
    count = np.int64(0)
    for root in range(rows.shape[0]):
        own = members[start[root] : start[root + 1]]
        if own.shape[0] == 0:
            continue
        part, cells = parts[count], np.empty(own.shape[0], np.int64)
        for k in range(own.shape[0]):
            cells[k] = moving[own[k]]
        part.first = 0 if count == 0 else parts[count - 1].last
        part.cells = own.shape[0]
        part.vx, part.vy, part.xx, part.xy, part.yy = mean_velocity(layers.velocity, layers.covariance, cells)
        points, width = _take_returns(own, rows, columns, layers, grid, stamps, points, part)
        _fit_part(part, points, width)
        count += 1
    width = grid.spacing / SUBCELLS
    points, count = _merge_parts(parts, count, points, rule, width)
    return _merge_known(parts[:count], points, known, time, rule, width)


@njit(cache=True, error_model="numpy")
def components(cells, columns, width, reach):
    """The cells ordered by component: those of root k are members[start[k]:start[k + 1]], none if k is no root."""
    count = cells.shape[0]
    parent, start, members = np.empty(count, np.int64), np.zeros(count + 1, np.int64), np.empty(count, np.int64)
    for i in range(count):
        parent[i] = i
    # Per row offset: the first cell within reach and the first beyond it; both only ever advance.
    begin, end = np.zeros(reach + 1, np.int64), np.zeros(reach + 1, np.int64)
    for i in range(count):
        root = _root_of(parent, i)
        back, ahead = min(columns[i], reach), min(width - 1 - columns[i], reach)
        for on in range(reach + 1):
            here = cells[i] + on * width
            while begin[on] < count and cells[begin[on]] < here - back:
                begin[on] += 1
            while end[on] < count and cells[end[on]] <= here + ahead:
                end[on] += 1
            for j in range(max(begin[on], i + 1), end[on]):
                if parent[j] != root:
                    parent[_root_of(parent, j)] = root
    for i in range(count):
        parent[i] = _root_of(parent, i)
        start[parent[i]] += 1
    for k in range(count):
        start[k + 1] += start[k]
    for i in range(count - 1, -1, -1):  # filling each from its end turns ends into starts
        start[parent[i]] -= 1
        members[start[parent[i]]] = i
    return start, members


@inner(error_model="numpy")
def _root_of(parent, cell):
    return root_of(parent, cell)


@njit(cache=True, error_model="numpy")
def mean_velocity(velocity, covariance, cells):
    """Information-weighted mean of some cells' velocities (N, 2) with covariances (N, 3), and its own: xx, xy, yy.

    Cells on a smooth face hardly determine the speed along it; their large covariance gives them little weight there.
    """
    info_xx = info_xy = info_yy = sum_x = sum_y = 0.0
    for k in cells:
        x, y = velocity[k, 0], velocity[k, 1]
        xx, xy, yy = _inverse(
            covariance[k, 0] + _CELL_VARIANCE, np.float64(covariance[k, 1]), covariance[k, 2] + _CELL_VARIANCE
        )
        info_xx, info_xy, info_yy = info_xx + xx, info_xy + xy, info_yy + yy
        sum_x, sum_y = sum_x + (xx * x + xy * y), sum_y + (xy * x + yy * y)
    xx, xy, yy = _inverse(info_xx, info_xy, info_yy)
    return xx * sum_x + xy * sum_y, xy * sum_x + yy * sum_y, xx, xy, yy


@inlined(error_model="numpy")
def _inverse(xx, xy, yy):
    """Of a symmetric matrix."""
    determinant = xx * yy - xy * xy
    return yy / determinant, -xy / determinant, xx / determinant


@inner(error_model="numpy")
def _take_returns(own, rows, columns, layers, grid, stamps, points, part):
    """Append a part's returns, from its cells and neighbouring dynamic ones, or else the cells themselves.

    Returns the points, in a larger array where they did not fit, and the width that each represents.
    """
    low, high = grid.columns, 0  # range of columns
    for k in own:
        begin, end = max(columns[k] - 1, 0), min(columns[k] + 2, grid.columns)
        low, high = min(low, begin), max(high, end)
        for r in range(max(rows[k] - 1, 0), min(rows[k] + 2, grid.rows)):
            for cell in range(r * grid.columns + begin, r * grid.columns + end):
                stamps[cell] = max(stamps[cell], 1)
        stamps[rows[k] * grid.columns + columns[k]] = 2
    used = part.first
    for r in range(max(rows[own[0]] - 1, 0), min(rows[own[-1]] + 2, grid.rows)):
        for c in range(low, high):
            cell = r * grid.columns + c
            if not stamps[cell]:
                continue
            belongs = stamps[cell] == 2 or layers.dynamic[cell] > layers.static[cell]
            stamps[cell] = 0
            if not belongs or not layers.observation[cell] > HIT:
                continue
            if used + SUBCELLS * SUBCELLS > points.shape[0]:
                points = _with_room(points, used, SUBCELLS * SUBCELLS)
            bits = layers.surface[cell]
            for y in range(SUBCELLS):
                for x in range(SUBCELLS):
                    if bits & 1:
                        points[used, 0] = (c + (x + 0.5) / SUBCELLS - 0.5) * grid.spacing + grid.x0
                        points[used, 1] = (r + (y + 0.5) / SUBCELLS - 0.5) * grid.spacing + grid.y0
                        used += 1
                    bits >>= 1
    part.last = used
    if used > part.first:
        return points, grid.spacing / SUBCELLS
    points = _with_room(points, used, own.shape[0])
    for k in own:
        points[part.last, 0] = columns[k] * grid.spacing + grid.x0
        points[part.last, 1] = rows[k] * grid.spacing + grid.y0
        part.last += 1
    return points, grid.spacing


@inner(error_model="numpy")
def _with_room(points, used, more):
    """The points, in a larger array if no more of them fit."""
    if used + more <= points.shape[0]:
        return points
    larger = np.empty((2 * (used + more), 2), np.float64)
    for i in range(used):
        larger[i, 0], larger[i, 1] = points[i, 0], points[i, 1]
    return larger


@inner(error_model="numpy")
def _fit_part(part, points, width):
    heading = math.atan2(part.vy, part.vx)
    box = fit_box(points[part.first : part.last], heading, width)
    part.x, part.y, part.length, part.width, part.heading = box


@inner(error_model="numpy")
def _merge_parts(parts, count, points, rule, width):
    """Merge parts that move alike, are near each other and fit into one body, nearest pairs first.

    Returns the points and the number of parts.
    """
    gaps = np.empty((parts.shape[0], parts.shape[0]), np.float64)  # between those that may be one body
    pair = np.empty(2, np.int64)
    for i in range(count):
        _measure_gaps(parts, i, points, rule, gaps)
    while True:
        least = np.inf
        for i in range(count):
            for j in range(i):
                if gaps[i, j] < least:
                    least, pair[0], pair[1] = gaps[i, j], i, j
        if least == np.inf:
            break
        one, other, both = parts[pair[0]], parts[pair[1]], parts[count]
        gaps[pair[0], pair[1]] = np.inf
        points = _merge(parts, pair, both, points, parts[count - 1].last, width)
        longest = max(max(one.length, one.width), max(other.length, other.width))
        if longest >= HAS_SIDES and both.length <= rule.body_length and both.width <= rule.body_width:
            one.cells = other.cells = 0
            for k in range(count):
                for i in range(2):
                    gaps[pair[i], k] = gaps[k, pair[i]] = np.inf
            _measure_gaps(parts, count, points, rule, gaps)
            count += 1
    return points, _without_empty(parts, count)


@merged()
def _without_empty(parts, count):
    """Remove parts without cells, which were merged; the others keep their order. Returns their number."""
    left = 0
    for i in range(count):
        if parts[i].cells:
            parts[left] = parts[i]
            left += 1
    return left


@inner(error_model="numpy")
def _merge(parts, chosen, both, points, used, width):
    """Merge some parts into `both`, whose points are appended; velocities are weighted by their information.
    Returns the points, in a larger array where they did not fit."""
    info_xx = info_xy = info_yy = sum_x = sum_y = 0.0
    both.cells, both.first = 0, used
    for k in range(chosen.shape[0]):
        part = parts[chosen[k]]
        xx, xy, yy = _inverse(part.xx, part.xy, part.yy)
        info_xx, info_xy, info_yy = info_xx + xx, info_xy + xy, info_yy + yy
        sum_x, sum_y = sum_x + (xx * part.vx + xy * part.vy), sum_y + (xy * part.vx + yy * part.vy)
        points = _with_room(points, used, part.last - part.first)
        for i in range(part.first, part.last):
            points[used, 0], points[used, 1] = points[i, 0], points[i, 1]
            used += 1
        both.cells += part.cells
    both.last = used
    xx, xy, yy = _inverse(info_xx, info_xy, info_yy)
    both.xx, both.xy, both.yy = xx, xy, yy
    both.vx, both.vy = xx * sum_x + xy * sum_y, xy * sum_x + yy * sum_y
    _fit_part(both, points, width)
    return points


@inner(error_model="numpy")
def _measure_gaps(parts, i, points, rule, gaps):
    """Metres from part i to those before it that move alike; infinite beyond `body_gap` and between too few cells."""
    one, most = parts[i], rule.body_gap
    for j in range(i):
        other = parts[j]
        gaps[i, j] = np.inf
        apart = math.hypot(one.x - other.x, one.y - other.y)
        near = apart - (math.hypot(one.length, one.width) + math.hypot(other.length, other.width)) / 2 <= most
        few = min(one.cells, other.cells) < rule.min_cells
        if not near or few or not _move_alike(one, other.vx, other.vy):
            continue
        nearest = np.inf
        for p in range(one.first, one.last):
            for q in range(other.first, other.last):
                x, y = points[p, 0] - points[q, 0], points[p, 1] - points[q, 1]
                nearest = min(nearest, x * x + y * y)
        if math.sqrt(nearest) <= most:
            gaps[i, j] = math.sqrt(nearest)


@inlined(error_model="numpy")
def _move_alike(part, vx, vy):
    """Whether a velocity may be that of the same body."""
    fastest = max(math.hypot(part.vx, part.vy), math.hypot(vx, vy))
    return math.hypot(part.vx - vx, part.vy - vy) <= max(1.0, 0.25 * fastest)


@inner(error_model="numpy")
def _merge_known(parts, points, known, time, rule, width):
    """Merge parts that lie in the box of a known object and move as it does, the surest object first. These come first
    in the result; of the others those of too few cells are left out: they are no object by themselves."""
    count = parts.shape[0]
    whole, chosen, asked = np.empty(count, CLUSTER), np.empty(count, np.int64), np.zeros(known.shape[0], np.uint8)
    made, used = 0, points.shape[0]
    for _ in range(known.shape[0]):
        best = -1
        for t in range(known.shape[0]):
            if not asked[t] and (best < 0 or known[t].odds > known[best].odds):
                best = t
        asked[best] = 1
        if not is_alive(known[best], time, rule.keep):
            continue
        found, cosine, sine = 0, math.cos(known[best].heading), math.sin(known[best].heading)
        for k in range(count):
            if parts[k].cells and _holds(known[best], cosine, sine, parts[k], time):
                chosen[found] = k
                found += 1
        if found > 1:
            points = _merge(parts, chosen[:found], whole[made], points, used, width)
            used = whole[made].last
            made += 1
            for k in range(found):
                parts[chosen[k]].cells = 0
        elif found == 1 and parts[chosen[0]].cells < rule.min_cells and odds_at(known[best], time) >= 1.0:
            whole[made] = parts[chosen[0]]
            made += 1
            parts[chosen[0]].cells = 0
    for k in range(count):
        if parts[k].cells >= rule.min_cells:
            whole[made] = parts[k]
            made += 1
    return whole[:made]


@merged()
def _holds(track, cosine, sine, part, time):
    """Whether a part lies in the predicted box of an object, and moves as it does."""
    vx, vy, since = track.state[2], track.state[3], time - track.seen
    x, y = part.x - (track.x + vx * since), part.y - (track.y + vy * since)
    along, across = abs(cosine * x + sine * y), abs(cosine * y - sine * x)
    inside = along <= track.length / 2 + _BODY_MARGIN and across <= track.width / 2 + _BODY_MARGIN
    return inside and _move_alike(part, vx, vy)
