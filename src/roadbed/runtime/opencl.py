# SPDX-License-Identifier: Apache-2.0
"""The OpenCL runtime, through PyOpenCL: GPUs, many-core boards, and CPUs by PoCL."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.core.errors import DeviceError
from roadbed.runtime import program_cache
from roadbed.runtime.argument_struct import single
from roadbed.runtime.backend import Backend, Output, Shape, Traffic, byte_count
from roadbed.runtime.build_probe import crash_of
from roadbed.runtime.device import Device
from roadbed.runtime.device_errors import build_failed, out_of_memory
from roadbed.runtime.graphs import Launch, PhaseOrder, assign_queues, flattened
from roadbed.runtime.opencl_devices import handles
from roadbed.runtime.program import Program

# Relaxed mathematics lets the compiler for a CPU vectorise sums; programs that need exact rounding set `exact`.
# `-cl-fast-relaxed-math` would assume that no number is NaN, which here marks what is unknown.
_RELAXED = ("-cl-unsafe-math-optimizations", "-cl-denorms-are-zero")
_EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"
_GROUP = 256  # work-items that kernels count on; where more are of use, the device is asked
_SINGLE = "-cl-single-precision-constant"  # for devices without double precision


@dataclass(frozen=True)
class Buffer:
    """Device memory with its shape and type."""

    data: Any  # pyopencl.Buffer
    shape: tuple[int, ...]
    dtype: np.dtype


class OpenclBackend(Backend):
    """One OpenCL device with an in-order queue."""

    branches_are_free = False  # every launch of a branch is queued with its events

    def __init__(self, device: Device, optimise: bool = True, probe: bool = True) -> None:
        """`optimise`: spend build time on faster kernels. `probe`: build each program in a child process first, unless
        this driver is known to build it.
        """
        import pyopencl as cl

        self._cl, self._probe = cl, probe
        self._handle, self.device = self._handle_of(device), device
        self.error_types: tuple[type[Exception], ...] = (cl.Error,)
        self._options = ("-w", *(() if optimise else ("-cl-opt-disable",)), *(() if device.has_double else (_SINGLE,)))
        if device.largest_group < _GROUP:
            raise DeviceError(f"{device.name}: expected work-groups of {_GROUP}, found at most {device.largest_group}")
        try:
            self._context = cl.Context([self._handle])
            self._queue = cl.CommandQueue(self._context)
            self._timing_queue = cl.CommandQueue(self._context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        except cl.Error as error:
            raise DeviceError(f"{device.name}: cannot be opened ({error})") from None
        self._queues = [self._queue]
        self.traffic = Traffic()
        # Events of unfinished copies: they keep the host arrays alive, and wait for the copy when dropped.
        self._in_flight: list[Any] = []
        self._working = False  # kernels are queued, and nothing has waited for them
        self._built = {}
        self._definitions = {"LANES": device.lanes, **device.sort_layout.definitions()}
        if device.has_double:
            self._definitions["WITH_DOUBLE"] = 1

    def _handle_of(self, device: Device) -> Any:
        return handles()[0][device.index]

    def _compile(self, program: Program, text: str) -> Any:
        options = [*self._options, *(self._exact() if program.exact else _RELAXED)]
        if self._probe and (crash := crash_of(self.device, program.files, text, options)):
            raise DeviceError(crash)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self._cl.CompilerWarning)
                return self._cl.Program(self._context, text).build(options, cache_dir=_cache_folder())
        except self._cl.RuntimeError as error:
            raise build_failed(self.device, program, str(error)) from None

    def _exact(self) -> tuple[str, ...]:
        """Quotients and roots rounded as on the CPU, where the device supports it."""
        supported = self._cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        return (_EXACT,) if self._handle.single_fp_config & supported else ()

    def resident_groups(self, program: Any, kernel: str, size: int) -> int:
        return 0  # OpenCL does not guarantee that groups run at the same time

    def _held(self, dtype: DTypeLike) -> np.dtype:
        """The type in device memory: kernels compute in `real`, which is float on a device without double precision."""
        return np.dtype(dtype) if self.device.has_double else single(np.dtype(dtype))

    def zeros(self, shape: Shape, dtype: DTypeLike) -> Buffer:
        dtype = self._held(dtype)
        size = max(byte_count(shape, dtype), 16)
        if size > self._handle.max_mem_alloc_size:
            raise out_of_memory(self.device, size)
        try:
            data = self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size)
            self._cl.enqueue_fill_buffer(self._queue, data, np.zeros(1, np.uint8), 0, size)
        except (self._cl.MemoryError, self._cl.RuntimeError):
            raise out_of_memory(self.device, size) from None
        return Buffer(data, shape if isinstance(shape, tuple) else (shape,), np.dtype(dtype))

    def sub_buffer(self, buffer: Buffer, start: int, count: int, dtype: DTypeLike) -> Buffer:
        return Buffer(buffer.data.get_sub_region(start, byte_count(count, dtype)), (count,), np.dtype(dtype))

    def upload(self, array: NDArray, buffer: Buffer | None = None, start: int = 0) -> Buffer:
        buffer = buffer or self.zeros(array.shape, array.dtype)
        self.bind(array, buffer, start)
        return buffer

    def host_array(self, shape: Shape, dtype: DTypeLike) -> NDArray:
        return np.zeros(shape, dtype)

    def bind(self, array: Any, input_buffer: Buffer, start: int = 0) -> int:
        if not isinstance(array, np.ndarray):
            array = np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)
        array = np.ascontiguousarray(array, input_buffer.dtype)
        if array.size:
            offset = start * input_buffer.dtype.itemsize
            copy = self._cl.enqueue_copy(self._queue, input_buffer.data, array, dst_offset=offset, is_blocking=False)
            if self._working:  # else dropping the event waits for the copy, and the caller may write the array again
                self._in_flight.append(copy)
            self.traffic.uploads += 1
        return 0

    def input_buffer(self, shape: Shape, dtype: DTypeLike, device_resident: bool = False) -> Buffer:
        return self.zeros(shape, dtype)

    def staging_buffer(self, size: int) -> Buffer:
        return self.zeros(size, np.uint8)

    def enqueue(self, array: NDArray, staging_buffer: Buffer) -> None:
        self.bind(array.astype(self._held(array.dtype)).view(np.uint8), staging_buffer)  # a copy: the caller writes on

    def queue_download(self, buffer: Buffer, start: int, count: int) -> NDArray:
        host = np.empty(count, buffer.dtype)
        self._queue_copy(host, buffer, start * host.itemsize)
        return host

    def _queue_copy(self, host: NDArray, buffer: Buffer, offset: int) -> None:
        copy = self._cl.enqueue_copy(self._queue, host, buffer.data, src_offset=offset, is_blocking=False)
        self._in_flight.append(copy)
        self.traffic.downloads += 1

    def output(self, shape: tuple[int, ...], dtype: DTypeLike, device_resident: bool = False) -> Output:
        return Output(self.zeros(shape, dtype), np.zeros(shape, dtype), (0,) * shape[0])

    def reallocated(self, outputs: Sequence[Output]) -> list[Output]:
        return [Output(o.buffer, np.empty(o.host.shape, o.host.dtype), o.addresses) for o in outputs]

    def output_on_device(self, shape: tuple[int, ...], dtype: DTypeLike) -> Output:
        raise DeviceError("results can stay on the device with backend 'cuda' only: OpenCL has no arrays to hand out")

    def fetch(self, output: Output, slot: int, count: int) -> None:
        if count:
            row = output.host[slot].reshape(-1)
            self._queue_copy(row[:count], output.buffer, slot * row.nbytes)

    def graph(self, program: Any, launches: Sequence[Launch], after: PhaseOrder | None = None) -> OpenclGraph:
        steps = []
        for launch in launches:
            kernel = self._cl.Kernel(launch.program or program, launch.kernel)
            kernel.set_args(*(a.data if isinstance(a, Buffer) else a for a in launch.arguments))
            shape = ((launch.groups * launch.size, launch.slots), (launch.size, 1))
            steps.append((launch.phase or launch.kernel, kernel, *shape))
        return OpenclGraph(self, steps, after)

    def combined(self, graphs: Sequence[Any]) -> OpenclGraph:
        return OpenclGraph(self, parts=list(flattened(*graphs)))

    def queue(self, number: int) -> Any:
        """The backend's own queue (0), or another queue of the same device."""
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
    """Kernels with their arguments set once. OpenCL has no call for several launches: each is queued separately."""

    def __init__(
        self,
        owner: OpenclBackend,
        steps: Sequence[Any] = (),
        after: PhaseOrder | None = None,
        parts: Sequence[Any] = (),
    ) -> None:
        """The launches of `steps`, in sequence or by phases; or those of other graphs."""
        self._owner, self._after, self._parts = owner, after, parts
        self._steps = [*steps, *(step for part in parts for step in part._steps)]

    def run(self) -> None:
        self._owner.traffic.graphs += 1
        self._owner.traffic.launches += len(self._steps)
        self._owner._working = True
        for graph in self._parts or (self,):
            graph._queue_steps()

    def _queue_steps(self) -> None:
        if self._after is not None:
            self._queue_by_phase(self._after)
            return
        enqueue, queue = self._owner._cl.enqueue_nd_range_kernel, self._owner._queue
        for _, kernel, size, group in self._steps:
            enqueue(queue, kernel, size, group)
        queue.flush()

    def _queue_by_phase(self, after: PhaseOrder) -> None:
        """Each phase on a queue of its own, ordered by events."""
        cl, main = self._owner._cl, self._owner._queue
        queues = {phase: self._owner.queue(number) for phase, number in assign_queues(after).items()}
        begin = cl.enqueue_marker(main)
        main.flush()
        done: dict[str, Any] = {}
        for phase, kernel, size, group in self._steps:
            wait = None if phase in done else [begin, *(done[before] for before in after[phase])]
            done[phase] = cl.enqueue_nd_range_kernel(queues[phase], kernel, size, group, wait_for=wait)
        for queue in set(queues.values()):
            queue.flush()
        cl.enqueue_barrier(main, wait_for=list(done.values()))
        main.flush()

    def timed(self) -> dict[str, float]:
        self._owner.finish()
        enqueue, queue = self._owner._cl.enqueue_nd_range_kernel, self._owner._timing_queue
        events = [(name, enqueue(queue, kernel, size, group)) for name, kernel, size, group in self._steps]
        queue.finish()
        seconds: dict[str, float] = {}
        for name, event in events:
            seconds[name] = seconds.get(name, 0.0) + (event.profile.end - event.profile.start) * 1e-9
        return seconds


def _cache_folder() -> str | None:
    """Where PyOpenCL caches built programs, if it can be written."""
    folder = program_cache.folder("opencl")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder)
