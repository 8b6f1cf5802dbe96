# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The paper's vehicle-frame lattice: the previous surface, seen from the new vehicle frame.

Information is never interpolated raw: each node's plane is anchored at its own node, so it is first carried to the
point asked for (F^T P F), then blended, then turned with the vehicle.
"""

from __future__ import annotations

import numpy as np

from roadbed.compute.cpu import FAST, F, U, inner, njit, solve3
from roadbed.compute.scratch import scratch
from roadbed.geometry import Float32
from roadbed.ground.stcrf.model import NOTHING_KNOWN


@inner(fastmath=FAST)
def _carry(source, r, c, a, b, weight, total):
    """total += weight F^T (P, X) F for the node at padded (r, c), which lies (a, b) metres from the point asked for."""
    p00, p01, p02 = source[r, 0, c], source[r, 1, c], source[r, 2, c]
    total[0] += weight * p00
    total[1] += weight * (a * p00 + p01)
    total[2] += weight * (b * p00 + p02)
    total[3] += weight * (a * a * p00 + F(2) * a * p01 + source[r, 3, c])
    total[4] += weight * (a * b * p00 + a * p02 + b * p01 + source[r, 4, c])
    total[5] += weight * (b * b * p00 + F(2) * b * p02 + source[r, 5, c])
    total[6] += weight * source[r, 6, c]
    total[7] += weight * (a * source[r, 6, c] + source[r, 7, c])
    total[8] += weight * (b * source[r, 6, c] + source[r, 8, c])


@inner(fastmath=FAST)
def _sample(source, shape, origin, x, y, total):
    """Blend of the four nodes around (x, y); nodes outside count as knowing nothing."""
    rows, columns, spacing = shape.rows, shape.columns, shape.spacing
    u, v = (x - origin[0]) / spacing, (y - origin[1]) / spacing
    column, row = np.int64(np.floor(u)), np.int64(np.floor(v))
    for k in range(9):
        total[k] = F(0)
    for corner in range(4):
        i, j = column + corner % 2, row + corner // 2
        if 0 <= i < columns and 0 <= j < rows:
            weight = (F(1) - abs(u - F(i))) * (F(1) - abs(v - F(j)))
            _carry(source, j + 1, i + 1, (F(i) - u) * spacing, (F(j) - v) * spacing, weight, total)


@inner(fastmath=FAST)
def _plane(p, height_information, slope_information):
    """(h, sx, sy) of one node; the weak prior makes it solvable, and is level at zero height."""
    return solve3(
        p[0] + height_information,
        p[1],
        p[2],
        p[3] + slope_information,
        p[4],
        p[5] + slope_information,
        p[6],
        p[7],
        p[8],
    )


@njit(cache=True, allocates=False, fastmath=FAST)
def solve_field(information, height_information, slope_information, columns, mean):
    """The planes of padded information (rows + 2, 9, stride)."""
    for r in range(1, information.shape[0] - 1):
        for c in range(1, columns + 1):
            plane = _plane(information[r, :, c], height_information, slope_information)
            mean[r, 0, c], mean[r, 1, c], mean[r, 2, c] = plane


def planes_of(information: Float32, height_information: float, slope_information: float) -> Float32:
    """The planes (3, rows, columns) of information (9, rows, columns)."""
    padded = np.pad(information.transpose(1, 0, 2), ((1, 1), (0, 0), (1, 1))).astype(F)
    mean = np.zeros((padded.shape[0], 3, padded.shape[2]), F)
    solve_field(padded, F(height_information), F(slope_information), information.shape[2], mean)
    return mean[1:-1, :, 1:-1].transpose(1, 0, 2)


@njit(nogil=True, cache=True, allocates=False, fastmath=FAST)
def transport(first_row, last_row, source, shape, origin, rotation, translation, weak, out, mean):
    """The previous frame's information as seen from rows of the new one: p_old = rotation p_new + translation.

    `origin` is node [0][0] in the vehicle frame, `weak` what counts as known of any height and slope. `source` and
    `out` are padded (rows + 2, 9, stride); `mean` takes the carried planes.
    """
    columns, spacing, total = shape.columns, shape.spacing, scratch(9, np.float32)
    yaw = np.arctan2(rotation[1, 0], rotation[0, 0])
    cosine, sine = F(np.cos(yaw)), F(np.sin(yaw))
    for row in range(first_row, last_row):
        for column in range(columns):
            x, y = origin[0] + F(column) * spacing, origin[1] + F(row) * spacing
            height = sx = sy = F(0)
            # Where the node was depends on its height once the vehicle has tilted: guess, then look again.
            for _ in range(2):
                x_old = rotation[0, 0] * x + rotation[0, 1] * y + rotation[0, 2] * height + translation[0]
                y_old = rotation[1, 0] * x + rotation[1, 1] * y + rotation[1, 2] * height + translation[1]
                _sample(source, shape, origin, x_old, y_old, total)
                if total[0] <= NOTHING_KNOWN:
                    break
                h_old, sx_old, sy_old = _plane(total, weak[0], weak[1])
                # Plane m . p = d in the old frame, turned and moved into the new one.
                distance = h_old - sx_old * x_old - sy_old * y_old
                m0 = -rotation[0, 0] * sx_old - rotation[1, 0] * sy_old + rotation[2, 0]
                m1 = -rotation[0, 1] * sx_old - rotation[1, 1] * sy_old + rotation[2, 1]
                m2 = -rotation[0, 2] * sx_old - rotation[1, 2] * sy_old + rotation[2, 2]
                d_new = distance + sx_old * translation[0] + sy_old * translation[1] - translation[2]
                sx, sy = -m0 / m2, -m1 / m2
                height = d_new / m2 + sx * x + sy * y
            target = out[row + 1, :, column + 1]
            if total[0] <= NOTHING_KNOWN:
                for k in range(9):
                    target[k] = F(0)
                for k in range(3):
                    mean[row + 1, k, column + 1] = F(0)
                continue
            # To first order d mu_old / d mu_new = A = blkdiag(1, R(yaw)); tilt only offsets the slopes.
            target[0] = total[0]
            target[1] = cosine * total[1] + sine * total[2]
            target[2] = cosine * total[2] - sine * total[1]
            cross = F(2) * cosine * sine * total[4]
            target[3] = cosine * cosine * total[3] + sine * sine * total[5] + cross
            target[5] = sine * sine * total[3] + cosine * cosine * total[5] - cross
            target[4] = (cosine * cosine - sine * sine) * total[4] + cosine * sine * (total[5] - total[3])
            target[6] = target[0] * height + target[1] * sx + target[2] * sy
            target[7] = target[1] * height + target[3] * sx + target[4] * sy
            target[8] = target[2] * height + target[4] * sx + target[5] * sy
            mean[row + 1, 0, column + 1] = height
            mean[row + 1, 1, column + 1] = sx
            mean[row + 1, 2, column + 1] = sy


@inner()
def _shift_row(layer, columns, width, out):
    """One row with its border: node c takes what was at c + columns, or at the nearest node."""
    first, last = max(1, 1 - columns), min(width + 1, width + 1 - columns)
    source, target = layer[first + columns : last + columns], out[first:last]
    for c in range(U(target.shape[0])):
        target[c] = source[c]
    out[0] = F(0)
    for c in range(1, first):
        out[c] = out[first]
    for c in range(last, width + 1):
        out[c] = out[last - 1]
    for c in range(width + 1, out.shape[0]):
        out[c] = F(0)


@njit(nogil=True, cache=True, allocates=False)
def shift(first_row, last_row, layers, out, width, columns, rows):
    """Move padded layers (rows + 2, k, stride) so that node (r, c) takes what was at (r + rows, c + columns).

    Of `out` some rows are written, the border counted; `width` is the number of columns that are nodes. Nodes that
    enter are like the nearest one.
    """
    height = layers.shape[0] - 2
    apart = abs(rows) >= height or abs(columns) >= width
    for r in range(first_row, last_row):
        source = min(max(r + rows, 1), height)
        if apart or r < 1 or r > height:
            out[r] = F(0)
            continue
        for k in range(layers.shape[1]):
            _shift_row(layers[source, k], columns, width, out[r, k])


@inner()
def clear_between(planes, first, last):
    """Columns of all planes of a row become zero; none if they end before they begin."""
    for k in range(planes.shape[0]):
        for c in range(U(first), U(max(first, last))):
            planes[k, c] = F(0)


@njit(nogil=True, cache=True, allocates=False)
def shift_known(first_row, last_row, layers, known, out, written, width, columns, rows):
    """The same for layers that are zero outside of columns [known[0], known[1]) of each row, borders not counted as
    rows: nodes that enter are undefined, as the paper asks.

    What `out` holds lies within [written[0], written[1]); afterwards these are the ends of what was moved there.
    """
    height = layers.shape[0] - 2
    for row in range(first_row, last_row):
        source, lo, hi = row + rows, 1, 1
        if 0 <= source < height:
            lo = max(known[0, source] - columns, 1)
            hi = max(min(known[1, source] - columns, width + 1), lo)
        begin, end = written[0, row], written[1, row]
        written[0, row], written[1, row] = lo, hi
        clear_between(out[row + 1], begin, min(lo, end))
        clear_between(out[row + 1], max(hi, begin), end)
        for k in range(layers.shape[1] if lo < hi else 0):
            moved, target = layers[source + 1, k, lo + columns : hi + columns], out[row + 1, k, lo:hi]
            for c in range(U(hi - lo)):
                target[c] = moved[c]
