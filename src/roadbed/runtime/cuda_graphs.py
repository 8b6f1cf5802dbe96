# SPDX-License-Identifier: Apache-2.0
"""What is queued on a CUDA stream: launches captured as graphs, with branches, and events among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from roadbed.runtime.graphs import Concurrent, PhaseOrder, assign_queues

DELAY = r"""
extern "C" __global__ void delay(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
"""


class Step(NamedTuple):
    """One launch."""

    phase: str
    kernel: Any
    groups: tuple[int, int]
    size: tuple[int]
    arguments: tuple[Any, ...]
    cooperative: bool

    def launch(self) -> None:
        """On the current stream."""
        self.kernel(self.groups, self.size, self.arguments, enable_cooperative_groups=self.cooperative)


class Run(NamedTuple):
    """Launches in line, or by phases `after` each other."""

    steps: Sequence[Step]
    after: PhaseOrder | None


class Fork(NamedTuple):
    """What `Concurrent` is of the runs of graphs."""

    first: Sequence[Run | Fork]
    second: Sequence[Run | Fork]


def runs_of(graphs: Sequence[Any]) -> list[Run | Fork]:
    runs: list[Run | Fork] = []
    for one in graphs:
        runs += [Fork(runs_of(one.first), runs_of(one.second))] if isinstance(one, Concurrent) else one.runs
    return runs


def _steps_of(runs: Sequence[Run | Fork]) -> Iterator[Step]:
    for run in runs:
        yield from run.steps if isinstance(run, Run) else _steps_of([*run.first, *run.second])


class CudaEvent:
    """A place in the backend's stream."""

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
    """Launches captured once as a graph; a frame is then one call to the driver."""

    def __init__(self, owner: Any, runs: Sequence[Run | Fork]) -> None:
        """`runs` come one after the other."""
        self._owner, self.runs = owner, runs
        self._steps = list(_steps_of(runs))
        with owner._handle, owner.stream:
            owner.stream.begin_capture()
            self._capture(runs, owner.stream, owner.side_streams())
            self._graph = owner.stream.end_capture()

    def _capture(self, runs: Sequence[Run | Fork], stream: Any, sides: Iterator[Any]) -> None:
        """Events make branches of the graph of what is launched on the sides; they join in `stream`."""
        for run in runs:
            if isinstance(run, Fork):
                side = next(sides)
                side.wait_event(stream.record())
                self._capture(run.first, stream, sides)
                self._capture(run.second, side, sides)
                stream.wait_event(side.record())
            elif run.after is not None:
                self._capture_phases(run.steps, run.after, stream, sides)
            else:
                with stream:
                    for step in run.steps:
                        step.launch()

    @staticmethod
    def _capture_phases(steps: Sequence[Step], after: PhaseOrder, main: Any, sides: Iterator[Any]) -> None:
        """Each phase on its own stream."""
        queues = assign_queues(after)
        streams = [main, *islice(sides, max(queues.values()))]
        begin = main.record()
        done: dict[str, Any] = {}
        for step in steps:
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
        """Events around each launch; a delay first, so that the device never waits for the host."""
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
