# SPDX-License-Identifier: Apache-2.0
"""The tunable parameters, read from the configuration models."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from roadbed.config import Config
from roadbed.config.base import Stage, merged
from roadbed.outputs.images.decoration import round_length

# The most important ones, shown first; the others are in a folder.
FIRST = (
    "ground.stcrf.sigma_up",
    "ground.stcrf.beta",
    "ground.stcrf.gamma",
    "ground.stcrf.iterations",
    "ground.stcrf.warm_iterations",
    "ground.stcrf.spacing",
    "ground.labels.threshold",
    "ground.labels.smooth_threshold",
    "ground.labels.clear_threshold",
    "ground.variance.min_variance_threshold",
    "ground.variance.spacing",
    "occupancy.grid.spacing",
    "occupancy.filter.particles",
    "occupancy.filter.moving.speed",
)
_SIZES = {"spacing", "cell", "pillar", "length", "width"}


@dataclass(frozen=True)
class Parameter:
    """One number, choice or switch of the configuration."""

    path: str  # e.g. ground.stcrf.beta
    value: Any  # in the configuration it was found in
    hint: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 1.0
    step: float = 0.01

    @property
    def name(self) -> str:
        return self.path.rsplit(".", 1)[-1].replace("_", " ")

    @property
    def group(self) -> str:
        return self.path.rsplit(".", 1)[0]


def parameters(config: Config) -> list[Parameter]:
    """Every number, choice and switch of the active stages, the important ones first."""
    found = {parameter.path: parameter for parameter in _walk(config, "")}
    unused = "ground.variance." if config.ground.method == "stcrf" else "ground.stcrf."
    found = {path: parameter for path, parameter in found.items() if not path.startswith(unused)}
    first = [found.pop(path) for path in FIRST if path in found]
    return first + list(found.values())


def changed(config: Config, path: str, value: Any) -> Config:
    """The configuration with one value replaced, validated."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return Config.parse(merged(config.model_dump(), value), "tuning")


def value_at(config: Config, path: str) -> Any:
    return reduce(getattr, path.split("."), config)


def _walk(stage: Stage, prefix: str) -> Iterator[Parameter]:
    for name, field in type(stage).model_fields.items():
        value, path = getattr(stage, name), f"{prefix}{name}"
        if isinstance(value, Stage):
            yield from _walk(value, f"{path}.")
        elif path in ("backend", "ground.method"):
            continue  # fixed while the viewer runs
        elif isinstance(value, bool):
            yield Parameter(path, value, field.description or "", choices=(False, True))
        elif get_origin(field.annotation) is Literal:
            yield Parameter(path, value, field.description or "", choices=get_args(field.annotation))
        elif isinstance(value, int | float):
            yield _number(path, value, field)


def _number(path: str, value: float, field: FieldInfo) -> Parameter:
    """A slider range around the value, within the bounds of the model."""
    step = 1.0 if isinstance(value, int) and value < 200 else round(round_length(abs(value) / 20 or 0.1), 12)
    high = max(5 * value, 20 * step)
    low = 0.0 if value else -high
    if path.rsplit(".", 1)[-1] in _SIZES:
        low, high = value / 4, 4 * value  # a much finer grid would be too slow
    for bound in field.metadata:
        if isinstance(bound, Ge | Gt):
            least = float(bound.ge if isinstance(bound, Ge) else bound.gt)  # type: ignore[arg-type]
            low = max(low, least if isinstance(bound, Ge) else least + step)
        if isinstance(bound, Le | Lt):
            most = float(bound.le if isinstance(bound, Le) else bound.lt)  # type: ignore[arg-type]
            high = min(high, most if isinstance(bound, Le) else most - step)
    low, high = round(min(low, value), 9), round(max(high, value), 9)
    return Parameter(path, value, field.description or "", low=low, high=high, step=step)
