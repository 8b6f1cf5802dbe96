# SPDX-License-Identifier: Apache-2.0
"""Untrusted YAML text: mappings, lists and plain values, bounded in size, depth and number, without tags."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml
from yaml import events

from roadbed.core.errors import ConfigError, InputError
from roadbed.io.files import read_text

_LONGEST_TEXT = 1 << 20
_LONGEST_NUMBER = 64  # characters; no printed number is longer
_DEEPEST = 32
_MOST_VALUES = 100_000  # including those that an alias repeats
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_PLAIN = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:bool", *_NUMBERS)


def load_text(path: str | Path) -> str:
    """The text of a YAML file."""
    if not os.path.exists(path):  # pathlib raises for an invalid name
        raise ConfigError(f"{path}: no such configuration file")
    try:
        return read_text(path)
    except InputError as error:
        raise ConfigError(f"{error} (expected a readable YAML text file)") from None


def parse_yaml(text: str, origin: str) -> Any:
    """The values of a YAML text; an error is one line that starts with `origin`."""
    if len(text) > _LONGEST_TEXT:
        raise ConfigError(f"{origin}: found {len(text)} characters, expected at most {_LONGEST_TEXT}")
    builder = _Builder(origin)
    try:
        for event in yaml.parse(text, Loader=_PARSER):
            builder.take(event)
    except (yaml.YAMLError, UnicodeError) as error:
        raise ConfigError(f"{origin}: not valid YAML: {' '.join(str(error).split())[:200]}") from None
    return builder.document[0] if builder.document else None


class _Builder:
    """Values from parser events, without recursion and without the tags, dates and merges of YAML."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.document: list[Any] = []
        self._scalars = yaml.SafeLoader("")
        self._open: list[_Container] = [_Container(self.document, None)]
        self._anchored: dict[str, tuple[Any, int]] = {}

    def take(self, event: Any) -> None:
        if isinstance(event, events.AliasEvent):
            name = str(event.anchor)
            if name not in self._anchored:
                raise self._error(event, f"found alias *{name[:40]}, expected one of a value before it")
            self._add(*self._anchored[name], event)
        elif isinstance(event, events.ScalarEvent):
            value = self._scalar(event)
            self._anchor(event.anchor, value, 1)
            self._add(value, 1, event)
        elif isinstance(event, events.CollectionStartEvent):
            self._check_tag(event)
            if len(self._open) > _DEEPEST:
                raise self._error(event, f"found values nested more than {_DEEPEST} deep")
            if self._open[-1].wants_key:
                raise self._error(event, "found a list or mapping instead of a key, expected a name")
            values: Any = [] if isinstance(event, events.SequenceStartEvent) else {}
            self._open.append(_Container(values, event.anchor))
        elif isinstance(event, events.CollectionEndEvent):
            done = self._open.pop()
            self._anchor(done.anchor, done.values, done.size)
            self._add(done.values, done.size, event)
        elif isinstance(event, events.DocumentStartEvent) and self.document:
            raise self._error(event, "found a second document, expected one document")

    def _add(self, value: Any, size: int, event: Any) -> None:
        """Put a finished value where it belongs; `size` counts the values in it."""
        container = self._open[-1]
        container.size += size
        if container.size > _MOST_VALUES:
            raise self._error(event, f"found more than {_MOST_VALUES} values, counting those that aliases repeat")
        if isinstance(container.values, list):
            container.values.append(value)
        elif container.wants_key:
            if not isinstance(value, str):
                raise self._error(event, "found an alias instead of a key, expected a name")
            if value in container.values:
                raise self._error(event, f"found {value[:40]!r} twice, expected it once")
            container.key = value
        else:
            container.values[container.key] = value
            container.key = None

    def _scalar(self, event: events.ScalarEvent) -> Any:
        """Text, a number, a truth value or nothing; keys and dates stay text."""
        self._check_tag(event)
        if self._open[-1].wants_key:
            return event.value
        tag = self._scalars.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag not in _PLAIN:
            return event.value
        if tag in _NUMBERS and len(event.value) > _LONGEST_NUMBER:
            raise self._error(
                event, f"found a number of {len(event.value)} characters, expected at most {_LONGEST_NUMBER}"
            )
        try:
            return self._scalars.yaml_constructors[tag](self._scalars, yaml.ScalarNode(tag, event.value))
        except (ValueError, OverflowError):
            raise self._error(event, f"found {event.value!r}, expected a number") from None

    def _anchor(self, name: str | None, value: Any, size: int) -> None:
        if name is not None:
            self._anchored[name] = (value, size)

    def _check_tag(self, event: Any) -> None:
        if event.tag is not None:
            raise self._error(event, f"found the tag {event.tag[:60]}, expected plain values")

    def _error(self, event: Any, problem: str) -> ConfigError:
        return ConfigError(f"{self.origin}: not valid YAML: line {event.start_mark.line + 1}: {problem}")


class _Container:
    """A list or mapping whose end has not been read yet."""

    def __init__(self, values: Any, anchor: str | None) -> None:
        self.values = values
        self.anchor = anchor
        self.key: str | None = None
        self.size = 1

    @property
    def wants_key(self) -> bool:
        return isinstance(self.values, dict) and self.key is None
