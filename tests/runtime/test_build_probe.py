# SPDX-License-Identifier: Apache-2.0
"""OpenCL compilers that crash or never end: the process survives, the outcome is cached, "auto" uses the CPU.

The crashing kernels are real for PoCL 3.1 (Debian 12), the second minimum for PoCL 6.0 (Debian 13, LLVM 18); with a
driver that compiles them no crash is reported.
"""

import logging
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from roadbed import Config, GroundFilter, OccupancyFilter, Pipeline
from roadbed.core.errors import DeviceError
from roadbed.runtime import build_probe, cuda_devices, opencl_devices
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.runtime.device import SORT_BY_STRIPS
from roadbed.runtime.device_selection import open_backend
from roadbed.runtime.opencl import OpenclBackend
from tests.conftest import require
from tests.runtime.catalogue import PROGRAMS
from tests.runtime.inline_program import InlineProgram

GOOD = "KERNEL good(GLOBAL int *a) { a[GLOBAL_ID] = 1; }"
CRASHES = {
    "abort": "KERNEL bad(GLOBAL int *a) { if (a[0]) goto middle; for (int i = 0; i < a[1]; ++i)"
    " { a[i] = 1; middle: BARRIER(); a[i + 1] = 2; } }",
    "segmentation fault": "int f(GLOBAL int *a, int n); int f(GLOBAL int *a, int n)"
    " { return n < 2 ? a[n] : f(a, n - 1) + f(a, n - 2); } KERNEL bad(GLOBAL int *a) { a[0] = f(a, a[1]); }",
    # LLVM ERROR: Instruction Combining did not reach a fixpoint after 1 iterations
    "second minimum": "KERNEL bad(GLOBAL const float4 *a, GLOBAL float *b) { float first = 1e9f, second = 1e9f;"
    " for (int k = 0; k < 8; ++k) { float z = a[8 * GLOBAL_ID + k].z; second = z < first ? first : fmin(second, z);"
    " first = fmin(first, z); } b[GLOBAL_ID] = second; }",
}
ENDLESS = (
    "typedef int vector __attribute__((ext_vector_type(4096)));"
    " KERNEL bad(GLOBAL vector *a) { a[0] = a[1] * a[2] / a[3]; }"
)


@pytest.fixture
def backend(tmp_path, monkeypatch):
    """A backend with an empty cache."""
    require(bool(opencl_devices.devices()), opencl_devices.why_missing())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return OpenclBackend(opencl_devices.devices()[0])


def program(kernels):
    return InlineProgram((), kernels=kernels)


def outcomes(tmp_path):
    return sorted((tmp_path / "roadbed" / "opencl-probes").iterdir())


def refuse_children(monkeypatch):
    def fails(*_, **__):
        raise AssertionError("a child process was started")

    monkeypatch.setattr(subprocess, "Popen", fails)


@pytest.mark.parametrize("kind", CRASHES)
def test_a_compiler_that_crashes_is_one_line_and_is_not_run_again(kind, backend, tmp_path, monkeypatch):
    try:
        backend.build(program(CRASHES[kind]))
    except DeviceError as error:
        line = str(error)
    else:  # this driver compiles the kernel, and that is cached
        assert [outcome.read_text() for outcome in outcomes(tmp_path)] == [""]
        return
    assert ("SIGSEGV" if kind == "segmentation fault" else "SIGABRT") in line
    assert "\n" not in line
    assert backend.device.driver in line
    assert "backend='cpu'" in line
    (outcome,) = outcomes(tmp_path)
    assert str(outcome) in line
    refuse_children(monkeypatch)
    with pytest.raises(DeviceError) as again:
        OpenclBackend(backend.device).build(program(CRASHES[kind]))
    assert str(again.value) == line


@pytest.mark.parametrize("child", ["compiler", "sleep"])
def test_a_compiler_that_never_ends_is_stopped(child, backend, tmp_path, monkeypatch):
    """The driver's own where it takes the kernel, and on every machine a child that sleeps."""
    monkeypatch.setattr(build_probe, "TIME_LIMIT", 3.0)
    if child == "sleep":
        replace_child(monkeypatch, tmp_path, f"echo {build_probe._READY}; sleep 60")
    with pytest.raises(DeviceError) as caught:
        backend.build(program(ENDLESS if child == "compiler" else GOOD))
    if "vector size too large" in str(caught.value):
        pytest.skip("this driver refuses the kernel")
    assert "did not end within 3 s" in str(caught.value)
    assert "did not end" in outcomes(tmp_path)[0].read_text()


def test_a_program_that_builds_costs_one_child_and_its_outcome_is_private(backend, tmp_path, monkeypatch):
    assert backend.build(program(GOOD)) is not None
    (outcome,) = outcomes(tmp_path)
    assert outcome.read_text() == ""
    assert (outcome.stat().st_mode & 0o777, outcome.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    refuse_children(monkeypatch)
    assert OpenclBackend(backend.device).build(program(GOOD)) is not None
    with pytest.raises(AssertionError, match="child process"):
        backend.build(program(GOOD + " "))


def test_the_outcome_belongs_to_one_version_of_the_driver(backend, monkeypatch):
    backend.build(program(GOOD))
    refuse_children(monkeypatch)
    updated = OpenclBackend(replace(backend.device, driver="another version"))
    with pytest.raises(AssertionError, match="child process"):
        updated.build(program(GOOD))


def test_every_kernel_can_be_launched_without_running_it(backend):
    """For drivers that compile at the first launch: without their guard they write beyond buffers."""
    writes = (
        "KERNEL bad(GLOBAL int *a, float b, int64 c, GLOBAL int *d) { for (int k = 0; k < 1 << 22; ++k) a[k] = 1; }"
    )
    for tested in (program(writes), program(writes.replace("KERNEL", "KERNEL_OF_SIZE(8)", 1)), PROGRAMS["collective"]):
        text = tested.source({"LANES": 8, "WITH_DOUBLE": 1, **backend.device.sort_layout.definitions()})
        build_probe.launch_guarded(backend._context, text, [])


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kernel_gets_the_guard(name):
    text = PROGRAMS[name].source({"LANES": 8, "WITH_DOUBLE": 1, **SORT_BY_STRIPS.definitions()})
    assert len(build_probe._BODY.findall(text)) == len(re.findall(r"^KERNEL", text, re.MULTILINE))


def test_an_error_in_a_kernel_is_no_crash(backend, tmp_path):
    with pytest.raises(DeviceError, match="failed:") as caught:
        backend.build(program("KERNEL wrong(GLOBAL int *a) { a[0] = no_such_name; }"))
    assert "no_such_name" in str(caught.value)
    assert outcomes(tmp_path)[0].read_text() == ""


def replace_child(patched, tmp_path, script):
    """Another program in the place of the child's interpreter."""
    child = tmp_path / "child"
    child.write_text(f"#!/bin/sh\n{script}\n")
    child.chmod(0o755)
    patched.setattr(sys, "executable", str(child))


@pytest.mark.parametrize(("end", "reason"), [("kill -ABRT $$", "SIGABRT"), ("echo LLVM ERROR; exit 1", "LLVM ERROR")])
def test_any_end_of_the_compiler_but_success_is_a_crash(end, reason, backend, tmp_path, monkeypatch):
    """Some compilers abort, others exit."""
    replace_child(monkeypatch, tmp_path, f"echo {build_probe._READY}; {end}")
    with pytest.raises(DeviceError, match=reason):
        backend.build(program(GOOD))


def test_a_child_that_cannot_start_says_nothing_about_the_driver(backend, tmp_path, monkeypatch):
    replace_child(monkeypatch, tmp_path, "exit 1")
    assert backend.build(program(GOOD)) is not None
    assert not (tmp_path / "roadbed" / "opencl-probes").exists()


def test_auto_goes_on_with_the_cpu_and_says_why_in_one_line(backend, tmp_path, monkeypatch, caplog):
    """A device that is named may be an OpenCL CPU; a program of a stage is what the driver cannot build."""
    name = backend.device.name
    monkeypatch.setattr(cuda_devices, "devices", list)  # with CUDA, a GPU of this name would be used through it
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "roadbed"):
        replace_child(patched, tmp_path, f"echo {build_probe._READY}; kill -SEGV $$")
        found = open_backend("auto", name, programs=lambda _: [program(GOOD)])
    assert isinstance(found, CpuBackend)
    records = [record for record in caplog.records if name in record.message]  # one for each driver with the device
    assert records
    for record in records:
        assert "SIGSEGV" in record.message
        assert "\n" not in record.message
    assert open_backend("auto", name).device.backend == "opencl"


def test_a_device_with_too_small_work_groups_is_one_line_and_auto_goes_on(backend, monkeypatch, caplog):
    small = replace(backend.device, largest_group=128)
    monkeypatch.setattr(opencl_devices, "devices", lambda: [small])
    monkeypatch.setattr(cuda_devices, "devices", list)
    with pytest.raises(DeviceError, match="expected work-groups of 256, found at most 128"):
        open_backend("opencl")
    assert isinstance(open_backend("auto", small.index), CpuBackend)
    (record,) = caplog.records
    assert "at most 128" in record.message


def test_stages_with_auto_run_on_the_cpu_where_the_driver_cannot_build_their_programs(backend, tmp_path, monkeypatch):
    replace_child(monkeypatch, tmp_path, f"echo {build_probe._READY}; kill -ABRT $$")
    monkeypatch.setattr(cuda_devices, "devices", list)
    config = Config(backend="auto", device=backend.device.name)
    for stage in (GroundFilter, OccupancyFilter, Pipeline):
        assert isinstance(stage(config).backend, CpuBackend)
    with pytest.raises(DeviceError, match="ground/stcrf"):
        GroundFilter(config.with_changes(backend="opencl"))
