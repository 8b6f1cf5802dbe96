# SPDX-License-Identifier: Apache-2.0
"""Untrusted YAML text: mappings, lists and plain values, bounded in size, depth and number, without tags."""

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
    try:
        return _Reader(text, origin).document()
    except (yaml.YAMLError, UnicodeError) as error:
        problem = " ".join(str(error).split()).replace('"<unicode string>", ', "")
        raise ConfigError(f"{origin}: not valid YAML: {problem[:200]}") from None


class _Reader:
    """Values from parser events, without the tags, dates and merges of YAML; the recursion is `_DEEPEST` calls deep."""

    def __init__(self, text: str, origin: str) -> None:
        self._events, self._origin = yaml.parse(text, Loader=_PARSER), origin
        self._scalars = yaml.SafeLoader("")
        self._anchored: dict[str, tuple[Any, int]] = {}

    def document(self) -> Any:
        """The value of the only document; None without one."""
        found: list[Any] = []
        for event in self._events:
            if isinstance(event, events.DocumentStartEvent) and found:
                raise self._error(event, "found a second document, expected one document")
            if isinstance(event, events.NodeEvent):
                found.append(self._value(event)[0])
        return found[0] if found else None

    def _value(self, event: Any, depth: int = 1, is_key: bool = False) -> tuple[Any, int]:
        """The value that begins with an event, and how many values it holds, counting those that aliases repeat."""
        if isinstance(event, events.AliasEvent):
            name = str(event.anchor)
            if name not in self._anchored:
                raise self._error(event, f"found alias *{name[:40]}, expected one of a value before it")
            return self._anchored[name]
        if event.tag is not None:
            raise self._error(event, f"found the tag {event.tag[:60]}, expected plain values")
        if isinstance(event, events.ScalarEvent):
            found = event.value if is_key else self._scalar(event), 1
        elif depth > _DEEPEST:
            raise self._error(event, f"found values nested more than {_DEEPEST} deep")
        elif is_key:
            raise self._error(event, "found a list or mapping instead of a key, expected a name")
        else:
            read = self._list if isinstance(event, events.SequenceStartEvent) else self._mapping
            found = read(depth + 1)
        if event.anchor is not None:
            self._anchored[event.anchor] = found
        return found

    def _list(self, depth: int) -> tuple[list[Any], int]:
        values, size = [], 1
        while not isinstance(event := next(self._events), events.SequenceEndEvent):
            value, inner = self._value(event, depth)
            values.append(value)
            size = self._checked(size + inner, event)
        return values, size

    def _mapping(self, depth: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        size = 1
        while not isinstance(event := next(self._events), events.MappingEndEvent):
            key, _ = self._value(event, depth, is_key=True)
            if not isinstance(key, str):
                raise self._error(event, "found an alias instead of a key, expected a name")
            if key in values:
                raise self._error(event, f"found {key[:40]!r} twice, expected it once")
            values[key], inner = self._value(next(self._events), depth)
            size = self._checked(size + 1 + inner, event)
        return values, size

    def _checked(self, size: int, event: Any) -> int:
        if size > _MOST_VALUES:
            raise self._error(event, f"found more than {_MOST_VALUES} values, counting those that aliases repeat")
        return size

    def _scalar(self, event: events.ScalarEvent) -> Any:
        """Text, a number, a truth value or nothing; dates stay text."""
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

    def _error(self, event: Any, problem: str) -> ConfigError:
        return ConfigError(f"{self._origin}: not valid YAML: line {event.start_mark.line + 1}: {problem}")
