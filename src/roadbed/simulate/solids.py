# SPDX-License-Identifier: Apache-2.0
"""Boxes, cylinders and ellipsoids as arrays, a grid over them, and where a ray meets them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.kernels.jit import inlined, inner, merged, njit
from roadbed.kernels.numeric import max, min

BOX, CYLINDER, ELLIPSOID = range(3)
SQUARE = 2.0  # m, edge of a grid square
_MISS = math.inf


class Solids(NamedTuple):
    """Parts of objects, in the world at one instant. The axis of a cylinder is its third one."""

    kind: NDArray[np.int8]  # (n,)
    centre: NDArray[np.float64]  # (n, 3) m
    axes: NDArray[np.float64]  # (n, 3, 3) rows are the part's axes in the world
    half: NDArray[np.float64]  # (n, 3) m, half sizes or radii
    density: NDArray[np.float64]  # (n,) 1/m, chance per metre to stop a ray; infinite for hard surfaces
    reflectivity: NDArray[np.float64]  # (n,)
    object: NDArray[np.int32]  # (n,) row in Movements
    semantic: NDArray[np.uint16]  # (n,)


class Movements(NamedTuple):
    """How each object moves around the instant of the solids."""

    origin: NDArray[np.float64]  # (m, 3) m
    velocity: NDArray[np.float64]  # (m, 3) m/s
    yaw_rate: NDArray[np.float64]  # (m,) rad/s


class SolidIndex(NamedTuple):
    """Which parts lie over each square of the plane, and the height range they take there."""

    x0: float
    y0: float
    start: NDArray[np.int64]  # (rows * columns + 1,) into `items`
    items: NDArray[np.int32]
    low: NDArray[np.float64]  # (rows, columns) m
    high: NDArray[np.float64]
    radius: NDArray[np.float64]  # (n,) m, of the ball around each part that holds it for the whole sweep


NO_SOLIDS = Solids(
    np.empty(0, np.int8),
    np.empty((0, 3)),
    np.empty((0, 3, 3)),
    np.empty((0, 3)),
    np.empty(0),
    np.empty(0),
    np.empty(0, np.int32),
    np.empty(0, np.uint16),
)


def select(solids: Solids, chosen: NDArray) -> Solids:
    """Some of the parts, by mask or index."""
    return Solids(*(values[chosen] for values in solids))


def join(groups: Sequence[Solids]) -> Solids:
    """All parts of several groups."""
    return Solids(*(np.concatenate(columns) for columns in zip(*groups)))


def placed(solids: Solids, rotation: NDArray[np.float64], translation: NDArray[np.float64], row: int) -> Solids:
    """Parts given in the object's frame, in the world; `row` is the object's row in Movements."""
    return solids._replace(
        centre=solids.centre @ rotation.T + translation,
        axes=solids.axes @ rotation.T,
        object=np.full(len(solids.kind), row, np.int32),
        semantic=solids.semantic.copy(),
    )


def reach(solids: Solids) -> NDArray[np.float64]:
    """(n, 3) half sizes of the upright boxes around the parts."""
    return np.einsum("nij,ni->nj", np.abs(solids.axes), solids.half)


def build_grid(solids: Solids, movements: Movements, x: float, y: float, radius: float, duration: float) -> SolidIndex:
    """A grid of the parts within `radius` of (x, y), valid for instants up to `duration` away."""
    half = reach(solids)
    travelled = np.linalg.norm(movements.velocity, axis=1) * duration
    # A part also swings with its object's rotation, by at most its distance from the object's origin.
    lever = np.linalg.norm(solids.centre - movements.origin[solids.object], axis=1) + np.linalg.norm(half, axis=1)
    margin = travelled[solids.object] + np.abs(movements.yaw_rate[solids.object]) * duration * lever + 1e-3
    low, high = solids.centre - half - margin[:, None], solids.centre + half + margin[:, None]
    count = int(np.ceil(2 * radius / SQUARE))
    x0, y0 = np.floor(x - radius), np.floor(y - radius)
    start, items, cell_low, cell_high = _fill(low, high, x0, y0, count)
    ball = np.linalg.norm(solids.half, axis=1) + margin
    return SolidIndex(float(x0), float(y0), start, items, cell_low, cell_high, ball)


@njit(cache=True)
def _fill(low, high, x0, y0, count):
    start = np.zeros(count * count + 1, np.int64)
    cell_low, cell_high = np.full((count, count), np.inf), np.full((count, count), -np.inf)
    for stage in range(2):  # count the parts of each square, then write them
        if stage == 1:
            start = np.cumsum(start)
            items = np.empty(start[-1], np.int32)
            next_item = start[:-1].copy()
        for part in range(low.shape[0]):
            column_0 = max(0, math.floor((low[part, 0] - x0) / SQUARE))
            column_1 = min(count - 1, math.floor((high[part, 0] - x0) / SQUARE))
            row_0 = max(0, math.floor((low[part, 1] - y0) / SQUARE))
            row_1 = min(count - 1, math.floor((high[part, 1] - y0) / SQUARE))
            for row in range(row_0, row_1 + 1):
                for column in range(column_0, column_1 + 1):
                    if stage == 0:
                        start[row * count + column + 1] += 1
                        cell_low[row, column] = min(cell_low[row, column], low[part, 2])
                        cell_high[row, column] = max(cell_high[row, column], high[part, 2])
                    else:
                        items[next_item[row * count + column]] = part
                        next_item[row * count + column] += 1
    return start, items, cell_low, cell_high


@inlined()
def _slab(begin, end, origin, ray, half):
    """Narrow [begin, end] to where |origin + t ray| <= half."""
    if abs(ray) < 1e-12:
        return (begin, end) if abs(origin) <= half else (_MISS, -_MISS)
    first, second = (-half - origin) / ray, (half - origin) / ray
    return max(begin, min(first, second)), min(end, max(first, second))


@inlined()
def _round(a, b, c):
    """Where a t^2 + 2 b t + c <= 0."""
    if a < 1e-18:
        return (-_MISS, _MISS) if c <= 0.0 else (_MISS, -_MISS)
    root = b * b - a * c
    if root < 0.0:
        return _MISS, -_MISS
    root = math.sqrt(root)
    return (-b - root) / a, (-b + root) / a


@inner()
def ray_interval(kind, half_x, half_y, half_z, px, py, pz, ux, uy, uz):
    """Entry and exit distance of a ray, given in the part's own axes; exit < entry where it misses."""
    if kind == BOX:
        begin, end = _slab(-_MISS, _MISS, px, ux, half_x)
        begin, end = _slab(begin, end, py, uy, half_y)
        return _slab(begin, end, pz, uz, half_z)
    a = (ux / half_x) ** 2 + (uy / half_y) ** 2
    b = px * ux / half_x**2 + py * uy / half_y**2
    c = (px / half_x) ** 2 + (py / half_y) ** 2 - 1.0
    if kind == CYLINDER:
        begin, end = _round(a, b, c)
        return _slab(begin, end, pz, uz, half_z)
    return _round(a + (uz / half_z) ** 2, b + pz * uz / half_z**2, c + (pz / half_z) ** 2)


@inlined()
def to_part(solids, movements, part, lag, ox, oy, oz, ux, uy, uz):
    """A ray in the axes of a part, at its pose `lag` seconds after the solids' instant."""
    if lag != 0.0:
        obj = solids.object[part]
        # The object has moved on by lag: bring the ray back instead.
        home_x, home_y = movements.origin[obj, 0], movements.origin[obj, 1]
        turn = -movements.yaw_rate[obj] * lag
        cosine, sine = math.cos(turn), math.sin(turn)
        rx = ox - home_x - movements.velocity[obj, 0] * lag
        ry = oy - home_y - movements.velocity[obj, 1] * lag
        ox, oy = home_x + cosine * rx - sine * ry, home_y + sine * rx + cosine * ry
        oz -= movements.velocity[obj, 2] * lag
        ux, uy = cosine * ux - sine * uy, sine * ux + cosine * uy
    ox -= solids.centre[part, 0]
    oy -= solids.centre[part, 1]
    oz -= solids.centre[part, 2]
    axes = solids.axes
    return (
        axes[part, 0, 0] * ox + axes[part, 0, 1] * oy + axes[part, 0, 2] * oz,
        axes[part, 1, 0] * ox + axes[part, 1, 1] * oy + axes[part, 1, 2] * oz,
        axes[part, 2, 0] * ox + axes[part, 2, 1] * oy + axes[part, 2, 2] * oz,
        axes[part, 0, 0] * ux + axes[part, 0, 1] * uy + axes[part, 0, 2] * uz,
        axes[part, 1, 0] * ux + axes[part, 1, 1] * uy + axes[part, 1, 2] * uz,
        axes[part, 2, 0] * ux + axes[part, 2, 1] * uy + axes[part, 2, 2] * uz,
    )


@inlined()
def ray_interval_of(solids, movements, part, lag, ox, oy, oz, ux, uy, uz):
    """Entry and exit distance of a world ray for one part."""
    px, py, pz, vx, vy, vz = to_part(solids, movements, part, lag, ox, oy, oz, ux, uy, uz)
    half = solids.half
    return ray_interval(solids.kind[part], half[part, 0], half[part, 1], half[part, 2], px, py, pz, vx, vy, vz)


@merged()
def facing(kind, half_x, half_y, half_z, px, py, pz, ux, uy, uz, t):
    """Cosine between the ray and the surface's normal where it enters, both in the part's own axes."""
    hx, hy, hz = px + t * ux, py + t * uy, pz + t * uz
    if kind == BOX:
        inside_x, inside_y, inside_z = half_x - abs(hx), half_y - abs(hy), half_z - abs(hz)
        if inside_x <= inside_y and inside_x <= inside_z:
            return abs(ux)
        return abs(uy) if inside_y <= inside_z else abs(uz)
    if kind == CYLINDER and half_z - abs(hz) < 1e-6:
        return abs(uz)
    nx, ny = hx / half_x**2, hy / half_y**2
    nz = 0.0 if kind == CYLINDER else hz / half_z**2
    length = math.sqrt(nx * nx + ny * ny + nz * nz)
    return abs(nx * ux + ny * uy + nz * uz) / max(length, 1e-12)


@merged()
def facing_of(solids, movements, part, lag, ox, oy, oz, ux, uy, uz):
    """Cosine of the incidence of a world ray on the part it enters."""
    px, py, pz, vx, vy, vz = to_part(solids, movements, part, lag, ox, oy, oz, ux, uy, uz)
    kind, half_x, half_y, half_z = solids.kind[part], solids.half[part, 0], solids.half[part, 1], solids.half[part, 2]
    enter, _ = ray_interval(kind, half_x, half_y, half_z, px, py, pz, vx, vy, vz)
    return facing(kind, half_x, half_y, half_z, px, py, pz, vx, vy, vz, enter)


@inner()
def meet_solids(solids, movements, grid, origin, ray, lag, limit, depth_draw):
    """Distance to the nearest part and its row, (`limit`, -1) if there is none. `depth_draw` in [0, 1) sets how deep
    the ray enters loose parts such as tree crowns."""
    ox, oy, oz = origin[0], origin[1], origin[2]
    ux, uy, uz = ray[0], ray[1], ray[2]
    rows, columns = grid.high.shape
    nearest, part_hit = limit, np.int64(-1)
    x, y = (ox - grid.x0) / SQUARE, (oy - grid.y0) / SQUARE
    column, row = math.floor(x), math.floor(y)
    step_x = 1 if ux > 0 else -1
    step_y = 1 if uy > 0 else -1
    stride_x = SQUARE / abs(ux) if ux != 0.0 else _MISS
    stride_y = SQUARE / abs(uy) if uy != 0.0 else _MISS
    next_x = ((column + (1 if step_x > 0 else 0)) - x) * SQUARE / ux if ux != 0.0 else _MISS
    next_y = ((row + (1 if step_y > 0 else 0)) - y) * SQUARE / uy if uy != 0.0 else _MISS
    t = 0.0
    while 0 <= column < columns and 0 <= row < rows and t < nearest:
        leave = min(min(next_x, next_y), nearest)
        z_in, z_out = oz + uz * t, oz + uz * leave
        if max(z_in, z_out) >= grid.low[row, column] and min(z_in, z_out) <= grid.high[row, column]:
            square = row * columns + column
            for index in range(grid.start[square], grid.start[square + 1]):
                part = np.int64(grid.items[index])
                # Most parts are missed: try the ball around them first.
                cx, cy, cz = solids.centre[part, 0] - ox, solids.centre[part, 1] - oy, solids.centre[part, 2] - oz
                along, radius = cx * ux + cy * uy + cz * uz, grid.radius[part]
                if along + radius < 0.0 or along - radius > nearest:
                    continue
                if cx * cx + cy * cy + cz * cz - along * along > radius * radius:
                    continue
                enter, leave_part = ray_interval_of(solids, movements, part, lag, ox, oy, oz, ux, uy, uz)
                if enter < 0.0 or leave_part < enter:
                    continue
                if solids.density[part] < _MISS:
                    enter -= math.log(1.0 - depth_draw) / solids.density[part]
                if enter < leave_part and enter < nearest:
                    nearest, part_hit = enter, part
        t = leave
        if next_x < next_y:
            column += step_x
            next_x += stride_x
        else:
            row += step_y
            next_y += stride_y
    return nearest, part_hit
