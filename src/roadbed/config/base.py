# SPDX-License-Identifier: Apache-2.0
"""The base of every configuration model; a wrong value is explained in one line."""

import difflib
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from roadbed.core.errors import ConfigError

_MOST_PROBLEMS = 20  # that one error explains


class Stage(BaseModel):
    """The parameters of one stage: immutable, complete with defaults, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, values: Any, origin: str = "configuration"):
        """Validate `values`; every problem becomes one line that starts with `origin`."""
        if not isinstance(values, dict):
            raise ConfigError(f"{origin}: expected a mapping of parameters, found {type(values).__name__}")
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problems = [_explain(cls, item) for item in error.errors()[:_MOST_PROBLEMS]]
            raise ConfigError(f"{origin}: " + "; ".join(dict.fromkeys(problems))) from None

    def with_changes(self, **changes: Any):
        """A validated copy with some values replaced; nested values by `stage={...}` or a model, at any depth."""
        return type(self).parse(merged(self.model_dump(), changes))

    def __repr__(self) -> str:
        changed = self.model_dump(exclude_defaults=True)
        values = ", ".join(f"{name}={value!r}" for name, value in self if name in changed)
        return f"{type(self).__name__}({values})"

    __str__ = __repr__


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, level by level."""
    out = dict(base)
    for key, value in changes.items():
        if isinstance(value, Stage):
            value = value.model_dump()
        nested = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = merged(out[key], value) if nested else value
    return out


def _explain(model: type[Stage], item: Any) -> str:
    path = [str(part) for part in item["loc"]]
    name = ".".join(path)
    found = item.get("input")
    if item["type"] == "extra_forbidden":
        stage = _stage_at(model, path[:-1])
        valid = [] if stage is None else list(stage.model_fields)
        nearest = difflib.get_close_matches(path[-1], valid, n=1, cutoff=0.0)
        hint = f", did you mean {nearest[0]}?" if nearest else ""
        return f"unknown parameter {name}{hint}"
    message = item["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if item["type"] == "value_error" or isinstance(found, dict):
        return f"{name}: {message}" if name else message
    return f"{name} = {found!r}: {message}"


def _stage_at(model: type[Stage], path: list[str]) -> type[Stage] | None:
    """The model under a dotted path of nested stages; None where there is none."""
    for part in path:
        stage = stage_of(model.model_fields[part]) if part in model.model_fields else None
        if stage is None:
            return None
        model = stage
    return model


def stage_of(field: FieldInfo) -> type[Stage] | None:
    """The stage that a field holds, also an optional one; None for a plain parameter."""
    candidates = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in candidates if isinstance(kind, type) and issubclass(kind, Stage)), None)
