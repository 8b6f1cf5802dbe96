# SPDX-License-Identifier: Apache-2.0
"""Every engine of the occupancy, for tests that hold them all against the same oracle."""

from __future__ import annotations

from roadbed import Config
from roadbed.config import OccupancyConfig
from roadbed.occupancy.cpu import OccupancyCpu
from roadbed.occupancy.engine import OccupancyEngine
from roadbed.occupancy.hsbof import Hsbof

ENGINES = ("cpu",)


def engine(name: str, config: Config | OccupancyConfig) -> OccupancyEngine:
    """One of ENGINES."""
    assert name == "cpu"
    return OccupancyCpu(Config.of(config))


def hsbof(name: str) -> type[Hsbof]:
    """The filter of an engine by itself: tests give it masses, particles and observations, and ask for a step."""
    assert name == "cpu"
    return Hsbof
