# SPDX-License-Identifier: Apache-2.0
"""What an accelerator offers: devices, programs from kernel files, buffers, and recorded sequences of launches.

Algorithms are written against `Backend` only; `opencl.py` and `cuda.py` are its two implementations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.core.errors import DeviceError
from roadbed.runtime.program import Program

GPU_LANES = 8  # work-items that share a small task on a GPU; on a CPU device one does it alone


class SortLayout(NamedTuple):
    """How the stable sort by cell is laid on a device."""

    bits: int  # of the cell number per pass
    items: int  # work-items per group
    tile: int  # items per group

    def definitions(self) -> dict[str, int]:
        return {f"SORT_{name.upper()}": value for name, value in self._asdict().items()}


SORT_BY_STRIPS = SortLayout(bits=8, items=64, tile=64 * 32)
SORT_BY_WARPS = SortLayout(bits=9, items=256, tile=256 * 4)


@dataclass(frozen=True)
class Device:
    """One accelerator as `roadbed info` lists it."""

    backend: str  # "opencl" or "cuda"
    index: int  # among the devices of its backend
    name: str
    kind: str  # "gpu", "cpu" or "other"
    memory: int  # bytes
    units: int  # multiprocessors or cores
    driver: str
    has_double: bool
    largest_group: int = 256  # work-items of a work-group at most

    @property
    def lanes(self) -> int:
        return 1 if self.kind == "cpu" else GPU_LANES

    @property
    def sorting(self) -> SortLayout:
        return SORT_BY_WARPS if self.backend == "cuda" else SORT_BY_STRIPS


@dataclass
class Traffic:
    """What the host has asked of a device so far."""

    graphs: int = 0
    launches: int = 0  # in these graphs
    uploads: int = 0
    downloads: int = 0
    waits: int = 0  # for everything queued
    event_waits: int = 0  # for a part of it
    phases: dict[str, float] | None = None  # s on the device so far; None: not measured, which makes graphs slower


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
    together: bool = False  # its groups wait for each other: at most `groups_at_once` of them


@dataclass(frozen=True, eq=False)
class Output:
    """What kernels write for the caller: `buffer` on the device's side, `host` on ours, one row per slot."""

    buffer: Any
    host: Any  # a NumPy array, or with `output_on_device` the caller's array on the device
    addresses: tuple[int, ...]  # per slot: where kernels write in place, or 0: into `buffer`


_PACKED = {"i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f4": "f", "f8": "d"}  # NumPy's numbers in the module `struct`


class ArgumentStruct:
    """An array of records to be posted, each written whole, or by its members: five times as fast as NumPy's."""

    def __init__(self, dtype: np.dtype, count: int) -> None:
        self.array = np.zeros(count, dtype)
        as_record: Any = np.ctypeslib.as_ctypes_type
        record = as_record(dtype)
        self.records: list[Any] = [record.from_buffer(self.array, k * dtype.itemsize) for k in range(count)]
        self._layout, self._bytes = Struct("=" + _layout(dtype)), self.array.view(np.uint8).data

    def write(self, k: int, *values: float) -> None:
        """All numbers of a record in order, those of arrays and of records within it one by one."""
        self._layout.pack_into(self._bytes, k * self._layout.size, *values)


def _layout(dtype: np.dtype) -> str:
    """How the module `struct` writes it, with what lies between its members."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return _layout(base) * elements(shape)
    if dtype.fields is None:
        return _PACKED[dtype.str[1:]]
    layout, end = "", 0
    for name in dtype.names or ():
        member, start = dtype.fields[name][:2]
        layout, end = f"{layout}{start - end}x{_layout(member)}", start + member.itemsize
    return f"{layout}{dtype.itemsize - end}x"


# Which phases each phase waits for; phases that do not wait for each other may run at the same time.
Order = Mapping[str, tuple[str, ...]]


class CommandGraph(Protocol):
    """A recorded sequence of launches. `run` queues it, `timed` runs it once and gives seconds per phase."""

    def run(self) -> None: ...

    def timed(self) -> dict[str, float]: ...


class Concurrent(NamedTuple):
    """Two sequences of graphs that need nothing of each other: they may run at the same time."""

    first: tuple[CommandGraph | Concurrent, ...]
    second: tuple[CommandGraph | Concurrent, ...]


def flattened(*graphs: CommandGraph | Concurrent) -> Iterator[CommandGraph]:
    """One after the other, also those that need not be."""
    for one in graphs:
        if isinstance(one, Concurrent):
            yield from flattened(*one.first, *one.second)
        else:
            yield one


class Event(Protocol):
    """A place in the queue: `record` puts it behind what is queued so far, `wait` waits for all before it."""

    def record(self) -> None: ...

    def wait(self) -> None: ...


class Backend(Protocol):
    """One opened device with its in-order queue."""

    device: Device
    traffic: Traffic
    failures: tuple[type[Exception], ...]  # what its runtime raises when the device is lost or full
    branches_are_free: bool  # a graph with branches costs the host no more than one without

    def build(self, program: Program) -> Any:
        """Compile for this device."""
        ...

    def groups_at_once(self, program: Any, kernel: str, size: int) -> int:
        """How many groups of a kernel surely run at the same time, so that they may wait for each other; 0: one."""
        ...

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Any:
        """A device buffer, kept until dropped."""
        ...

    def part(self, buffer: Any, start: int, count: int, dtype: DTypeLike) -> Any:
        """So many elements from byte `start` of a buffer of bytes on, a multiple of 4096, as a buffer of their own."""
        ...

    def upload(self, array: NDArray, buffer: Any = None, start: int = 0) -> Any:
        """Copy an array to the device: into `buffer` from element `start` on, or into a new one."""
        ...

    def host(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray:
        """A host array that transfers fastest, not cleared: pinned and visible to kernels on CUDA."""
        ...

    def staging_buffer(self, size: int) -> Any:
        """A few bytes that describe a frame, read by kernels where they lie."""
        ...

    def enqueue(self, array: NDArray, staging_buffer: Any) -> None:
        """Put bytes into a staging_buffer; work queued before may still read the old ones until `finish`."""
        ...

    def input_buffer(self, shape: int | tuple[int, ...], dtype: DTypeLike, stays: bool = False) -> Any:
        """Memory for what the caller gives with `offer`; where it `stays` on the device, kernels read it often."""
        ...

    def bind(self, array: Any, input_buffer: Any, start: int = 0) -> int:
        """Let kernels read `array`: its address on the device, or 0 after a copy into `input_buffer`."""
        ...

    def queue_download(self, buffer: Any, start: int, count: int) -> NDArray:
        """Queue the copy of `count` elements of a device buffer: the array given back holds them after `finish`.

        What is queued after it need not wait for it, and leaves the buffer alone until then.
        """
        ...

    def download(self, buffer: Any, start: int, count: int) -> NDArray:
        """Wait for everything queued, then copy `count` elements of a device buffer to the host."""
        ...

    def output(self, shape: tuple[int, ...], dtype: DTypeLike, stays: bool = False) -> Output:
        """Memory to which kernels write what the caller asks for, one row per slot.

        What `stays` they write on the device, where those that follow read it: `fetch` copies it to the host.
        """
        ...

    def renewed(self, outputs: Sequence[Output]) -> list[Output]:
        """The same with new memory on the host's side, one piece for all: what was there is the caller's."""
        ...

    def output_on_device(self, shape: tuple[int, ...], dtype: DTypeLike) -> Output:
        """The same for a caller who goes on working on the device: `host` is an array there."""
        ...

    def fetch(self, output: Output, slot: int, count: int) -> None:
        """Queue what brings the first `count` elements of a slot into `output.host`."""
        ...

    def graph(self, program: Any, launches: Sequence[Launch], after: Order | None = None) -> CommandGraph:
        """Record launches: one after the other, or by phases, each on a queue of its own `after` those it names."""
        ...

    def joined(self, graphs: Sequence[CommandGraph | Concurrent]) -> CommandGraph:
        """CommandGraphs of this backend one after the other, or beside each other where that gains, as one."""
        ...

    def event(self) -> Event:
        """A place in the queue, to be recorded as often as one likes."""
        ...

    def finish(self) -> None:
        """Wait for everything queued."""
        ...


class GraphCache:
    """Runs graphs that follow each other with one call of the runtime; each sequence is joined at its first use."""

    _MOST = 16  # sequences that are kept

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kept: dict[tuple[CommandGraph | Concurrent, ...], CommandGraph] = {}

    def forget(self) -> None:
        """CommandGraphs were recorded anew: what the old ones hold is no longer needed."""
        self._kept.clear()

    def run(self, *graphs: CommandGraph | Concurrent) -> None:
        graph, phases = self._kept.get(graphs) or self._join(graphs), self._backend.traffic.phases
        if phases is None:
            graph.run()
            return
        for phase, seconds in graph.timed().items():
            phases[phase] = phases.get(phase, 0.0) + seconds

    def _join(self, graphs: tuple[CommandGraph | Concurrent, ...]) -> CommandGraph:
        if len(self._kept) >= self._MOST:
            self._kept.clear()
        alone = graphs[0] if len(graphs) == 1 else None
        joined = self._backend.joined(graphs) if alone is None or isinstance(alone, Concurrent) else alone
        self._kept[graphs] = joined
        return joined


def queues_of(order: Order) -> dict[str, int]:
    """A queue for each phase, listed in the order they are launched: the one of a phase it waits for, or a new one."""
    ends: list[str] = []  # the last phase of each queue
    queues = {}
    for phase, before in order.items():
        free = [number for number, last in enumerate(ends) if last in before]
        queues[phase] = free[0] if free else len(ends)
        ends[queues[phase] : queues[phase] + 1] = [phase]
    return queues


def elements(shape: int | tuple[int, ...]) -> int:
    return math.prod(shape) if isinstance(shape, tuple) else int(shape)


def out_of_memory(device: Device, wanted: int) -> DeviceError:
    return DeviceError(
        f"{device.name}: {wanted / 2**20:.0f} MiB do not fit beside what is in use of its "
        f"{device.memory / 2**20:.0f} MiB; use fewer points, a smaller lattice or another device"
    )


def check_points(device: Device, points: int, size: int) -> None:
    """A clear error before anything is allocated for more points than the device can hold."""
    if size > device.memory or points >= 2**27:
        raise DeviceError(
            f"{device.name}: {points} points need {size / 2**20:.0f} MiB, "
            f"more than fit in its {device.memory / 2**20:.0f} MiB"
        )


class translate_error:
    """`with translate_error(backend):` turns a runtime's error of a failing device into one line.

    A class, since a generator costs several times as much.
    """

    __slots__ = ("_backend",)

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, self._backend.failures):
            said, name = " ".join(str(error).split()), self._backend.device.name
            raise DeviceError(f"{name}: {said}; if it is lost, go on with another backend: 'cpu'") from None


def build_failed(device: Device, program: Program, log: str) -> DeviceError:
    return DeviceError(f"{device.name}: building {', '.join(program.files)} failed:\n{log.strip()}")
