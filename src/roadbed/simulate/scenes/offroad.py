# SPDX-License-Identifier: Apache-2.0
"""A track over rolling hills and rough ground with a ditch, trees, bushes and stones."""

from __future__ import annotations

from math import pi

from roadbed.simulate import things as t
from roadbed.simulate.chance import Dice
from roadbed.simulate.layers import Bend, Ditch, Wave
from roadbed.simulate.motion import Along, Concurrent, Pace
from roadbed.simulate.scenes.ground import rough
from roadbed.simulate.terrain import Terrain
from roadbed.simulate.world import Scene

DURATION = 80.0  # s
SPEED = 3.0  # m/s
_FIRST, _LAST = -130.0, DURATION * SPEED + 130.0


def offroad(seed: int, density: float) -> Scene:
    dice = Dice(seed, 41)
    hills = [
        Wave(height, wavelength, dice.uniform(0.0, pi), dice.uniform(0.0, 2 * pi))
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
    found: list[t.Thing] = []
    if density > 0:
        found += [t.pedestrian(Along(20.0, 3.0, Pace(1.2))), t.wall(Concurrent(60.0, -14.0, 0.3), 12.0, 1.2)]
    x = _FIRST
    while density > 0 and x < _LAST:
        x += dice.uniform(0.6, 2.2) / density
        offset = dice.uniform(3.6, 60.0) * (1 if dice.chance(0.5) else -1)
        kind = dice.uniform()
        if kind < 0.3 and abs(offset) > 5.0:
            found.append(t.tree(Concurrent(x, offset), dice.uniform(4.0, 9.0), dice.uniform(1.2, 2.6)))
        elif kind < 0.65:
            found.append(t.bush(Concurrent(x, offset), dice.uniform(0.4, 1.1), dice.uniform(0.5, 1.4)))
        else:
            found.append(t.stone(Concurrent(x, offset, dice.uniform(0.0, pi)), dice.uniform(0.2, 0.9)))
    return Scene("offroad", terrain, tuple(found), Along(0.0, 0.0, Pace(SPEED)), DURATION)
