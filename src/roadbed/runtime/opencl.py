# SPDX-License-Identifier: Apache-2.0
"""The OpenCL runtime, through PyOpenCL: GPUs, many-core boards, and CPUs by PoCL."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.core.errors import DeviceError
from roadbed.runtime import program_cache
from roadbed.runtime.backend import Output, Shape, Traffic, byte_count
from roadbed.runtime.device import Device
from roadbed.runtime.device_errors import build_failed, out_of_memory
from roadbed.runtime.graphs import Launch, PhaseOrder, assign_queues, flattened
from roadbed.runtime.program import Program

# Relaxed mathematics lets a CPU's compiler vectorise sums; programs that need exact rounding say so.
_RELAXED = ("-cl-fast-relaxed-math", "-cl-denorms-are-zero")
_EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"


@dataclass(frozen=True)
class Buffer:
    """Device memory with the shape and type it was made for."""

    data: Any  # pyopencl.Buffer
    shape: tuple[int, ...]
    dtype: np.dtype


@cache
def _found() -> tuple[tuple[Any, ...], str]:
    """The usable PyOpenCL devices, and why there are none."""
    try:
        import pyopencl as cl
    except ImportError:
        return (), "OpenCL: the package pyopencl is not installed (pip install 'roadbed[opencl]')"
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return (), "OpenCL: no driver is installed (any vendor's, or PoCL: apt install pocl-opencl-icd)"
    found = []
    for platform in platforms:
        try:
            found += [d for d in platform.get_devices() if d.available and d.compiler_available]
        except cl.Error:
            continue
    return tuple(found), "OpenCL: a driver is installed, but it offers no device with a compiler"


@cache
def devices() -> list[Device]:
    handles, _ = _found()
    if not handles:
        return []
    import pyopencl as cl

    kinds = {cl.device_type.GPU: "gpu", cl.device_type.CPU: "cpu"}
    return [
        Device(
            backend="opencl",
            index=index,
            name=handle.name.strip(),
            kind=next((kind for flag, kind in kinds.items() if handle.type & flag), "other"),
            memory=handle.global_mem_size,
            units=handle.max_compute_units,
            driver=f"{handle.platform.name.strip()} {handle.driver_version.strip()}",
            has_double="cl_khr_fp64" in handle.extensions or bool(handle.double_fp_config),
            largest_group=handle.max_work_group_size,
        )
        for index, handle in enumerate(handles)
    ]


def why_missing() -> str:
    return _found()[1]


class OpenclBackend:
    """One OpenCL device with an in-order queue."""

    branches_are_free = False  # every launch of a branch is queued with its events

    def __init__(self, device: Device, units: int | None = None, optimise: bool = True) -> None:
        """With `units`, on a sub-device of so many compute units. Without `optimise` programs build faster than run."""
        import pyopencl as cl

        self._cl = cl
        self._handle = _found()[0][device.index]
        self.device = device
        self.error_types: tuple[type[Exception], ...] = (cl.Error,)
        self._options = ("-w",) if optimise else ("-w", "-cl-opt-disable")
        if units is not None:
            self._handle, self.device = self._part(units), replace(device, units=units)
        try:
            self._context = cl.Context([self._handle])
            self._queue = cl.CommandQueue(self._context)
            self._timing_queue = cl.CommandQueue(self._context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        except cl.Error as error:
            raise DeviceError(f"{device.name}: cannot be opened ({error})") from None
        self._queues = [self._queue]
        self.traffic = Traffic()
        # Copies under way by their events, which hold the arrays on the host, and wait for the copy when dropped.
        self._in_flight: list[Any] = []
        self._working = False  # kernels are queued that nobody has waited for
        self._built: dict[str, Any] = {}  # programs by their text

    def _part(self, units: int) -> Any:
        by_counts = self._cl.device_partition_property.BY_COUNTS
        try:
            return self._handle.create_sub_devices([by_counts, units])[0]
        except self._cl.Error as error:
            raise DeviceError(f"{self.device.name}: has no sub-device of {units} compute units ({error})") from None

    def build(self, program: Program) -> Any:
        runtime = {"LANES": self.device.lanes, **self.device.sort_layout.definitions()}
        if self.device.has_double:
            runtime["WITH_DOUBLE"] = 1
        text = program.source(runtime)
        options = [*self._options, *(self._exact() if program.exact else _RELAXED)]
        if text not in self._built:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", self._cl.CompilerWarning)
                    built = self._cl.Program(self._context, text).build(options, cache_dir=_cache_folder())
            except self._cl.RuntimeError as error:
                raise build_failed(self.device, program, str(error)) from None
            self._built[text] = built
        return self._built[text]

    def _exact(self) -> tuple[str, ...]:
        """Quotients and roots as the CPU rounds them, where the device can."""
        rounds = self._cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        return (_EXACT,) if self._handle.single_fp_config & rounds else ()

    def resident_groups(self, program: Any, kernel: str, size: int) -> int:
        return 0  # OpenCL promises nothing of the kind

    def zeros(self, shape: Shape, dtype: DTypeLike) -> Buffer:
        dtype = np.dtype(dtype)
        size = max(byte_count(shape, dtype), 16)
        if size > self._handle.max_mem_alloc_size:
            raise out_of_memory(self.device, size)
        try:
            data = self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size)
            self._cl.enqueue_fill_buffer(self._queue, data, np.zeros(1, np.uint8), 0, size)
        except (self._cl.MemoryError, self._cl.RuntimeError):
            raise out_of_memory(self.device, size) from None
        return Buffer(data, shape if isinstance(shape, tuple) else (shape,), dtype)

    def sub_buffer(self, buffer: Buffer, start: int, count: int, dtype: DTypeLike) -> Buffer:
        dtype = np.dtype(dtype)
        return Buffer(buffer.data.get_sub_region(start, count * dtype.itemsize), (count,), dtype)

    def upload(self, array: NDArray, buffer: Buffer | None = None, start: int = 0) -> Buffer:
        buffer = buffer or self.zeros(array.shape, array.dtype)
        self.bind(array, buffer, start)
        return buffer

    def host_array(self, shape: Shape, dtype: DTypeLike) -> NDArray:
        return np.zeros(shape, dtype)

    def bind(self, array: Any, buffer: Buffer, start: int = 0) -> int:
        if not isinstance(array, np.ndarray):
            array = np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)
        array = np.ascontiguousarray(array, buffer.dtype)
        if array.size:
            offset = start * buffer.dtype.itemsize
            copied = self._cl.enqueue_copy(self._queue, buffer.data, array, dst_offset=offset, is_blocking=False)
            if self._working:  # else dropping the event takes no longer than the copy: the caller's array is his again
                self._in_flight.append(copied)
            self.traffic.uploads += 1
        return 0

    def input_buffer(self, shape: Shape, dtype: DTypeLike, device_resident: bool = False) -> Buffer:
        return self.zeros(shape, dtype)

    def staging_buffer(self, size: int) -> Buffer:
        return self.zeros(size, np.uint8)

    def enqueue(self, array: NDArray, staging_buffer: Buffer) -> None:
        self.bind(array.view(np.uint8).copy(), staging_buffer)

    def queue_download(self, buffer: Buffer, start: int, count: int) -> NDArray:
        host, offset = np.empty(count, buffer.dtype), start * buffer.dtype.itemsize
        copied = self._cl.enqueue_copy(self._queue, host, buffer.data, src_offset=offset, is_blocking=False)
        self._in_flight.append(copied)
        self.traffic.downloads += 1
        return host

    def download(self, buffer: Buffer, start: int, count: int) -> NDArray:
        host = self.queue_download(buffer, start, count)
        self.finish()
        return host

    def output(self, shape: tuple[int, ...], dtype: DTypeLike, device_resident: bool = False) -> Output:
        return Output(self.zeros(shape, dtype), np.zeros(shape, dtype), (0,) * shape[0])

    def reallocated(self, outputs: Sequence[Output]) -> list[Output]:
        return [Output(o.buffer, np.empty(o.host.shape, o.host.dtype), o.addresses) for o in outputs]

    def output_on_device(self, shape: tuple[int, ...], dtype: DTypeLike) -> Output:
        raise DeviceError("results can stay on the device with backend 'cuda' only: OpenCL has no arrays to hand out")

    def fetch(self, output: Output, slot: int, count: int) -> None:
        if count:
            host, source = output.host[slot].reshape(-1), output.buffer.data
            offset = slot * host.nbytes
            copied = self._cl.enqueue_copy(self._queue, host[:count], source, src_offset=offset, is_blocking=False)
            self._in_flight.append(copied)
            self.traffic.downloads += 1

    def graph(self, program: Any, launches: Sequence[Launch], after: PhaseOrder | None = None) -> OpenclGraph:
        return (
            OpenclGraph(self, program, launches)
            if after is None
            else ParallelOpenclGraph(self, program, launches, after)
        )

    def combined(self, graphs: Sequence[Any]) -> OpenclGraph:
        sequence: list[Any] = list(flattened(*graphs))
        return CombinedOpenclGraph(self, sequence)

    def queue(self, number: int) -> Any:
        """The backend's own queue, or another one beside it."""
        while number >= len(self._queues):
            self._queues.append(self._cl.CommandQueue(self._context))
        return self._queues[number]

    def event(self) -> OpenclEvent:
        return OpenclEvent(self)

    def finish(self) -> None:
        self.traffic.waits += 1
        try:
            self._queue.finish()
        finally:
            self._working = False
            self._in_flight.clear()


class OpenclEvent:
    """A marker in the backend's queue."""

    def __init__(self, owner: OpenclBackend) -> None:
        self._owner = owner

    def record(self) -> None:
        self._marker = self._owner._cl.enqueue_marker(self._owner._queue)
        self._owner._queue.flush()

    def wait(self) -> None:
        self._owner.traffic.event_waits += 1
        self._marker.wait()


class OpenclGraph:
    """Kernels with their arguments set once, queued one after the other."""

    def __init__(self, owner: OpenclBackend, program: Any, launches: Sequence[Launch]) -> None:
        self._owner = owner
        self._steps = []
        for launch in launches:
            kernel = owner._cl.Kernel(launch.program or program, launch.kernel)
            kernel.set_args(*(a.data if isinstance(a, Buffer) else a for a in launch.arguments))
            shape = ((launch.groups * launch.size, launch.slots), (launch.size, 1))
            self._steps.append((launch.phase or launch.kernel, kernel, *shape))

    def run(self) -> None:
        self._owner.traffic.graphs += 1
        self._owner.traffic.launches += len(self._steps)
        self._owner._working = True
        self.queue()

    def queue(self) -> None:
        enqueue, queue = self._owner._cl.enqueue_nd_range_kernel, self._owner._queue
        for _, kernel, size, group in self._steps:
            enqueue(queue, kernel, size, group)
        queue.flush()

    def timed(self) -> dict[str, float]:
        self._owner.finish()
        enqueue, queue = self._owner._cl.enqueue_nd_range_kernel, self._owner._timing_queue
        events = [(name, enqueue(queue, kernel, size, group)) for name, kernel, size, group in self._steps]
        queue.finish()
        seconds: dict[str, float] = {}
        for name, event in events:
            seconds[name] = seconds.get(name, 0.0) + (event.profile.end - event.profile.start) * 1e-9
        return seconds


class ParallelOpenclGraph(OpenclGraph):
    """The same, each phase on its own queue; events join them."""

    def __init__(self, owner: OpenclBackend, program: Any, launches: Sequence[Launch], after: PhaseOrder) -> None:
        super().__init__(owner, program, launches)
        self._after, queues = after, assign_queues(after)
        self._queues = {phase: owner.queue(number) for phase, number in queues.items()}

    def queue(self) -> None:
        cl, owner = self._owner._cl, self._owner
        begin = cl.enqueue_marker(owner._queue)
        owner._queue.flush()
        done: dict[str, Any] = {}
        for phase, kernel, size, group in self._steps:
            first = phase not in done
            wait = [begin, *(done[before] for before in self._after[phase])] if first else None
            done[phase] = cl.enqueue_nd_range_kernel(self._queues[phase], kernel, size, group, wait_for=wait)
        for queue in set(self._queues.values()):
            queue.flush()
        cl.enqueue_barrier(owner._queue, wait_for=list(done.values()))
        owner._queue.flush()


class CombinedOpenclGraph(OpenclGraph):
    """CommandGraphs one after the other: OpenCL has no call for several launches."""

    def __init__(self, owner: OpenclBackend, graphs: Sequence[OpenclGraph]) -> None:
        super().__init__(owner, None, ())
        self._graphs = graphs
        self._steps = [step for graph in graphs for step in graph._steps]

    def queue(self) -> None:
        for graph in self._graphs:
            graph.queue()


def _cache_folder() -> str | None:
    """Where built programs are kept, if it can be written."""
    folder = program_cache.folder("opencl")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder)
