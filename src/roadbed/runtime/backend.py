# SPDX-License-Identifier: Apache-2.0
"""The interface of an accelerator: programs from kernel files, buffers, transfers and command graphs.

Algorithms use `Backend` only; `opencl.py` and `cuda.py` implement it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.runtime.device import Device
from roadbed.runtime.graphs import CommandGraph, Concurrent, Launch, PhaseOrder
from roadbed.runtime.program import Program

Shape = int | tuple[int, ...]


@dataclass
class Traffic:
    """Counters of the work that the host has queued on a device."""

    graphs: int = 0
    launches: int = 0  # in these graphs
    uploads: int = 0
    downloads: int = 0
    waits: int = 0  # for everything queued
    event_waits: int = 0  # for a part of it
    phases: dict[str, float] | None = None  # s on the device so far; None: not measured, which makes graphs slower


@dataclass(frozen=True, eq=False)
class Output:
    """A result that kernels write: `buffer` on the device, `host` its array on the host, one row per slot."""

    buffer: Any
    host: Any  # a NumPy array, or with `output_on_device` the caller's array on the device
    addresses: tuple[int, ...]  # per slot: where kernels write in place, or 0: into `buffer`


class Event(Protocol):
    """A marker in the queue."""

    def record(self) -> None:
        """Place the marker behind everything queued so far."""

    def wait(self) -> None:
        """Wait for everything before the marker."""


class Backend(Protocol):
    """One opened device with its in-order queue."""

    device: Device
    traffic: Traffic
    error_types: tuple[type[Exception], ...]  # exceptions of its driver when the device is lost or full
    branches_are_free: bool  # a graph with branches costs the host no more than one without
    _definitions: Mapping[str, int]  # of every program on this device
    _built: dict[str, Any]  # programs by their text

    def build(self, program: Program) -> Any:
        """Compile for this device, once."""
        text = program.source(self._definitions)
        if text not in self._built:
            self._built[text] = self._compile(program, text)
        return self._built[text]

    def _compile(self, program: Program, text: str) -> Any:
        """The program of this text."""

    def resident_groups(self, program: Any, kernel: str, size: int) -> int:
        """How many groups of a kernel are guaranteed to run at the same time, for cooperative launches; 0: one."""

    def zeros(self, shape: Shape, dtype: DTypeLike) -> Any:
        """A cleared device buffer."""

    def sub_buffer(self, buffer: Any, start: int, count: int, dtype: DTypeLike) -> Any:
        """`count` elements of a buffer of bytes, from byte `start` on (a multiple of 4096), as a buffer."""

    def upload(self, array: NDArray, buffer: Any = None, start: int = 0) -> Any:
        """Copy an array to the device: into `buffer` from element `start` on, or into a new one."""

    def host_array(self, shape: Shape, dtype: DTypeLike) -> NDArray:
        """A host array that transfers fastest, not cleared: pinned and visible to kernels on CUDA."""

    def staging_buffer(self, size: int) -> Any:
        """Device memory for an argument struct of `size` bytes."""

    def enqueue(self, array: NDArray, staging_buffer: Any) -> None:
        """Queue the copy of an argument struct into a staging buffer; `array` may be reused immediately."""

    def input_buffer(self, shape: Shape, dtype: DTypeLike, device_resident: bool = False) -> Any:
        """Device memory for arrays given to `bind`.

        `device_resident`: pinned host arrays are copied too, because kernels read them many times.
        """

    def bind(self, array: Any, input_buffer: Any, start: int = 0) -> int:
        """Make `array` readable by kernels: its address on the device, or 0 after a copy into `input_buffer`."""

    def queue_download(self, buffer: Any, start: int, count: int) -> NDArray:
        """Queue the copy of `count` elements of a device buffer; the returned array holds them after `finish`.

        Work queued later does not wait for the copy and must not write these elements.
        """

    def download(self, buffer: Any, start: int, count: int) -> NDArray:
        """Wait for everything queued, then copy `count` elements of a device buffer to the host."""
        array = self.queue_download(buffer, start, count)
        self.finish()
        return array

    def output(self, shape: tuple[int, ...], dtype: DTypeLike, device_resident: bool = False) -> Output:
        """Memory for a result, one row per slot.

        `device_resident`: kernels write it on the device, where later kernels read it, and `fetch` copies it.
        """

    def reallocated(self, outputs: Sequence[Output]) -> list[Output]:
        """The same outputs with new host arrays, in one allocation: the old ones belong to the caller."""

    def output_on_device(self, shape: tuple[int, ...], dtype: DTypeLike) -> Output:
        """Memory for a result that the caller uses on the device: `host` is an array there."""

    def fetch(self, output: Output, slot: int, count: int) -> None:
        """Queue the copy of the first `count` elements of a slot into `output.host`."""

    def graph(self, program: Any, launches: Sequence[Launch], after: PhaseOrder | None = None) -> CommandGraph:
        """Record launches: in sequence, or with `after` each phase on its own queue after the phases it names."""

    def combined(self, graphs: Sequence[CommandGraph | Concurrent]) -> CommandGraph:
        """Several graphs of this backend as one, in sequence, or concurrently where that is faster."""

    def event(self) -> Event:
        """A marker that can be recorded many times."""

    def finish(self) -> None:
        """Wait for everything queued."""


def byte_count(shape: Shape, dtype: DTypeLike) -> int:
    return (math.prod(shape) if isinstance(shape, tuple) else int(shape)) * np.dtype(dtype).itemsize
