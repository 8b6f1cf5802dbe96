# SPDX-License-Identifier: Apache-2.0
"""Command graphs: recorded sequences of kernel launches, and which of them may run at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

# Which phases each phase waits for; phases that do not wait for each other may run at the same time.
PhaseOrder = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Launch:
    """One kernel over `groups` work-groups (times `slots` independent scans) of `size` work-items."""

    kernel: str
    groups: int
    size: int
    arguments: tuple[Any, ...]  # buffers and numpy scalars
    slots: int = 1
    phase: str = ""  # name under which its time is reported; the kernel's when empty
    program: Any = None  # another program than the graph's
    cooperative: bool = False  # its groups wait for each other: at most `Backend.resident_groups` of them


class CommandGraph(Protocol):
    """A recorded sequence of launches."""

    def run(self) -> None:
        """Queue the launches."""

    def timed(self) -> dict[str, float]:
        """Run the launches once and return seconds per phase."""


class Concurrent(NamedTuple):
    """Two sequences of graphs that are independent of each other: they may run at the same time."""

    first: tuple[CommandGraph | Concurrent, ...]
    second: tuple[CommandGraph | Concurrent, ...]


def flattened(*graphs: CommandGraph | Concurrent) -> Iterator[CommandGraph]:
    """All graphs in a sequential order."""
    for one in graphs:
        if isinstance(one, Concurrent):
            yield from flattened(*one.first, *one.second)
        else:
            yield one


def assign_queues(order: PhaseOrder) -> dict[str, int]:
    """A queue number for each phase, in launch order: the queue of a phase it waits for, or a new one."""
    ends: list[str] = []  # the last phase of each queue
    queues = {}
    for phase, before in order.items():
        free = [number for number, last in enumerate(ends) if last in before]
        queues[phase] = free[0] if free else len(ends)
        ends[queues[phase] : queues[phase] + 1] = [phase]
    return queues
