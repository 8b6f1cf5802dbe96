# SPDX-License-Identifier: Apache-2.0
"""Roadbed: ground, obstacles, elevation and dynamic occupancy from raw LiDAR."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Loaded on first use, so that `import roadbed` and `roadbed --help` stay fast.
_PUBLIC = {
    "Config": "roadbed.config:Config",
    "ConfigError": "roadbed.core.errors:ConfigError",
    "DeviceError": "roadbed.core.errors:DeviceError",
    "GroundFilter": "roadbed.ground:GroundFilter",
    "GroundFrame": "roadbed.core.frames:GroundFrame",
    "InputError": "roadbed.core.errors:InputError",
    "Label": "roadbed.core.frames:Label",
    "Grid": "roadbed.core.geometry:Grid",
    "Mounting": "roadbed.core.frames:Mounting",
    "OccupancyFilter": "roadbed.occupancy:OccupancyFilter",
    "OccupancyFrame": "roadbed.core.frames:OccupancyFrame",
    "Pipeline": "roadbed.pipeline:Pipeline",
    "Pose": "roadbed.core.geometry:Pose",
    "Result": "roadbed.pipeline:Result",
    "RoadbedError": "roadbed.core.errors:RoadbedError",
    "Scan": "roadbed.core.frames:Scan",
    "Source": "roadbed.sources:Source",
    "TrackedObject": "roadbed.core.tracked_objects:TrackedObject",
    "open": "roadbed.sources:open_source",
    "register_source": "roadbed.sources:register",
    "warm_up": "roadbed.warm_up.processes:warm_up",
    "watch_compilation": "roadbed.kernels.progress:watch",
}
# `from roadbed import *` must not shadow Python's own open.
__all__ = ["__version__", *(name for name in _PUBLIC if name != "open")]

if TYPE_CHECKING:
    from roadbed.config import Config
    from roadbed.core.errors import ConfigError, DeviceError, InputError, RoadbedError
    from roadbed.core.frames import GroundFrame, Label, Mounting, OccupancyFrame, Scan
    from roadbed.core.geometry import Grid, Pose
    from roadbed.core.tracked_objects import TrackedObject
    from roadbed.ground import GroundFilter
    from roadbed.kernels.progress import watch as watch_compilation
    from roadbed.occupancy import OccupancyFilter
    from roadbed.pipeline import Pipeline, Result
    from roadbed.sources import Source
    from roadbed.sources import open_source as open
    from roadbed.sources import register as register_source
    from roadbed.warm_up.processes import warm_up


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'roadbed' has no attribute {name!r}")
    module, attribute = _PUBLIC[name].split(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])
