# SPDX-License-Identifier: Apache-2.0
"""The CUDA runtime, through CuPy: programs by NVRTC, memory on the device, and pinned memory that kernels reach."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from roadbed.core.errors import DeviceError, InputError
from roadbed.runtime import program_cache
from roadbed.runtime.backend import Backend, Output, Shape, Traffic, byte_count
from roadbed.runtime.cuda_graphs import CudaEvent, CudaGraph, Step
from roadbed.runtime.device import GPU_LANES, SORT_BY_WARPS, Device
from roadbed.runtime.device_errors import build_failed, out_of_memory
from roadbed.runtime.graphs import Launch, PhaseOrder
from roadbed.runtime.program import Program

_RELAXED = ("--std=c++17", "--ftz=true", "--prec-div=false", "--prec-sqrt=false")
_EXACT = ("--std=c++17", "--fmad=false", "--ftz=false")
_PINNED = 1  # cudaMemoryTypeHost
_TO_DEVICE, _TO_HOST = 1, 2  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost
_ALIGNMENT = 256  # bytes, of arrays that share one allocation
_STAGING_COPIES = 16  # argument structs of one staging buffer that may be in flight


@dataclass(frozen=True, eq=False)
class InputBuffer:
    """Device memory for arrays that come from the host."""

    device: Any  # cupy.ndarray
    device_resident: bool  # pinned arrays are copied too, not read in place


@dataclass(frozen=True, eq=False)
class StagingBuffer:
    """Device memory for an argument struct, and pinned copies with their addresses, used in turn."""

    device: Any  # cupy.ndarray
    copies: list[tuple[NDArray, int]]


# Definitions of every CUDA program.
DEFINITIONS = {"ROADBED_CUDA": 1, "LANES": GPU_LANES, "WITH_DOUBLE": 1, **SORT_BY_WARPS.definitions()}


def options(exact: bool) -> tuple[str, ...]:
    return _EXACT if exact else _RELAXED


class CudaBackend(Backend):
    """One CUDA device with its own streams.

    Kernels read a scan in pinned host memory and write results there: the lowest latency for one scan and one stage.
    `device_resident` arrays are copied instead, while other scans or stages compute.
    """

    branches_are_free = True
    _definitions = DEFINITIONS

    def __init__(self, device: Device) -> None:
        import cupy

        self._cupy, self._pinned = cupy, cupy.cuda.alloc_pinned_memory
        self.device = device
        self.error_types: tuple[type[Exception], ...] = (
            cupy.cuda.runtime.CUDARuntimeError,
            cupy.cuda.driver.CUDADriverError,
        )
        self._handle = cupy.cuda.Device(device.index)
        with self._handle:
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self._download_stream = cupy.cuda.Stream(non_blocking=True)  # copies overlap with later kernels
            self._before_download = cupy.cuda.Event(disable_timing=True)
            self._input_ready = cupy.cuda.Event(disable_timing=True)  # for arrays of other libraries
        self._downloading = self._working = False  # copies or kernels are queued, and nothing has waited for them
        self._staging_copy = 0
        self.traffic = Traffic()
        self._in_flight: list[Any] = []  # arrays that queued work still reads
        self._built = {}
        self._side_streams: list[Any] = []  # streams that branches of graphs are captured from

    def _compile(self, program: Program, text: str) -> Any:
        with self._handle:
            module = self._cupy.cuda.function.Module()
            module.load(self._binary(program, text))
        return module

    def _binary(self, program: Program, text: str) -> bytes:
        """Compiled and cached here, because CuPy's RawModule flushes denormal numbers to zero, unlike the CPU."""
        flags, nvrtc = options(program.exact), ".".join(map(str, self._cupy.cuda.nvrtc.getVersion()))
        machine = (self._handle.compute_capability, nvrtc, self._cupy.__version__)
        cached = program_cache.file("cuda", (text, *flags, *machine), ".cubin")
        with suppress(OSError):
            return cached.read_bytes()
        compiler = self._cupy.cuda.compiler
        try:
            binary, _ = compiler.compile_using_nvrtc(text, flags)
        except compiler.CompileException as error:
            raise build_failed(self.device, program, str(error)) from None
        program_cache.write(cached, binary)
        return binary

    def resident_groups(self, program: Any, kernel: str, size: int) -> int:
        driver, attribute = self._cupy.cuda.driver, self._cupy.cuda.runtime.cudaDevAttrCooperativeLaunch
        if not self._cupy.cuda.runtime.deviceGetAttribute(attribute, self.device.index):
            return 0
        with self._handle:
            per_unit = driver.occupancyMaxActiveBlocksPerMultiprocessor(program.get_function(kernel).ptr, size, 0)
        return per_unit * self.device.units

    def zeros(self, shape: Shape, dtype: DTypeLike) -> Any:
        with self._handle, self.stream:
            try:
                return self._cupy.zeros(shape, dtype)
            except self._cupy.cuda.memory.OutOfMemoryError:
                raise out_of_memory(self.device, byte_count(shape, dtype)) from None

    def sub_buffer(self, buffer: Any, start: int, count: int, dtype: DTypeLike) -> Any:
        return buffer[start : start + byte_count(count, dtype)].view(dtype)

    def upload(self, array: NDArray, buffer: Any = None, start: int = 0) -> Any:
        if buffer is None:
            buffer = self.zeros(array.shape, array.dtype)
        self._send(np.ascontiguousarray(array, buffer.dtype), buffer, start)
        return buffer

    def _send(self, array: NDArray, buffer: Any, start: int) -> None:
        if self._working:  # an idle stream copies from pageable memory before this returns
            staged = self.host_array(array.shape, array.dtype)
            staged[...] = array
            array = staged
        self._in_flight.append(array)
        self._queue_upload(buffer.data.ptr + start * array.itemsize, array.ctypes.data, array.nbytes)

    def host_array(self, shape: Shape, dtype: DTypeLike) -> NDArray:
        size = byte_count(shape, dtype)
        try:
            memory = self._pinned(max(size, 1))  # from CuPy's pool; its pinned arrays take three times as long
        except self._cupy.cuda.runtime.CUDARuntimeError:
            raise DeviceError(f"pinned host memory: {size / 2**20:.0f} MiB cannot be locked") from None
        return np.ndarray(shape, dtype, memory)

    def staging_buffer(self, size: int) -> StagingBuffer:
        copies = list(self.host_array((_STAGING_COPIES, size), np.uint8))
        return StagingBuffer(self.zeros(size, np.uint8), [(copy, copy.ctypes.data) for copy in copies])

    def enqueue(self, array: NDArray, staging_buffer: StagingBuffer) -> None:
        self._staging_copy = (self._staging_copy + 1) % _STAGING_COPIES
        copy, address = staging_buffer.copies[self._staging_copy]
        copy[: array.nbytes] = array.view(np.uint8)
        self._queue_upload(staging_buffer.device.data.ptr, address, array.nbytes)

    def input_buffer(self, shape: Shape, dtype: DTypeLike, device_resident: bool = False) -> InputBuffer:
        return InputBuffer(self.zeros(shape, dtype), device_resident)

    def bind(self, array: Any, input_buffer: InputBuffer, start: int = 0) -> int:
        if not isinstance(array, np.ndarray):
            return self._bind_device_array(array, input_buffer.device.dtype)
        if not array.size:
            return 0
        array = np.ascontiguousarray(array, input_buffer.device.dtype)
        if not input_buffer.device_resident:
            address = array.ctypes.data
            if self._cupy.cuda.runtime.pointerGetAttributes(address).type == _PINNED:  # memory can be unlocked again
                self._in_flight.append(array)
                return address
        self._send(array, input_buffer.device, start)
        return 0

    def _queue_upload(self, target: int, source: int, size: int) -> None:
        """The copy from pageable memory waits for all queued work and is done when this returns."""
        self.traffic.uploads += 1
        self._cupy.cuda.runtime.memcpyAsync(target, source, size, _TO_DEVICE, self.stream.ptr)

    def _bind_device_array(self, array: Any, dtype: np.dtype) -> int:
        with self._handle:
            if hasattr(array, "__dlpack__"):  # CuPy's stream waits for the stream of the array's owner
                array = self._cupy.from_dlpack(array)
            elif hasattr(array, "__cuda_array_interface__"):
                array = self._cupy.asarray(array)
            else:
                raise InputError(f"points: expected an array, found {type(array).__name__}")
            self._input_ready.record(self._cupy.cuda.get_current_stream())
            self.stream.wait_event(self._input_ready)  # our stream waits for CuPy's
            with self.stream:
                array = self._cupy.ascontiguousarray(array, dtype)
        self._in_flight.append(array)
        return array.data.ptr

    def queue_download(self, buffer: Any, start: int, count: int) -> NDArray:
        array, size = self.host_array(count, buffer.dtype), buffer.itemsize
        source = buffer.data.ptr + start * size
        self._queue_copy_to_host(array.ctypes.data, source, count * size)
        return array

    def _queue_copy_to_host(self, target: int, source: int, size: int) -> None:
        with self._handle:
            self._before_download.record(self.stream)
            self._download_stream.wait_event(self._before_download)
        self._cupy.cuda.runtime.memcpyAsync(target, source, size, _TO_HOST, self._download_stream.ptr)
        self._downloading = True
        self.traffic.downloads += 1

    def output(self, shape: tuple[int, ...], dtype: DTypeLike, device_resident: bool = False) -> Output:
        host = self.host_array(shape, dtype)
        if device_resident:
            return Output(self.zeros(shape, dtype), host, (0,) * shape[0])
        return Output(host, host, tuple(row.ctypes.data for row in host))

    def reallocated(self, outputs: Sequence[Output]) -> list[Output]:
        sizes = [-(-output.host.nbytes // _ALIGNMENT) * _ALIGNMENT for output in outputs]
        memory = self.host_array(sum(sizes), np.uint8)
        address, start, reallocated = memory.ctypes.data, 0, []
        for output, size in zip(outputs, sizes):
            host = np.ndarray(output.host.shape, output.host.dtype, memory, start)
            if output.buffer is output.host:
                begin, row = address + start, host.nbytes // len(host)
                reallocated.append(Output(host, host, tuple(range(begin, begin + host.nbytes, row))))
            else:
                reallocated.append(Output(output.buffer, host, output.addresses))
            start += size
        return reallocated

    def output_on_device(self, shape: tuple[int, ...], dtype: DTypeLike) -> Output:
        with self._handle, self.stream:
            array = self._cupy.empty(shape, dtype)
        return Output(array, array, tuple(row.data.ptr for row in array))

    def fetch(self, output: Output, slot: int, count: int) -> None:
        """Kernels wrote a pinned array in place: there is nothing to copy."""
        if output.buffer is not output.host and count:
            row = output.host[slot]
            self._queue_copy_to_host(row.ctypes.data, output.buffer.data.ptr + slot * row.nbytes, count * row.itemsize)

    def graph(self, program: Any, launches: Sequence[Launch], after: PhaseOrder | None = None) -> CudaGraph:
        steps = []
        for launch in launches:
            arguments = tuple(_argument(a) for a in launch.arguments)
            kernel = (launch.program or program).get_function(launch.kernel)
            shape = ((launch.groups, launch.slots), (launch.size,))
            steps.append(Step(launch.phase or launch.kernel, kernel, *shape, arguments, launch.cooperative))
        return CudaGraph(self, steps, after)

    def combined(self, graphs: Sequence[Any]) -> CudaGraph:
        return CudaGraph(self, parts=graphs)

    def side_streams(self) -> Iterator[Any]:
        """An unlimited supply of side streams, which are kept for the next capture."""
        for number in count():
            if number == len(self._side_streams):
                self._side_streams.append(self._cupy.cuda.Stream(non_blocking=True))
            yield self._side_streams[number]

    def event(self) -> CudaEvent:
        return CudaEvent(self)

    def finish(self) -> None:
        self.traffic.waits += 1
        try:
            self.stream.synchronize()
            if self._downloading:
                self._download_stream.synchronize()
        finally:
            self._in_flight.clear()
            self._downloading = self._working = False


def _argument(argument: Any) -> Any:
    """A kernel argument: pinned host memory is passed by its address, an input or staging buffer by its device part."""
    if isinstance(argument, InputBuffer | StagingBuffer):
        return argument.device
    if isinstance(argument, np.ndarray) and argument.ndim > 0:
        return np.uint64(argument.ctypes.data)
    return argument
