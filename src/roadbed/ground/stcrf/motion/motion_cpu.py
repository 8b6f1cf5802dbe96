# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Moves the prior: into the new vehicle frame (the paper's lattice), or by whole nodes (rolling). Twin: motion.cl.

The plane of a node is relative to that node, so information is not interpolated directly: it is first transported to
the target point (F^T P F), then blended, then turned with the vehicle.
"""

from typing import NamedTuple

import numpy as np

from roadbed.core.geometry import Float32
from roadbed.ground.stcrf.arrays import Shape
from roadbed.ground.stcrf.model import NOTHING_KNOWN
from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import FAST, ZERO, F, U, max, min, solve3
from roadbed.kernels.simd import LANES, floor, lane_indices, mask_bits, maximum, minimum, splat, store, to_int32, where
from roadbed.kernels.simd_reductions import gather

# The first and second of two rows or columns; typed, because Numba compiles a function per literal.
_NEAR, _NEXT = np.int64(0), np.int64(1)
_SECOND, _THIRD = np.int64(3), np.int64(6)  # the second and third three of the nine planes


@inner(fastmath=FAST)
def _plane(p, height_information, slope_information):
    """(h, sx, sy) of one node; the weak prior is level at height zero and makes the system solvable."""
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


@njit(cache=True, fastmath=FAST)
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


class _Old(NamedTuple):
    """The old frame, from which information is transported."""

    source: np.ndarray  # padded (rows + 2, 9, stride)
    shape: Shape
    origin: tuple  # m, node [0][0] in its vehicle's frame


@inlined()
def _corner(u, v, i, j, shape):
    """One of the four nodes around (u, v), in nodes: its weight (zero outside), column, row and distances, m."""
    column, row = floor(u) + F(i), floor(v) + F(j)
    columns, rows = F(shape.columns), F(shape.rows)
    inside = (column >= F(0)) & (column < columns) & (row >= F(0)) & (row < rows)
    along, across = column - u, row - v
    share = (F(1) - along if i else F(1) + along) * (F(1) - across if j else F(1) + across)
    column = minimum(maximum(column, splat(F(0))), splat(columns - F(1)))
    row = minimum(maximum(row, splat(F(0))), splat(rows - F(1)))
    return (
        where(inside, share, splat(F(0))),
        to_int32(column),
        to_int32(row),
        along * shape.spacing,
        across * shape.spacing,
    )


@inlined()
def _carried(old, corner, total):
    """total + weight F^T (P, X) F of one node."""
    weight, column, row, a, b = corner
    source, plane = old.source, old.source.shape[2]
    index = row * np.int32(9 * plane) + column
    first = np.int64(9 * plane + 1)  # behind the border
    p00, p01 = gather(source, index, first), gather(source, index, first + plane)
    p02, x0 = gather(source, index, first + 2 * plane), gather(source, index, first + 6 * plane)
    p11, p12 = gather(source, index, first + 3 * plane), gather(source, index, first + 4 * plane)
    p22, x1 = gather(source, index, first + 5 * plane), gather(source, index, first + 7 * plane)
    x2 = gather(source, index, first + 8 * plane)
    return (
        total[0] + weight * p00,
        total[1] + weight * (a * p00 + p01),
        total[2] + weight * (b * p00 + p02),
        total[3] + weight * (a * a * p00 + F(2) * a * p01 + p11),
        total[4] + weight * (a * b * p00 + a * p02 + b * p01 + p12),
        total[5] + weight * (b * b * p00 + F(2) * b * p02 + p22),
        total[6] + weight * x0,
        total[7] + weight * (a * x0 + x1),
        total[8] + weight * (b * x0 + x2),
    )


@merged()
def _sample(old, x, y):
    """Blend of the four nodes around (x, y); nodes outside of the lattice have no information."""
    u, v = (x - old.origin[0]) / old.shape.spacing, (y - old.origin[1]) / old.shape.spacing
    nothing = splat(F(0))
    total = nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing
    total = _carried(old, _corner(u, v, _NEAR, _NEAR, old.shape), total)
    total = _carried(old, _corner(u, v, _NEXT, _NEAR, old.shape), total)
    total = _carried(old, _corner(u, v, _NEAR, _NEXT, old.shape), total)
    return _carried(old, _corner(u, v, _NEXT, _NEXT, old.shape), total)


@merged()
def _moved(total, weak, rotation, translation, position, position_old):
    """The plane of blended information, m . p = d in the old frame, turned and moved into the new one: h, sx, sy."""
    h_old, sx_old, sy_old = _plane(total, weak[0], weak[1])
    (x, y), (x_old, y_old) = position, position_old
    distance = h_old - sx_old * x_old - sy_old * y_old
    m0 = rotation[2, 0] - rotation[0, 0] * sx_old - rotation[1, 0] * sy_old
    m1 = rotation[2, 1] - rotation[0, 1] * sx_old - rotation[1, 1] * sy_old
    m2 = rotation[2, 2] - rotation[0, 2] * sx_old - rotation[1, 2] * sy_old
    d_new = distance + sx_old * translation[0] + sy_old * translation[1] - translation[2]
    sx, sy = F(0) - m0 / m2, F(0) - m1 / m2
    return d_new / m2 + sx * x + sy * y, sx, sy


@merged()
def _turned(total, plane, cosine, sine):
    """To first order d mu_old / d mu_new = A = blkdiag(1, R(yaw)); tilt only offsets the slopes."""
    p00, s01, s02, s11, s12, s22 = total[:6]
    height, sx, sy = plane
    p01, p02 = cosine * s01 + sine * s02, cosine * s02 - sine * s01
    cross = F(2) * cosine * sine * s12
    p11 = cosine * cosine * s11 + sine * sine * s22 + cross
    p22 = sine * sine * s11 + cosine * cosine * s22 - cross
    p12 = (cosine * cosine - sine * sine) * s12 + cosine * sine * (s22 - s11)
    x0 = p00 * height + p01 * sx + p02 * sy
    x1 = p01 * height + p11 * sx + p12 * sy
    return p00, p01, p02, p11, p12, p22, x0, x1, p02 * height + p12 * sx + p22 * sy


@inlined()
def _keep_three(planes, column, k, known, lanes):
    """Store three planes of a row from the k-th on; zero where a node is not known."""
    nothing = splat(F(0))
    store(planes, (k, column), where(known, lanes[0], nothing))
    store(planes, (k + 1, column), where(known, lanes[1], nothing))
    store(planes, (k + 2, column), where(known, lanes[2], nothing))


@njit(nogil=True, cache=True)
def transport(first_row, last_row, source, shape, origin, rotation, translation, weak, out, mean):
    """Transport the information of the previous frame to rows of the new one: p_old = rotation p_new + translation.

    `origin`: node [0][0] in the vehicle frame; `weak`: information of the weak prior on height and slope. `source` and
    `out` are padded (rows + 2, 9, stride); `mean` receives the transported planes.
    """
    spacing, old = shape.spacing, _Old(source, shape, origin)
    yaw = np.arctan2(rotation[1, 0], rotation[0, 0])
    cosine, sine = F(np.cos(yaw)), F(np.sin(yaw))
    for row in range(first_row, last_row):
        for first in range(0, shape.columns, LANES):
            column = lane_indices() + F(first)
            x, y = column * spacing + origin[0], splat(origin[1] + F(row) * spacing)
            known = column < F(shape.columns)
            height = sx = sy = splat(F(0))
            total = height, height, height, height, height, height, height, height, height
            # If the vehicle has tilted, the old position of a node depends on its height: guess, then repeat.
            for _ in range(2):
                if not mask_bits(known):
                    break
                x_old = x * rotation[0, 0] + y * rotation[0, 1] + height * rotation[0, 2] + translation[0]
                y_old = x * rotation[1, 0] + y * rotation[1, 1] + height * rotation[1, 2] + translation[1]
                total = _sample(old, x_old, y_old)
                known = known & (total[0] > NOTHING_KNOWN)
                height, sx, sy = _moved(total, weak, rotation, translation, (x, y), (x_old, y_old))
            plane = height, sx, sy
            information = _turned(total, plane, cosine, sine)
            _keep_three(mean[row + 1], first + 1, ZERO, known, plane)
            _keep_three(out[row + 1], first + 1, ZERO, known, information[:3])
            _keep_three(out[row + 1], first + 1, _SECOND, known, information[3:6])
            _keep_three(out[row + 1], first + 1, _THIRD, known, information[6:])


@merged()
def _shift_row(layer, columns, width, out):
    """Shift one row with its border: node c takes the value of node c + columns, or of the nearest node."""
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


@njit(nogil=True, cache=True)
def shift(first_row, last_row, layers, out, width, columns, rows):
    """Shift padded layers (rows + 2, k, stride): node (r, c) takes the values of (r + rows, c + columns).

    Writes a range of rows of `out`, borders counted; `width` is the number of columns of nodes. Nodes that enter take
    the values of the nearest node.
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
def clear_columns(planes, first, last):
    """Set columns first..last of all planes of a row to zero; the range may be empty."""
    for k in range(planes.shape[0]):
        for c in range(U(first), U(max(first, last))):
            planes[k, c] = F(0)


@njit(nogil=True, cache=True)
def shift_known(first_row, last_row, layers, known, out, written, width, columns, rows):
    """`shift` for layers that are zero outside of columns [known[0], known[1]) of each row; rows are counted without
    the border. Nodes that enter are zero: undefined, as in the paper.

    `out` is zero outside of columns [written[0], written[1]); afterwards these are the new ends.
    """
    height = layers.shape[0] - 2
    for row in range(first_row, last_row):
        source, lo, hi = row + rows, 1, 1
        if 0 <= source < height:
            lo = max(known[0, source] - columns, 1)
            hi = max(min(known[1, source] - columns, width + 1), lo)
        begin, end = np.int64(written[0, row]), np.int64(written[1, row])
        written[0, row], written[1, row] = lo, hi
        clear_columns(out[row + 1], begin, min(lo, end))
        clear_columns(out[row + 1], max(hi, begin), end)
        for k in range(layers.shape[1] if lo < hi else 0):
            moved, target = layers[source + 1, k, lo + columns : hi + columns], out[row + 1, k, lo:hi]
            for c in range(U(hi - lo)):
                target[c] = moved[c]
