# SPDX-License-Identifier: Apache-2.0
"""Small scenes, each for one test."""

from math import pi

from roadbed.simulate import objects as o
from roadbed.simulate.layers import Crown, Kerb, Strip
from roadbed.simulate.motion import Along, Fixed, Pace, Roadside
from roadbed.simulate.rng import RandomStream
from roadbed.simulate.terrain import ROAD, SIDEWALK, Terrain
from roadbed.simulate.world import Scene


def low_obstacles(seed: int, density: float) -> Scene:
    """Isolated obstacles of 0.20-0.40 m on a smooth road."""
    half_road, speed, duration = 8.0, 5.0, 60.0
    terrain = Terrain(
        layers=(Crown(0.12, half_road), Kerb(half_road, 0.12)),
        strips=(Strip(ROAD, 0.0, half_road), Strip(SIDEWALK, half_road, 12.0)),
    )
    rng = RandomStream(seed, 51)
    found: list[o.SceneObject] = []
    for x in o.strewn(rng, -40.0, speed * duration + 60.0, (3.0, 6.0), density):
        offset = rng.uniform(2.2, 7.2) * (1 if rng.bernoulli(0.5) else -1)
        path = Roadside(x, offset, rng.uniform(0.0, pi))
        kind, height = int(rng.uniform(0.0, 4.0)), rng.uniform(0.2, 0.4)
        if kind == 0:
            found.append(o.low_box(path, height))
        elif kind == 1:
            found.append(o.stone(path, height))
        elif kind == 2:
            found.append(o.tyre(path))
        else:
            found.append(o.kerb_stone(path, rng.uniform(0.2, 0.3)))
    return Scene("lowobstacles", terrain, tuple(found), Along(0.0, 0.0, Pace(speed)), duration)


def stand_start(seed: int, density: float) -> Scene:
    """The ego vehicle stands still; a car ahead starts from rest after 2 s at 2 m/s^2."""
    half_road = 5.5
    terrain = Terrain(
        layers=(Crown(0.08, half_road), Kerb(half_road, 0.12)),
        strips=(Strip(ROAD, 0.0, half_road), Strip(SIDEWALK, half_road, 10.0)),
    )
    found = [o.car(Along(10.0, 1.75, Pace(12.0, begin=2.0, acceleration=2.0))), o.wall(Roadside(25.0, 9.5), 50.0, 2.4)]
    rng = RandomStream(seed, 52)
    if density > 0:
        found += [o.car(Roadside(x + rng.uniform(-0.3, 0.3), -4.4)) for x in (8.0, 15.0, 29.0)]
        found += [o.pole(Roadside(x, 6.3, -pi / 2)) for x in (5.0, 30.0)]
    return Scene("standstart", terrain, tuple(found), Fixed(0.0, -1.75), 12.0)
