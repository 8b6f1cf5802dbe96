# SPDX-License-Identifier: Apache-2.0
"""Scenes by name. The same name, seed and density give the same scene."""

import math

from roadbed.core.errors import ConfigError
from roadbed.simulate.scenes.city import city
from roadbed.simulate.scenes.highway import highway
from roadbed.simulate.scenes.mountain import mountain
from roadbed.simulate.scenes.offroad import offroad
from roadbed.simulate.scenes.parking import parking
from roadbed.simulate.scenes.trials import low_obstacles, stand_start
from roadbed.simulate.world import Scene

SCENES = {
    "city": city,
    "mountain": mountain,
    "highway": highway,
    "parking": parking,
    "offroad": offroad,
    "lowobstacles": low_obstacles,
    "standstart": stand_start,
}


def build_scene(name: str, seed: int = 0, density: float = 1.0) -> Scene:
    """The named scene; `density` scales the number of objects."""
    if name not in SCENES:
        raise ConfigError(f"scene {name!r}: expected one of {', '.join(SCENES)}")
    if not 0 <= density <= 3 or math.isnan(density):
        raise ConfigError(f"density = {density}: expected 0 (empty) to 3 (crowded), 1 is usual")
    return SCENES[name](seed, density)
