# SPDX-License-Identifier: Apache-2.0
"""The configuration: one model per stage, YAML in and out, presets by name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field

from roadbed.config.base import Stage, merged
from roadbed.config.ground import GroundConfig
from roadbed.config.occupancy import OccupancyConfig
from roadbed.config.presets import PRESETS
from roadbed.config.report import from_report, is_report
from roadbed.config.shared import LiveConfig, TimelineConfig, TraversabilityConfig, VehicleConfig
from roadbed.config.text import load_text, parse_yaml
from roadbed.core.errors import ConfigError
from roadbed.io.atomic import write_file


class Config(Stage):
    """All parameters of a run. `Config()` is the default for every sensor."""

    backend: Literal["cpu", "opencl", "cuda", "auto"] = Field("cpu", description="what computes")
    device: str | None = Field(None, description="accelerator: its index or a part of its name; None: the best one")
    seed: int = Field(0, ge=0, lt=2**32, description="of the particles' random numbers")
    vehicle: VehicleConfig = VehicleConfig()
    timeline: TimelineConfig = TimelineConfig()
    ground: GroundConfig = GroundConfig()
    occupancy: OccupancyConfig = OccupancyConfig()
    traversability: TraversabilityConfig = TraversabilityConfig()
    live: LiveConfig = LiveConfig()

    @classmethod
    def of(cls, config: Config | None) -> Config:
        """`config`, or the default configuration for None."""
        if config is not None and not isinstance(config, Config):
            raise ConfigError(f"config: expected a roadbed.Config, found {type(config).__name__}")
        return config or cls()

    @classmethod
    def preset(cls, name: str) -> Config:
        if not isinstance(name, str) or name not in PRESETS:
            raise ConfigError(f"preset {name!r}: expected one of {', '.join(PRESETS)}")
        return cls.parse(PRESETS[name])

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """Read YAML: a Roadbed configuration, or params.yaml of the grid-variance report."""
        return cls.loads(load_text(path), str(path))

    @classmethod
    def loads(cls, text: str, origin: str = "configuration") -> Config:
        values = parse_yaml(text, origin)
        values = {} if values is None else values
        if is_report(values):
            return cls.parse({"ground": {"method": "variance", "variance": from_report(values, origin)}}, origin)
        if isinstance(values, dict) and "preset" in values:
            name = values.pop("preset")
            values = merged(cls.preset(name).model_dump(), values)
        return cls.parse(values, origin)

    def dumps(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)

    def save(self, path: str | Path) -> None:
        write_file(path, self.dumps())


__all__ = ["Config", "OccupancyConfig", "Stage", "VehicleConfig"]
