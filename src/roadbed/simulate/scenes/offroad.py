# SPDX-License-Identifier: Apache-2.0
"""A track over rolling hills and rough ground with a ditch, trees, bushes and stones."""

from math import pi

from roadbed.simulate import objects as o
from roadbed.simulate.layers import Bend, Ditch, Wave, rough
from roadbed.simulate.motion import Along, Pace, Roadside
from roadbed.simulate.rng import RandomStream
from roadbed.simulate.terrain import Terrain
from roadbed.simulate.world import Scene

DURATION = 80.0  # s
SPEED = 3.0  # m/s
_FIRST, _LAST = -130.0, DURATION * SPEED + 130.0


def offroad(seed: int, density: float) -> Scene:
    rng = RandomStream(seed, 41)
    hills = [
        Wave(height, wavelength, rng.uniform(0.0, pi), rng.uniform(0.0, 2 * pi))
        for height, wavelength in ((3.0, 130.0), (1.6, 75.0), (0.6, 32.0), (0.25, 16.0))
    ]
    terrain = Terrain(
        layers=(
            *hills,
            Ditch(1, 9.0, 1.6, 0.8),
            *rough(seed, 0.03, longest=6.0),
            *rough(seed + 1, 0.05, fade=(1.5, 4.0)),
        ),
        bends=(Bend(8.0, 120.0),),
    )
    found: list[o.SceneObject] = []
    if density > 0:
        found += [o.pedestrian(Along(20.0, 3.0, Pace(1.2))), o.wall(Roadside(60.0, -14.0, 0.3), 12.0, 1.2)]
    for x in o.strewn(rng, _FIRST, _LAST, (0.6, 2.2), density):
        offset = rng.uniform(3.6, 60.0) * (1 if rng.bernoulli(0.5) else -1)
        kind = rng.uniform()
        if kind < 0.3 and abs(offset) > 5.0:
            found.append(o.tree(Roadside(x, offset), rng.uniform(4.0, 9.0), rng.uniform(1.2, 2.6)))
        elif kind < 0.65:
            found.append(o.bush(Roadside(x, offset), rng.uniform(0.4, 1.1), rng.uniform(0.5, 1.4)))
        else:
            found.append(o.stone(Roadside(x, offset, rng.uniform(0.0, pi)), rng.uniform(0.2, 0.9)))
    return Scene("offroad", terrain, tuple(found), Along(0.0, 0.0, Pace(SPEED)), DURATION)
