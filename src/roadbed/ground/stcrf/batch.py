# SPDX-License-Identifier: Apache-2.0
"""Independent scans, several at a time on one device; transfers overlap with kernels."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from roadbed.config import Config
from roadbed.ground.engine import FrameInput, FrameOutput
from roadbed.ground.stcrf.device import StcrfDevice
from roadbed.runtime.backend import Backend
from roadbed.runtime.device_selection import open_device

_ENGINES = 3  # one uploads scans while another computes and a third downloads results
_SLOTS = 4  # scans per engine
T = TypeVar("T")


class BatchStcrf:
    """`run` takes tagged frames and yields tagged results in order; no prior is used or kept."""

    def __init__(self, backend: Backend, config: Config, fields: Collection[str] | None = None) -> None:
        opened = (open_device(backend.device) for _ in range(_ENGINES))
        self._engines = [StcrfDevice(one, config, _SLOTS, fields=fields) for one in opened]

    def run(self, frames: Iterable[tuple[T, FrameInput]]) -> Iterator[tuple[T, FrameOutput]]:
        free, busy = deque(self._engines), deque[tuple[StcrfDevice, list[T]]]()
        for group in _groups(frames):
            if not free:
                yield from self._collect(free, busy)
            engine = free.popleft()
            engine.queue([given for _, given in group])
            busy.append((engine, [tag for tag, _ in group]))
        while busy:
            yield from self._collect(free, busy)

    @staticmethod
    def _collect(free: deque[StcrfDevice], busy: deque[tuple[StcrfDevice, list[T]]]) -> Iterator[tuple[T, FrameOutput]]:
        engine, tags = busy.popleft()
        yield from zip(tags, engine.collect(len(tags)))
        free.append(engine)


def _groups(items: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(items)
    while group := list(islice(remaining, _SLOTS)):
        yield group
