# SPDX-License-Identifier: Apache-2.0
"""Selection of devices, messages about missing ones, transfers, and compilation for CUDA without a GPU."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import roadbed
from roadbed.core.errors import ConfigError, DeviceError
from roadbed.ground.stcrf.model import FRAME
from roadbed.ground.variance import model as variance_model
from roadbed.occupancy.hsbof.program import STEP
from roadbed.occupancy.observation.program import VIEW
from roadbed.occupancy.registration.program import REGISTRATION_PASS
from roadbed.runtime import cuda, cuda_devices, device_selection, opencl_devices, primitives
from roadbed.runtime.argument_struct import ArgumentStruct
from roadbed.runtime.device import Device
from roadbed.runtime.device_selection import devices, open_backend
from roadbed.runtime.graphs import Launch
from roadbed.runtime.program import Program
from tests.conftest import require
from tests.devices import ACCELERATORS, accelerator
from tests.runtime import nvrtc
from tests.runtime.catalogue import PROGRAMS
from tests.runtime.inline_program import InlineProgram

PACKAGE = Path(roadbed.__file__).parent


@pytest.fixture(scope="module", params=ACCELERATORS)
def device(request):
    return accelerator(request.param)


def test_every_kernel_file_is_in_a_program_that_is_compiled_below():
    files = {f for program in PROGRAMS.values() for f in program.files} | {"runtime/primitives.cl"}
    assert files == {str(path.relative_to(PACKAGE)) for path in PACKAGE.glob("**/*.cl")}


# No kernel asks for the architecture, and later ones run all that the oldest does: one program is enough for them.
@pytest.mark.parametrize(
    ("name", "architecture"), [*((name, "compute_75") for name in PROGRAMS), ("stcrf default", "compute_90")]
)
def test_kernels_compile_for_cuda_without_a_gpu(name, architecture):
    require(nvrtc.library() is not None, "NVRTC is missing: pip install nvidia-cuda-nvrtc")
    program = PROGRAMS[name]
    text = program.source(cuda.DEFINITIONS)
    compiled, output = nvrtc.compile_to_ptx(text, architecture, cuda.options(program.exact))
    assert compiled, output
    sources = "\n".join((PACKAGE / f).read_text() for f in program.files)
    kernels = set(re.findall(r"^KERNEL(?:_OF_SIZE\(\w+\))? (\w+)\(", sources, re.M))
    assert kernels == set(re.findall(r"\.entry (\w+)", output))


def test_a_compile_error_shows_the_log_of_the_compiler(device):
    """A kernel file without a definition that it needs: the message names the definition and the file."""
    with pytest.raises(DeviceError, match=r"SLOPE_INFORMATION") as caught:
        device.build(Program(("ground/stcrf/frame.cl",)))
    assert "ground/stcrf/frame.cl" in str(caught.value)


@pytest.mark.parametrize("record", [FRAME, variance_model.FRAME])
def test_structures_have_the_layout_of_their_records(device, record):
    """Every member is read by a kernel at the offset NumPy wrote it to."""
    members = [name for name in record.names if record.fields[name][0].shape == ()]
    assert len(members) > 5
    values = np.zeros(1, record)
    for k, name in enumerate(members):
        values[name] = k + 1
    text = "\n".join(f"    out[{k}] = (float)record->{name};" for k, name in enumerate(members))
    kernel = f"KERNEL members(GLOBAL const Record *record, GLOBAL float *out) {{\n{text}\n}}\n"
    out = device.output((1, len(members)), np.float32)
    staging_buffer = device.staging_buffer(record.itemsize)
    program = device.build(InlineProgram((), structs={"Record": record}, kernels=kernel))
    device.enqueue(values, staging_buffer)
    device.graph(program, [Launch("members", 1, 1, (staging_buffer, out.buffer))]).run()
    device.fetch(out, 0, len(members))
    device.finish()
    np.testing.assert_array_equal(out.host[0], np.arange(1, len(members) + 1))


def test_a_relaxed_program_tells_unknown_from_known(device):
    """NaN marks what is unknown: compilers that assume finite numbers fold this choice to its first branch."""
    kernel = """
    FUNCTION float known(float value) { return value > 0.0f ? value * 2.0f + 1.0f : NOT_A_NUMBER; }
    KERNEL mark(GLOBAL const float *values, GLOBAL int *out) { out[LOCAL_ID] = is_finite(known(values[LOCAL_ID])); }
    """
    values = np.float32([1, -1, 3, -2] * 4)
    program = device.build(InlineProgram((), kernels=kernel))
    staging_buffer, out = device.staging_buffer(values.nbytes), device.output((1, len(values)), np.int32)
    device.enqueue(values, staging_buffer)
    device.graph(program, [Launch("mark", len(values), len(values), (staging_buffer, out.buffer))]).run()
    device.fetch(out, 0, len(values))
    device.finish()
    np.testing.assert_array_equal(out.host[0], values > 0)


@pytest.mark.parametrize("record", [FRAME, variance_model.FRAME, STEP, VIEW, REGISTRATION_PASS])
def test_an_argument_struct_has_the_bytes_that_numpy_writes(record):
    """With nested arrays and structures, and padding between members."""
    argument_struct, values = ArgumentStruct(record, 3), iter(range(1, 10_000))

    def numbers(dtype):
        if dtype.subdtype is not None:
            return [numbers(dtype.subdtype[0]) for _ in range(math.prod(dtype.subdtype[1]))]
        if dtype.names:
            return tuple(numbers(dtype.fields[name][0]) for name in dtype.names)
        return next(values)

    def flat(value):
        return [number for one in value for number in flat(one)] if isinstance(value, list | tuple) else [value]

    expected = np.zeros(3, record)
    for k in (0, 2):
        one = [numbers(record.fields[name][0]) for name in record.names]
        argument_struct.write(k, *flat(one))
        for name, value in zip(record.names, one):
            expected[name][k] = np.reshape(value, expected[name][k].shape) if isinstance(value, list) else value
    assert argument_struct.array.tobytes() == expected.tobytes()


def test_an_event_waits_for_everything_queued_before_it(device):
    """A result fetched before the event is on the host after it. Events can be recorded again."""
    count, event = 1000, device.event()
    output = device.output((1, count), np.int32)
    for value in (3, 7):
        fill, later = ([primitives.fill(output.buffer, v, count)] for v in (value, -1))
        device.graph(primitives.build(device), fill).run()
        device.fetch(output, 0, count)
        event.record()
        waits = device.traffic.event_waits
        event.wait()
        assert (output.host[0] == value).all()
        assert device.traffic.event_waits == waits + 1
        device.graph(primitives.build(device), later).run()
        device.finish()


def test_buffers_beyond_the_device_are_refused_with_one_line(device):
    with pytest.raises(DeviceError, match=r"MiB do not fit") as caught:
        device.zeros(2**50, np.uint8)
    assert "\n" not in str(caught.value)
    device.finish()
    assert device.zeros(16, np.float32) is not None


def test_devices_are_chosen_by_index_and_name():
    listed = devices()
    require(bool(listed), "no accelerator is installed")
    best = listed[0]
    assert open_backend(best.backend, best.index).device == best
    assert open_backend(best.backend, best.name.upper()).device == best
    assert open_backend("auto", best.name).device == best
    with pytest.raises(DeviceError, match=re.escape(best.name)):
        open_backend(best.backend, "no such device")
    with pytest.raises(DeviceError, match="expected 'cpu', 'opencl', 'cuda' or 'auto'"):
        open_backend("vulkan")


@pytest.mark.parametrize("stage", [roadbed.GroundFilter, roadbed.OccupancyFilter, roadbed.Pipeline])
def test_a_name_in_place_of_an_open_backend_is_refused_in_one_line(stage):
    with pytest.raises(
        ConfigError, match=r"expected one that is open, found 'opencl'; by name: Config\(backend='opencl'\)"
    ):
        stage(backend="opencl")


def test_auto_selects_a_gpu_or_the_cpu_backend():
    """OpenCL on a CPU is slower than the Numba kernels."""
    found = open_backend("auto").device
    assert found.kind == "gpu" or found.backend == "cpu"


def test_auto_prefers_cuda_then_gpus_then_more_units():
    def device(backend, kind, units):
        return Device(backend, 0, f"{kind} {units}", kind, 1, units, "", True)

    cpu, small, large = device("opencl", "cpu", 64), device("opencl", "gpu", 8), device("opencl", "gpu", 16)
    nvidia = device("cuda", "gpu", 4)
    assert sorted([cpu, small, nvidia, large], key=device_selection._preference) == [nvidia, large, small, cpu]


@pytest.mark.parametrize("name", ["opencl", "cuda"])
def test_missing_drivers_are_one_clear_line(name, monkeypatch):
    for module, why in ((opencl_devices, "OpenCL: no driver is installed"), (cuda_devices, "CUDA: no usable driver")):
        monkeypatch.setattr(module, "devices", list)
        monkeypatch.setattr(module, "why_missing", lambda why=why: why)
    with pytest.raises(DeviceError, match=r"backend='cpu'") as caught:
        open_backend(name)
    assert "\n" not in str(caught.value)


def test_a_timed_graph_reports_every_phase(device):
    values = device.zeros(1000, np.int32)
    launches = [primitives.fill(values, 1, 1000), primitives.fill(values, 2, 1000)]
    seconds = device.graph(primitives.build(device), launches).timed()
    assert set(seconds) == {"fill"}
    assert seconds["fill"] > 0
