# SPDX-License-Identifier: Apache-2.0
"""The whole configuration: one model per stage, YAML in and out, presets by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from roadbed.config.base import Stage
from roadbed.config.ground import GroundConfig, VarianceConfig
from roadbed.config.occupancy import OccupancyConfig
from roadbed.config.text import load_text, parse_yaml
from roadbed.errors import ConfigError

_PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # The paper's table I and parameters, without any addition of ours.
    "paper": {
        "ground": {
            "stcrf": {
                "length": 120.0,
                "width": 80.0,
                "iterations": 10,
                "warm_iterations": 10,
                "sigma_up_early": 0.05,
                "start": "zero",
                "slope_limit": 100.0,
                "points_per_node": 0,
                "footprint": False,
                "seen_only": False,
                "reach": 10,
                "walls": {"enabled": False},
            },
            "time": {"motion": "vehicle", "alignment": False},
            "labels": {
                "threshold": 0.20,
                "smooth": False,
                "columns": False,
                "columns_around": False,
                "foot_by_ratio": False,
                "foot_by_support": False,
                "clear": False,
                "vote": False,
            },
        },
        # Rakotovao et al. 2015: a grid in front of the vehicle that turns with it, and a filter without our rules.
        "occupancy": {
            "grid": {"length": 50.0, "width": 30.0, "resolution": 0.1, "ahead": 25.0, "motion": "interpolating"},
            "filter": {
                "particles": 19_000,
                "compose": "normalise",
                "empty_to_static": 0.005,
                "acceleration": 2.0,
                "unobserved_survival": 1.0,
                "surface": False,
                "unknown_hit": {"static": 0.25, "dynamic": 0.25},
                "maturity": {"enabled": False},
                "birth": {"traffic": 0.0, "fast": 0.0, "seeded": 0.0},
                "moving": {"mahalanobis": 5.99, "old_share": 0.0, "age": 0, "untested": 1.0, "neighbours": 0},
            },
        },
    },
}
_REPORT_KEYS = set(VarianceConfig.model_fields) - {"axes"}


class Config(Stage):
    """Everything a run depends on. `Config()` is the default for every sensor."""

    backend: Literal["cpu", "opencl", "cuda", "auto"] = "cpu"
    seed: int = Field(0, ge=0, lt=2**32)
    ground: GroundConfig = GroundConfig()
    occupancy: OccupancyConfig = OccupancyConfig()

    @classmethod
    def preset(cls, name: str) -> Config:
        if not isinstance(name, str) or name not in _PRESETS:
            raise ConfigError(f"preset {name!r}: expected one of {', '.join(_PRESETS)}")
        return cls.parse(_PRESETS[name])

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """Read YAML: Roadbed's own, or the grid-variance report's params.yaml as it is."""
        return cls.loads(load_text(path), str(path))

    @classmethod
    def loads(cls, text: str, origin: str = "configuration") -> Config:
        values = parse_yaml(text, origin)
        values = {} if values is None else values
        if isinstance(values, dict) and _REPORT_KEYS & set(values):
            variance = VarianceConfig.parse(values, origin)
            return cls.parse({"ground": {"method": "variance", "variance": variance.model_dump()}}, origin)
        if isinstance(values, dict) and "preset" in values:
            name = values.pop("preset")
            base = cls.preset(name).model_dump()
            values = _merged(base, values)
        return cls.parse(values, origin)

    def dumps(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)

    def save(self, path: str | Path) -> None:
        from roadbed.atomic import atomic_write

        with atomic_write(path) as file:
            file.write(self.dumps().encode())


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in changes.items():
        nested = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = _merged(out[key], value) if nested else value
    return out
