# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: launches captured from a stream, with branches, and events in the stream."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from roadbed.runtime.graphs import Concurrent, PhaseOrder, assign_queues, flattened

DELAY = r"""
extern "C" __global__ void delay(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
"""


class Step(NamedTuple):
    phase: str
    kernel: Any
    groups: tuple[int, int]
    size: tuple[int]
    arguments: tuple[Any, ...]
    cooperative: bool

    def launch(self) -> None:
        """On the current stream."""
        self.kernel(self.groups, self.size, self.arguments, enable_cooperative_groups=self.cooperative)


class CudaEvent:
    """A marker in the backend's stream."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        with owner._handle:
            self._event = owner._cupy.cuda.Event(disable_timing=True)

    def record(self) -> None:
        self._event.record(self._owner.stream)

    def wait(self) -> None:
        self._owner.traffic.event_waits += 1
        self._event.synchronize()


class CudaGraph:
    """Launches captured once as a graph; running it is one call of the driver."""

    def __init__(
        self, owner: Any, steps: Sequence[Step] = (), after: PhaseOrder | None = None, parts: Sequence[Any] = ()
    ) -> None:
        """The launches of `steps`, in sequence or by phases; or of other graphs, with `Concurrent` ones as branches."""
        leaves: Any = flattened(*parts)
        self._owner, self._after, self._parts = owner, after, parts
        self._steps = [*steps, *(step for leaf in leaves for step in leaf._steps)]
        with owner._handle, owner.stream:
            owner.stream.begin_capture()
            self._capture(owner.stream, owner.side_streams())
            self._graph = owner.stream.end_capture()

    def _capture(self, stream: Any, sides: Iterator[Any]) -> None:
        if self._parts:
            self._capture_parts(self._parts, stream, sides)
        elif self._after is not None:
            self._capture_phases(self._after, stream, sides)
        else:
            with stream:
                for step in self._steps:
                    step.launch()

    def _capture_parts(self, parts: Sequence[Any], stream: Any, sides: Iterator[Any]) -> None:
        """Launches on a side stream, between two events, become a branch of the graph."""
        for part in parts:
            if isinstance(part, Concurrent):
                side = next(sides)
                side.wait_event(stream.record())
                self._capture_parts(part.first, stream, sides)
                self._capture_parts(part.second, side, sides)
                stream.wait_event(side.record())
            else:
                part._capture(stream, sides)

    def _capture_phases(self, after: PhaseOrder, main: Any, sides: Iterator[Any]) -> None:
        """Each phase on a stream of its own, ordered by events."""
        queues = assign_queues(after)
        streams = [main, *islice(sides, max(queues.values()))]
        begin = main.record()
        done: dict[str, Any] = {}
        for step in self._steps:
            stream = streams[queues[step.phase]]
            if step.phase not in done:
                for event in (begin, *(done[before] for before in after[step.phase])):
                    stream.wait_event(event)
            with stream:
                step.launch()
            done[step.phase] = stream.record()
        for event in done.values():
            main.wait_event(event)

    def run(self) -> None:
        self._owner.traffic.graphs += 1
        self._owner.traffic.launches += len(self._steps)
        self._owner._working = True
        self._graph.launch(self._owner.stream)

    def timed(self) -> dict[str, float]:
        """Events around each launch, behind a delay: the device must not wait for the host between them."""
        cupy, stream = self._owner._cupy, self._owner.stream
        delay = cupy.RawKernel(DELAY, "delay")
        with self._owner._handle, stream:
            delay((1,), (1,), (np.int64(2_000_000),))
            marks = [cupy.cuda.Event()]
            marks[0].record(stream)
            for step in self._steps:
                step.launch()
                marks.append(cupy.cuda.Event())
                marks[-1].record(stream)
            stream.synchronize()
        seconds: dict[str, float] = {}
        for step, before, after in zip(self._steps, marks, marks[1:]):
            elapsed = cupy.cuda.get_elapsed_time(before, after) * 1e-3
            seconds[step.phase] = seconds.get(step.phase, 0.0) + elapsed
        return seconds
