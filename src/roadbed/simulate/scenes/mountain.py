# SPDX-License-Identifier: Apache-2.0
"""A winding road of up to 15 % grade, with crown, banked bends, a slope above and a drop below it, and a tunnel."""

from collections.abc import Iterator
from math import pi

from roadbed.simulate import objects as o
from roadbed.simulate.layers import Banking, Bend, Crown, Ditch, Shoulder, Strip, Wave, rough
from roadbed.simulate.motion import Along, Pace, Roadside
from roadbed.simulate.rng import RandomStream
from roadbed.simulate.terrain import ROAD, Terrain
from roadbed.simulate.world import Scene

DURATION = 200.0  # s
SPEED = 10.0  # m/s
_FIRST, _LAST = -140.0, DURATION * SPEED + 140.0
_HALF_ROAD = 3.3
_TUNNEL = (250.0, 30.0)  # middle and length


def mountain(seed: int, density: float) -> Scene:
    terrain = Terrain(
        layers=(
            Wave(13.3, 560.0, 0.0, -0.5),  # the climb: up to 15 %
            Banking(1.8, _HALF_ROAD),
            Crown(0.06, _HALF_ROAD),
            Shoulder(1, 5.5, 26.0, 14.0),
            Shoulder(-1, 5.0, 22.0, -11.0),
            Ditch(1, 4.5, 0.9, 0.4),
            Wave(1.5, 70.0, 1.2, 0.3, fade=(8.0, 30.0)),
            *rough(seed, 0.03, fade=(3.6, 6.0)),
        ),
        bends=(Bend(20.0, 260.0), Bend(4.0, 110.0, 1.0)),
        strips=(Strip(ROAD, 0.0, _HALF_ROAD),),
    )
    tunnel = o.tunnel(Roadside(_TUNNEL[0], 0.0), 11.0, _TUNNEL[1])
    placed = (*_verges(seed, density), *_rails(), tunnel, *_traffic(seed, density))
    return Scene("mountain", terrain, placed, Along(0.0, -1.6, Pace(SPEED)), DURATION)


def _in_tunnel(x: float) -> bool:
    return abs(x - _TUNNEL[0]) < _TUNNEL[1] / 2 + 4.0


def _rails() -> list[o.SceneObject]:
    """Guard rails over the drop, with gaps."""
    positions = [_FIRST + 4.0 * step for step in range(int((_LAST - _FIRST) / 4.0))]
    return [o.guard_rail(Roadside(x, -4.1), 4.0) for x in positions if (x // 60.0) % 3 != 1 and not _in_tunnel(x)]


def _verges(seed: int, density: float) -> Iterator[o.SceneObject]:
    """Trees, bushes and rocks on both slopes."""
    for side in (1, -1):
        rng = RandomStream(seed, 11, side + 1)
        for x in o.strewn(rng, _FIRST, _LAST, (2.0, 6.0), density):
            offset, kind = side * rng.uniform(6.5, 40.0), rng.uniform()
            if _in_tunnel(x) and abs(offset) < 9.0:
                continue
            if kind < 0.55:
                yield o.tree(Roadside(x, offset), rng.uniform(5.0, 11.0), rng.uniform(1.4, 2.6))
            elif kind < 0.85:
                yield o.bush(Roadside(x, offset), rng.uniform(0.5, 1.2), rng.uniform(0.6, 1.5))
            else:
                yield o.stone(Roadside(x, offset, rng.uniform(0.0, pi)), rng.uniform(0.3, 1.2))


def _traffic(seed: int, density: float) -> Iterator[o.SceneObject]:
    rng = RandomStream(seed, 12)
    x = 60.0
    while density > 0 and x < 2.3 * _LAST:
        vehicle = (o.car, o.car, o.truck, o.cyclist)[int(rng.uniform(0.0, 4.0))]
        yield vehicle(Along(x, 1.7, Pace(11.0), -1))
        x += rng.uniform(70.0, 140.0) / density
    if density > 0:
        yield o.car(Along(32.0, -1.6, Pace(SPEED)))
