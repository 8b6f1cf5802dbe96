# SPDX-License-Identifier: Apache-2.0
"""Long sequences in segments: where they are cut, and how an object keeps its id across a cut."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import dist
from typing import Any

_SAME_OBJECT_M = 1.5  # between the positions of one object in one frame by two segments


@dataclass(frozen=True)
class Segment:
    """Frames `start` to `stop` of a sequence, prepared by those from `first` on."""

    number: int
    first: int
    start: int
    stop: int

    @property
    def warm_up(self) -> int:
        return self.start - self.first


def cut(frames: int, length: int | None, warm_up: int) -> list[Segment]:
    """Segments of `length` frames; a rest of less than half a segment belongs to the last one."""
    if length is None or frames < 1.5 * length:
        return [Segment(0, 0, 0, frames)]
    count = int(frames / length + 0.5)
    starts = [number * length for number in range(count)]
    stops = [*starts[1:], frames]
    return [Segment(k, max(start - warm_up, 0), start, stop) for k, (start, stop) in enumerate(zip(starts, stops))]


class Ids:
    """One id per object through all segments of a sequence, whose own ids start anew."""

    def __init__(self) -> None:
        self._next = 0
        self._there: list[tuple[int, Sequence[float]]] = []  # in the last frame so far

    def of_segment(self, objects: Iterable[str], last_frame: str, seen: Sequence[Mapping[str, Any]]) -> dict[int, int]:
        """New ids by a segment's own; `seen` are its objects in the last frame before its start."""
        records = [json.loads(line) for line in objects]
        same: dict[int, int] = {}
        pairs = sorted(
            (dist(item["position"][:2], position[:2]), item["id"], id) for item in seen for id, position in self._there
        )
        for apart, own, id in pairs:
            if apart <= _SAME_OBJECT_M and own not in same and id not in same.values():
                same[own] = id
        for own in sorted({record["id"] for record in records}):
            same.setdefault(own, max(own, self._next))  # the first segment keeps its own
            self._next = max(self._next, same[own] + 1)
        self._there = [(same[record["id"]], record["position"]) for record in records if record["frame"] == last_frame]
        return same
