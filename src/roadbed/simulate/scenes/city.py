# SPDX-License-Identifier: Apache-2.0
"""A street with kerbs, side streets, houses, parked and moving cars, people, trees, and a bridge to pass under."""

from collections.abc import Iterator
from math import pi

from roadbed.simulate import objects as o
from roadbed.simulate.layers import Bend, Crown, Kerb, Strip, Wave
from roadbed.simulate.motion import Along, Pace, Roadside
from roadbed.simulate.rng import RandomStream
from roadbed.simulate.terrain import ROAD, SIDEWALK, Terrain
from roadbed.simulate.world import Scene

DURATION = 60.0  # s
SPEED = 8.0  # m/s of the ego vehicle
_FIRST, _LAST = -140.0, DURATION * SPEED + 140.0
_HALF_ROAD = 5.5
_BLOCK, _SIDE_STREET, _CORNER = 90.0, 4.0, 60.0
_LANE = 1.75
_BRIDGE = 105.0
_WALL = (16.0, 34.0)  # x of a wall that a pedestrian walks along


def city(seed: int, density: float) -> Scene:
    terrain = Terrain(
        layers=(
            Wave(1.2, 400.0, 0.0, 0.6),  # grades up to 2 %
            Crown(0.09, _HALF_ROAD),
            Kerb(_HALF_ROAD, 0.12, period=_BLOCK, crossing=_SIDE_STREET, offset=_CORNER),
        ),
        bends=(Bend(3.0, 240.0),),
        strips=(Strip(ROAD, 0.0, _HALF_ROAD), Strip(SIDEWALK, _HALF_ROAD, 10.0)),
        crossing=(_BLOCK, _SIDE_STREET, _CORNER),
        elsewhere=SIDEWALK,
    )
    standing = [*_houses(seed), *_street_furniture(seed, density), *_parked(seed, density)]
    moving = [*_traffic(seed, density), *_people(seed, density)]
    bridge = o.bridge(Roadside(_BRIDGE, 0.0), span=23.0)
    return Scene("city", terrain, (*standing, bridge, *moving), Along(0.0, -_LANE, Pace(SPEED)), DURATION)


def _to_side_street(x: float) -> float:
    """Distance along x to the nearest side street's middle."""
    return abs((x - _CORNER + _BLOCK / 2) % _BLOCK - _BLOCK / 2)


def _houses(seed: int) -> Iterator[o.SceneObject]:
    yield o.wall(Roadside(sum(_WALL) / 2, -9.3), _WALL[1] - _WALL[0], 2.2)
    for side in (1, -1):
        rng = RandomStream(seed, 1, side + 1)
        x = _FIRST
        while x < _LAST:
            length, depth = rng.uniform(12.0, 20.0), rng.uniform(9.0, 14.0)
            middle = x + length / 2
            clear_of_bridge = abs(middle - _BRIDGE) > length / 2 + 7.0
            clear_of_wall = side > 0 or middle + length / 2 < _WALL[0] or middle - length / 2 > _WALL[1]
            if _to_side_street(middle) > length / 2 + _SIDE_STREET + 2.0 and clear_of_bridge and clear_of_wall:
                setback = rng.uniform(9.8, 11.5) + depth / 2
                yield o.building(Roadside(middle, side * setback), length, depth, rng.uniform(8.0, 18.0))
                x += length + (rng.uniform(1.0, 5.0) if rng.bernoulli(0.4) else 0.0)
            else:
                x += 4.0


def _street_furniture(seed: int, density: float) -> Iterator[o.SceneObject]:
    for side in (1, -1):
        rng = RandomStream(seed, 2, side + 1)
        for x in o.strewn(rng, _FIRST, _LAST, (9.0, 16.0), max(density, 0.05)):
            if _to_side_street(x) < _SIDE_STREET + 2.0 or abs(x - _BRIDGE) < 6.0:
                continue
            kind = rng.uniform()
            towards_road = -side * pi / 2
            if kind < 0.5:
                yield o.tree(Roadside(x, side * 7.1), rng.uniform(6.0, 9.0), rng.uniform(1.7, 2.3))
            elif kind < 0.75:
                yield o.pole(Roadside(x, side * 6.2, towards_road))
            elif kind < 0.9:
                yield o.sign(Roadside(x, side * 6.3, pi))
            else:
                yield o.low_box(Roadside(x, side * 8.8), 0.9)  # a litter bin


def _parked(seed: int, density: float) -> Iterator[o.SceneObject]:
    for side in (1, -1):
        rng = RandomStream(seed, 3, side + 1)
        for x in o.strewn(rng, _FIRST, _LAST, (5.4, 7.0), 1.0):
            if rng.bernoulli(0.6 * min(density, 1.5)) and _to_side_street(x) > _SIDE_STREET + 4.0:
                heading = pi if side > 0 else 0.0
                path = Roadside(x, side * (4.45 + rng.uniform(-0.08, 0.08)), heading)
                yield o.car(path, scale=rng.uniform(0.94, 1.06), reflectivity=rng.uniform(0.15, 0.8))
        corner = _CORNER - 2 * _BLOCK
        while corner < _LAST:  # cars waiting in the side streets
            if rng.bernoulli(0.5 * density):
                yield o.car(Roadside(corner + side * 1.9, side * rng.uniform(12.0, 20.0), -side * pi / 2))
            corner += _BLOCK


def _traffic(seed: int, density: float) -> Iterator[o.SceneObject]:
    if density > 0:
        yield o.car(Along(24.0, -_LANE, Pace(SPEED)))
        yield o.car(Along(-19.0, -_LANE, Pace(SPEED)))
    rng = RandomStream(seed, 4)
    x = 18.0
    while density > 0 and x < 2 * _LAST:  # oncoming
        vehicle = o.truck if rng.bernoulli(0.12) else o.car
        yield vehicle(Along(x, _LANE + 0.1, Pace(9.0), -1))
        x += rng.uniform(40.0, 80.0) / density
    x = 14.0
    while density > 0 and x < _LAST:
        yield o.cyclist(Along(x, -3.1, Pace(rng.uniform(4.2, 4.8))))
        x += rng.uniform(90.0, 140.0) / density


def _people(seed: int, density: float) -> Iterator[o.SceneObject]:
    if density > 0:  # along the wall
        yield o.pedestrian(Along(_WALL[0], -8.6, Pace(1.3)))
    for side in (1, -1):
        rng = RandomStream(seed, 5, side + 1)
        for x in o.strewn(rng, _FIRST, _LAST, (10.0, 24.0), density):
            offset, height = side * rng.uniform(7.9, 8.4), rng.uniform(1.5, 1.9)
            pace = Pace(rng.uniform(1.0, 1.6))
            if rng.bernoulli(0.2):
                yield o.pedestrian(Roadside(x, side * 6.4, -side * pi / 2), height=height)
            elif side > 0 or not _WALL[0] - 30.0 < x < _WALL[1] + 10.0:  # the wall has its own pedestrian
                direction = 1 if rng.bernoulli(0.5) else -1
                yield o.pedestrian(Along(x, offset, pace, direction), height=height)
