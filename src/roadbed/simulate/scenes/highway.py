# SPDX-License-Identifier: Apache-2.0
"""A motorway: three lanes each way, slow traffic at 15 m/s, fast at 30 m/s, guard rails, bridges."""

from collections.abc import Iterator
from math import pi

from roadbed.simulate import objects as o
from roadbed.simulate.layers import Bend, Crown, Ditch, Shoulder, Strip, Wave, rough
from roadbed.simulate.motion import Along, Pace, Roadside
from roadbed.simulate.rng import RandomStream
from roadbed.simulate.terrain import ROAD, Terrain
from roadbed.simulate.world import Scene

DURATION = 60.0  # s
SPEED, SLOW, FAST = 25.0, 15.0, 30.0  # m/s
_FIRST, _LAST = -160.0, DURATION * SPEED + 160.0
_HALF_ROAD = 12.5
_FAST_LANE, _OWN_LANE, _SLOW_LANE = 2.6, 6.3, 10.0  # m from the middle


def highway(seed: int, density: float) -> Scene:
    terrain = Terrain(
        layers=(
            Wave(4.0, 700.0, 0.0, 0.4),
            Crown(0.25, _HALF_ROAD),
            Ditch(0, 16.5, 1.8, 0.7),
            Shoulder(1, 19.0, 32.0, 3.0),
            Shoulder(-1, 19.0, 30.0, -2.5),
            *rough(seed, 0.04, fade=(13.0, 15.0)),
        ),
        bends=(Bend(25.0, 1200.0),),
        strips=(Strip(ROAD, 0.0, _HALF_ROAD),),
    )
    bridges = [o.bridge(Roadside(x, 0.0), span=30.0, clearance=5.2) for x in (120.0, 520.0, 960.0, 1400.0)]
    placed = (*_rails(), *_verges(seed, density), *bridges, *_traffic(seed, density))
    return Scene("highway", terrain, placed, Along(0.0, -_OWN_LANE, Pace(SPEED)), DURATION)


def _rails() -> list[o.SceneObject]:
    length = 8.0
    positions = [_FIRST + length * step for step in range(int((_LAST - _FIRST) / length))]
    return [o.guard_rail(Roadside(x, offset), length) for x in positions for offset in (0.0, 13.4, -13.4)]


def _verges(seed: int, density: float) -> Iterator[o.SceneObject]:
    for side in (1, -1):
        rng = RandomStream(seed, 21, side + 1)
        for x in o.strewn(rng, _FIRST, _LAST, (5.0, 14.0), density):
            if rng.bernoulli(0.7):
                yield o.tree(Roadside(x, side * rng.uniform(22.0, 45.0)), rng.uniform(5.0, 10.0))
            else:
                yield o.sign(Roadside(x, side * 14.5, pi if side < 0 else 0.0))


def _traffic(seed: int, density: float) -> Iterator[o.SceneObject]:
    if density <= 0:
        return
    rng = RandomStream(seed, 22)
    # The slow are overtaken, so they start ahead; the fast overtake, so they start behind.
    lanes = [
        (-_SLOW_LANE, SLOW, 1, 25.0, 25.0 + DURATION * (SPEED - SLOW) + 150.0),
        (-_FAST_LANE, FAST, 1, -DURATION * (FAST - SPEED) - 150.0, 60.0),
        (_FAST_LANE, FAST, -1, 40.0, DURATION * (SPEED + FAST) + 150.0),
        (_SLOW_LANE, SLOW, -1, 60.0, DURATION * (SPEED + SLOW) + 150.0),
    ]
    for offset, speed, direction, first, last in lanes:
        x = first
        while x < last:
            vehicle = o.truck if speed == SLOW and rng.bernoulli(0.4) else o.car
            yield vehicle(Along(x, offset, Pace(speed), direction))
            x += rng.uniform(35.0, 80.0) / density
    yield o.car(Along(45.0, -_OWN_LANE, Pace(SPEED)))
