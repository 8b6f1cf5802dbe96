# SPDX-License-Identifier: Apache-2.0
"""The base of every configuration model, and how a wrong value is explained in one line."""

from __future__ import annotations

import difflib
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from roadbed.errors import ConfigError

_MOST_PROBLEMS = 20  # explained; whoever has more starts with these


class Stage(BaseModel):
    """The parameters of one stage: immutable, complete with defaults, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, values: Any, origin: str = "configuration"):  # type: ignore[no-untyped-def]
        """Validate `values`; every problem becomes one line that starts with `origin`."""
        if not isinstance(values, dict):
            raise ConfigError(f"{origin}: expected a mapping of parameters, found {type(values).__name__}")
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problems = [_explain(cls, item) for item in error.errors()[:_MOST_PROBLEMS]]
            raise ConfigError(f"{origin}: " + "; ".join(dict.fromkeys(problems))) from None

    def with_changes(self, **changes: Any):  # type: ignore[no-untyped-def]
        """A validated copy with some values replaced; nested values by `stage={...}` or a model."""
        values = self.model_dump()
        for name, change in changes.items():
            if isinstance(change, dict) and isinstance(values.get(name), dict):
                values[name] = {**values[name], **change}
            else:
                values[name] = change.model_dump() if isinstance(change, Stage) else change
        return type(self).parse(values)


def _explain(model: type[Stage], item: Any) -> str:
    path = [str(part) for part in item["loc"]]
    name = ".".join(path)
    found = item.get("input")
    if item["type"] == "extra_forbidden":
        valid = list(_fields_at(model, path[:-1]))
        nearest = difflib.get_close_matches(path[-1], valid, n=1, cutoff=0.0)
        hint = f", did you mean {nearest[0]}?" if nearest else ""
        return f"unknown parameter {name}{hint}"
    message = item["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if item["type"] == "value_error" or isinstance(found, dict):
        return f"{name}: {message}" if name else message
    return f"{name} = {found!r}: {message}"


def _fields_at(model: type[Stage], path: list[str]) -> list[str]:
    """The valid names under a dotted path of nested stages."""
    for part in path:
        field = model.model_fields.get(part)
        if field is None:
            return []
        candidates = [field.annotation, *get_args(field.annotation)]
        nested = [c for c in candidates if isinstance(c, type) and issubclass(c, Stage)]
        if not nested:
            return []
        model = nested[0]
    return list(model.model_fields)
