# SPDX-License-Identifier: Apache-2.0
"""Level surfaces around a sensor (floor, table, ceiling), and whether a plane among them can be the ground."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32, Pose

_RADIUS, _COLUMN, _LAYER = 15.0, 0.25, 0.05  # m around the sensor, and size of the boxes that are counted
_COLUMNS = 2 * round(_RADIUS / _COLUMN) + 1  # across, at most
_FEWEST_COLUMNS = 20  # of a surface
_ABOVE_AVERAGE = 2.0  # a surface fills so many times the columns of an average layer: a wall fills all layers alike
_APART = 6  # layers between two surfaces
_MOST = 4  # surfaces
_POINTS = 20_000  # sampled
_ON = 0.1  # m from a plane
_ABOVE = (0.15, 0.6)  # m over it: returns of structures on it
_BELOW = 0.2  # m under it
_LARGEST_SHARE = 0.5  # of the columns on the plane
_FEWEST_FLAT, _FEWEST_ON_TABLE = 8, 4  # columns of a floor and of a table, in which no return lies above it
_ON_TABLE, _REACH = 0.35, 1.5  # m between a sensor and the table that it is on, and how near parts of it are
_DRIVABLE, _SECTORS = (2.0, 3.0), 16  # m that ground reaches, and up to which nothing lies lower, in 3/4 of the sectors
_HIGHEST_TABLE = 1.2  # m over the floor: the roof of a vehicle is higher
_COLUMN_AREA = _COLUMN**2  # m^2
_OUTERMOST = 0.005  # share of the points at each end of an axis that may be noise
_WALL, _WALL_SHARE = 0.15, 0.05  # m from the outermost points, and share of all points, of each side of a closed room
_LOWER, _LONGER = 0.8, 3.0  # extent along one axis, in those along z and along the third axis, of a room on its side


class Level(NamedTuple):
    """A level surface in a sensor frame that is nearly level."""

    height: float  # m, up is positive
    area: float  # m^2 that are seen of it

    def __str__(self) -> str:
        side = "below" if self.height < 0 else "above"
        return f"{abs(self.height):.2f} m {side} ({self.area:.1f} m2)"


def level_surfaces(points: Float32) -> list[Level]:
    """Level surfaces in a sensor frame that is nearly level, the lowest first."""
    near = points[np.hypot(points[:, 0], points[:, 1]) < _RADIUS]
    near = near[(near != 0).any(axis=1)]
    boxes = np.floor(near / np.array([_COLUMN, _COLUMN, _LAYER], np.float32)).astype(np.int64)
    x, y, z = boxes[np.abs(boxes[:, 2]) < _RADIUS / _LAYER].T
    if not len(z):
        return []
    lowest = z.min()
    layers = int(z.max() - lowest) + 1
    box = np.unique((x * _COLUMNS + y) * layers + z - lowest)  # one number each: `unique` of rows is slow
    filled = np.bincount(box % layers)  # columns per layer
    enough = max(_FEWEST_COLUMNS, _ABOVE_AVERAGE * filled[filled > 0].mean())
    found: list[int] = []
    for layer in np.argsort(-filled, kind="stable"):
        if filled[layer] < enough or len(found) == _MOST:
            break
        if all(abs(layer - other) >= _APART for other in found):
            found.append(int(layer))
    area = [float(filled[layer]) * _COLUMN_AREA for layer in sorted(found)]
    return [Level((layer + int(lowest) + 0.5) * _LAYER, own) for layer, own in zip(sorted(found), area)]


def floor_and_table(points: Float32) -> tuple[Level, Level] | None:
    """The lowest level surface, and a table above it that the sensor is on; None where either is missing, or where the
    upper one reaches as far around the sensor as ground does.

    A table ends within reach of the sensor on it. Walls and legs below its edge are no surface: above their lowest
    return others follow in the same column.
    """
    flat = _flat_columns(points)
    below = _first_layer(flat[flat[:, 2] < -_ON_TABLE - _BELOW], _FEWEST_FLAT)
    if not len(below):
        return None
    floor = Level(float(np.median(below[:, 2])), len(below) * _COLUMN_AREA)
    on_table = _first_layer(flat[flat[:, 2] > max(floor.height + _BELOW, -_ON_TABLE)], None)
    if np.count_nonzero(np.hypot(on_table[:, 0], on_table[:, 1]) < _REACH) < _FEWEST_ON_TABLE:
        return None
    table = Level(float(np.median(on_table[:, 2])), len(on_table) * _COLUMN_AREA)
    if table.height - floor.height > _HIGHEST_TABLE:
        return None
    reached = _sectors(on_table[np.hypot(on_table[:, 0], on_table[:, 1]) > _DRIVABLE[0]])
    ended = _sectors(
        points[(np.hypot(points[:, 0], points[:, 1]) < _DRIVABLE[1]) & (points[:, 2] < table.height - _BELOW)]
    )
    return None if len(reached - ended) >= 0.75 * _SECTORS else (floor, table)


def _sectors(points: Float32) -> set[int]:
    """The sectors around the sensor that hold points."""
    angle = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) + 0.5
    return set(np.floor(angle * _SECTORS).astype(np.int64).tolist())


def _first_layer(columns: Float32, enough: int | None) -> Float32:
    """The lowest of the layers of 2 `_ON` with `enough` columns, or the one with most; empty where there is none."""
    ordered = columns[np.argsort(columns[:, 2])]
    size = np.searchsorted(ordered[:, 2], ordered[:, 2] + np.float32(2 * _ON)) - np.arange(len(ordered))
    if not len(ordered) or (enough is not None and size.max() < enough):
        return ordered[:0]
    first = int(np.argmax(size >= (size.max() if enough is None else enough)))
    return ordered[first : first + size[first]]


def _flat_columns(points: Float32) -> Float32:
    """(n, 3) lowest return of each column in which all returns below the sensor lie close to it."""
    near = points[(np.hypot(points[:, 0], points[:, 1]) < _RADIUS) & (points != 0).any(axis=1) & (points[:, 2] < 0)]
    lowest, highest = extremes_by_column(near, _RADIUS, _COLUMN)
    return lowest[highest[:, 2] - lowest[:, 2] < _ON]


def column_numbers(x: Float32, y: Float32, radius: float, size: float) -> NDArray[np.int64]:
    """(N,) number of the column, `size` metres wide, that each point lies in; all are within `radius` metres."""
    column, row = (np.floor((along + radius) / size).astype(np.int64) for along in (x, y))
    return column * int(2 * radius / size) + row


def extremes_by_column(points: Float32, radius: float, size: float) -> tuple[Float32, Float32]:
    """(n, 3) the lowest and the highest point of each column that has any."""
    number = column_numbers(points[:, 0], points[:, 1], radius, size)
    order = np.lexsort((points[:, 2], number))
    _, first, count = np.unique(number[order], return_index=True, return_counts=True)
    return points[order[first]], points[order[first + count - 1]]


class PlaneSupport(NamedTuple):
    """Where returns support or contradict a plane: numbers of columns around the sensor, and sectors as bits."""

    on: int  # columns with returns on it
    structures: int  # of these, columns with returns just above it
    below: int  # columns with returns below it
    sectors: int  # with returns on it


def plane_support(returns: Float32, T_level_sensor: Pose) -> PlaneSupport:
    """For the plane z = 0 of the level frame, from `returns` (3, n) in the sensor frame."""
    from roadbed.ground.mounting.plane_support_cpu import count_columns

    return PlaneSupport(*count_columns(returns, T_level_sensor.numbers, _RADIUS, _COLUMN, _ON, _ABOVE, _BELOW))


def why_not_ground(plane: PlaneSupport) -> str:
    """Why a plane is hardly the ground; empty where there is no reason.

    Ground is seen between structures, and few returns lie below it. The lowest ring of beams on walls and furniture
    also forms a plane, and so does a table top with the floor below it.
    """
    if plane.structures > _LARGEST_SHARE * plane.on:
        return "structures rise from most of that plane"
    if plane.below > _LARGEST_SHARE * plane.on:
        return "many returns lie below that plane"
    return ""


def is_one_sided(plane: PlaneSupport) -> bool:
    """Whether a plane is seen on one side of the sensor only: it may be a slope ahead of it."""
    from roadbed.ground.mounting.plane_support_cpu import SECTORS

    seen = [sector for sector in range(SECTORS) if plane.sectors >> sector & 1]
    return bool(seen) and max(np.diff([*seen, seen[0] + SECTORS])) > SECTORS // 2


def sampled_returns(points: Float32) -> Float32:
    """(3, n) every k-th point that is no missing return."""
    from roadbed.ground.mounting.plane_support_cpu import returns_of

    return returns_of(points, _POINTS)


def axis_up_instead(returns: Float32) -> str:
    """Where `returns` (3, n) form a room that is clearly lower along x or y than along z, with or without a ceiling: a
    note that this axis may point up, as in scans of phones; else empty. Corridors, longer than three times their width,
    are left out."""
    size, is_closed = np.empty(3), np.empty((3, 2), np.bool_)
    if returns.shape[1] < _FEWEST_COLUMNS:
        return ""
    ends = round(_OUTERMOST * (returns.shape[1] - 1)), round((1 - _OUTERMOST) * (returns.shape[1] - 1))
    for axis, along in enumerate(returns):
        first, last = np.partition(along, ends)[list(ends)]
        outermost = np.count_nonzero(along < first + _WALL), np.count_nonzero(along > last - _WALL)
        is_closed[axis] = np.array(outermost) > _WALL_SHARE * len(along)
        size[axis] = last - first
        if not is_closed[axis].any():  # in the open: mostly at x
            return ""
    axis = int(np.argmin(size[:2]))
    if not (is_closed[1 - axis].all() and is_closed[2].all()):
        return ""
    if size[axis] > _LOWER * size[2] or size[1 - axis] > _LONGER * size[axis]:
        return ""
    name, turn = (("x", "0 -90 0"), ("y", "90 0 0"))[axis]
    room = f"a closed room, {size[axis]:.1f} m along {name} and {size[2]:.1f} m along z"
    return f"{room}: if {name} points up, give --mounting 0 0 H {turn}"
