# SPDX-License-Identifier: Apache-2.0
"""A road above a car park on its right; passing cars hide ground that the sensor has seen."""

from collections.abc import Iterator
from math import pi

from roadbed.simulate import objects as o
from roadbed.simulate.layers import Crown, Kerb, Ramp, Shoulder, SpeedBump, Strip
from roadbed.simulate.motion import Along, Fixed, Pace, Roadside, Straight
from roadbed.simulate.rng import RandomStream
from roadbed.simulate.terrain import PARKING, ROAD, SIDEWALK, Terrain
from roadbed.simulate.world import Scene

DURATION = 40.0  # s
SPEED = 1.0  # m/s of the ego vehicle
_HALF_ROAD = 4.2
_LANE = 1.9
_FIRST_PASSES, _EVERY = 3.0, 9.0  # s at which a car is abreast of the ego vehicle, and the time between cars
_PASSING_SPEED = 6.0  # m/s


def parking(seed: int, density: float) -> Scene:
    terrain = Terrain(
        layers=(
            Crown(0.06, _HALF_ROAD),
            Shoulder(-1, 4.6, 8.0, -1.3),
            Kerb(4.4, 0.14, side=1),
            SpeedBump(28.0, 0.9, 0.08),
            Ramp(60.0, 85.0, 2.0),
        ),
        strips=(Strip(ROAD, 0.0, _HALF_ROAD + 0.2), Strip(SIDEWALK, 4.4, 9.0, 1), Strip(PARKING, 8.0, 60.0, -1)),
    )
    placed = (*_buildings(), *_parked(seed, density), *_passing(), *_people(density))
    return Scene("parking", terrain, placed, Along(0.0, _LANE, Pace(SPEED)), DURATION)


def _buildings() -> list[o.SceneObject]:
    return [
        o.building(Fixed(-25.0, 16.0), 40.0, 12.0, 10.0),
        o.building(Fixed(30.0, 18.0), 50.0, 14.0, 14.0),
        o.building(Fixed(10.0, -50.0), 70.0, 12.0, 9.0),
        o.wall(Fixed(-35.0, -30.0, pi / 2), 24.0, 1.6),
    ]


def _parked(seed: int, density: float) -> Iterator[o.SceneObject]:
    rng = RandomStream(seed, 31)
    for row, y in enumerate((-19.0, -24.6, -36.0)):
        x = -30.0
        while x < 50.0:
            if rng.bernoulli(0.6 * min(density, 1.6)):
                heading = (pi / 2 if row % 2 else -pi / 2) + rng.uniform(-0.04, 0.04)
                path = Fixed(x, y + rng.uniform(-0.2, 0.2), heading)
                yield o.car(path, scale=rng.uniform(0.94, 1.06), reflectivity=rng.uniform(0.15, 0.8))
            x += 2.7
    if density > 0:
        yield from (o.tree(Roadside(x, -10.5), 6.0, 1.8) for x in (-24.0, -8.0, 12.0, 28.0, 44.0))
        yield from (o.pole(Roadside(x, 5.2, -pi / 2)) for x in (-20.0, 10.0, 40.0))


def _passing() -> Iterator[o.SceneObject]:
    """Cars on the right lane, one abreast of the ego vehicle every few seconds."""
    for number in range(int(DURATION / _EVERY)):
        abreast = _FIRST_PASSES + number * _EVERY
        start = abreast * SPEED - abreast * _PASSING_SPEED
        yield o.car(Along(start, -_LANE, Pace(_PASSING_SPEED)))


def _people(density: float) -> list[o.SceneObject]:
    if density <= 0:
        return []
    return [
        o.pedestrian(Straight(6.0, -30.0, pi / 2, Pace(0.5))),
        o.pedestrian(Along(-10.0, 6.5, Pace(1.3))),
        o.pedestrian(Fixed(14.0, 6.8, -pi / 2)),
        o.car(Straight(-45.0, -30.3, 0.0, Pace(2.0))),
    ]
