# SPDX-License-Identifier: Apache-2.0
"""Roadbed: ground, obstacles, elevation and dynamic occupancy from raw LiDAR."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from roadbed.core.display import register_renderer
from roadbed.core.memory import uncollected

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
    "Mounting": "roadbed.core.confidence:Mounting",
    "OccupancyFilter": "roadbed.occupancy:OccupancyFilter",
    "OccupancyFrame": "roadbed.core.frames:OccupancyFrame",
    "Pipeline": "roadbed.pipeline:Pipeline",
    "Pose": "roadbed.core.geometry:Pose",
    "Result": "roadbed.pipeline:Result",
    "RoadbedError": "roadbed.core.errors:RoadbedError",
    "Scan": "roadbed.core.frames:Scan",
    "Source": "roadbed.sources:Source",
    "TrackedObject": "roadbed.core.tracked_objects:TrackedObject",
    "TraversabilityLimits": "roadbed.core.traversability:TraversabilityLimits",
    "open": "roadbed.sources:open_source",
    "register_source": "roadbed.sources:register",
    # Control of Numba's compilation: see "Compilation" in docs/api.md.
    "warm_up": "roadbed.warm_up.processes:warm_up",
    "watch_compilation": "roadbed.kernels.progress:watch",
}
# `from roadbed import *` must not shadow Python's own open.
__all__ = ["__version__", *(name for name in _PUBLIC if name != "open")]

if TYPE_CHECKING:  # `X as X` exports a name to type checkers
    from roadbed.config import Config as Config
    from roadbed.core.confidence import Mounting as Mounting
    from roadbed.core.errors import ConfigError as ConfigError
    from roadbed.core.errors import DeviceError as DeviceError
    from roadbed.core.errors import InputError as InputError
    from roadbed.core.errors import RoadbedError as RoadbedError
    from roadbed.core.frames import GroundFrame as GroundFrame
    from roadbed.core.frames import Label as Label
    from roadbed.core.frames import OccupancyFrame as OccupancyFrame
    from roadbed.core.frames import Scan as Scan
    from roadbed.core.geometry import Grid as Grid
    from roadbed.core.geometry import Pose as Pose
    from roadbed.core.tracked_objects import TrackedObject as TrackedObject
    from roadbed.core.traversability import TraversabilityLimits as TraversabilityLimits
    from roadbed.ground import GroundFilter as GroundFilter
    from roadbed.kernels.progress import watch
    from roadbed.occupancy import OccupancyFilter as OccupancyFilter
    from roadbed.pipeline import Pipeline as Pipeline
    from roadbed.pipeline import Result as Result
    from roadbed.sources import Source as Source
    from roadbed.sources import open_source, register
    from roadbed.warm_up.processes import warm_up as warm_up

    open, register_source, watch_compilation = open_source, register, watch

# Frames draw themselves with outputs/, which lies above core/: the root of the package connects the two.
register_renderer(lambda: import_module("roadbed.outputs.images.figure"))


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'roadbed' has no attribute {name!r}")
    module, attribute = _PUBLIC[name].split(":")
    with uncollected():
        value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])
