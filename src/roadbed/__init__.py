# SPDX-License-Identifier: Apache-2.0
"""Roadbed: ground, obstacles, elevation and dynamic occupancy from raw LiDAR."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Loaded on first use, so that `import roadbed` and `roadbed --help` stay fast.
_PUBLIC = {
    "Config": "roadbed.config:Config",
    "GroundFilter": "roadbed.ground:GroundFilter",
    "GroundFrame": "roadbed.frames:GroundFrame",
    "Label": "roadbed.frames:Label",
    "Lattice": "roadbed.geometry:Lattice",
    "OccupancyFilter": "roadbed.occupancy:OccupancyFilter",
    "OccupancyFrame": "roadbed.frames:OccupancyFrame",
    "Pipeline": "roadbed.pipeline:Pipeline",
    "Pose": "roadbed.geometry:Pose",
    "RoadbedError": "roadbed.errors:RoadbedError",
    "Scan": "roadbed.frames:Scan",
    "open": "roadbed.sources:open_source",
    "register_source": "roadbed.sources:register",
}
__all__ = ["__version__", *_PUBLIC]

if TYPE_CHECKING:
    from roadbed.config import Config
    from roadbed.errors import RoadbedError
    from roadbed.frames import GroundFrame, Label, OccupancyFrame, Scan
    from roadbed.geometry import Lattice, Pose
    from roadbed.ground import GroundFilter
    from roadbed.occupancy import OccupancyFilter
    from roadbed.pipeline import Pipeline
    from roadbed.sources import open_source as open
    from roadbed.sources import register as register_source


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'roadbed' has no attribute {name!r}")
    module, attribute = _PUBLIC[name].split(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
