# SPDX-License-Identifier: Apache-2.0
"""Scenes by name. The same name, seed and density give the same scene."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING

from roadbed.core.errors import ConfigError

if TYPE_CHECKING:
    from roadbed.simulate.world import Scene

# Imported when one is built: the command line names them in its help.
SCENES = {
    "city": "roadbed.simulate.scenes.city:city",
    "mountain": "roadbed.simulate.scenes.mountain:mountain",
    "highway": "roadbed.simulate.scenes.highway:highway",
    "parking": "roadbed.simulate.scenes.parking:parking",
    "offroad": "roadbed.simulate.scenes.offroad:offroad",
    "lowobstacles": "roadbed.simulate.scenes.trials:low_obstacles",
    "standstart": "roadbed.simulate.scenes.trials:stand_start",
}


def build_scene(name: str, seed: int = 0, density: float = 1.0) -> Scene:
    """The named scene; `density` scales the number of objects."""
    if name not in SCENES:
        raise ConfigError(f"scene {name!r}: expected one of {', '.join(SCENES)}")
    if not 0 <= density <= 3 or math.isnan(density):
        raise ConfigError(f"density = {density}: expected 0 (empty) to 3 (crowded), 1 is usual")
    module, function = SCENES[name].split(":")
    scene: Scene = getattr(import_module(module), function)(seed, density)
    return scene
