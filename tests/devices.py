# SPDX-License-Identifier: Apache-2.0
"""Backends for parametrised tests: the CPU, each accelerator, and an OpenCL CPU device used as if it were a GPU."""

from dataclasses import replace
from functools import cache
from typing import Any

from roadbed.runtime import cuda, cuda_devices, opencl, opencl_devices
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.runtime.program import Program
from tests.conftest import require

# "opencl-lanes" runs the branch that GPUs take (several work-items per task, local memory, barriers) on any device.
# OpenCL is expected on every machine (PoCL); CUDA only with an NVIDIA GPU.
ACCELERATORS = ("opencl", "opencl-lanes", *(["cuda"] if cuda_devices.devices() else []))
BACKENDS = ("cpu", *ACCELERATORS)
# For tests in which each case compiles programs of its own: the branch of GPUs is tested with all rules together.
DRIVERS = tuple(name for name in BACKENDS if name != "opencl-lanes")


def accelerator(name: str, optimise: bool = True) -> Backend:
    """The opened device; skips, or fails under ROADBED_REQUIRE=all, where an OpenCL driver is missing.

    Without `optimise` for tests whose small grids are each a program of its own, which would take longer to build than
    to run: the same kernels, and what the optimiser makes of them is held by the tests of whole drives.
    """
    if name != "cuda":
        require(bool(opencl_devices.devices()), opencl_devices.why_missing())
    return _opened(name, optimise)


def backend(name: str, optimise: bool = True) -> Backend | CpuBackend:
    """The CPU backend, or an accelerator."""
    return CpuBackend() if name == "cpu" else accelerator(name, optimise)


@cache
def _opened(name: str, optimise: bool) -> Backend:
    if name == "cuda":
        return cuda.CudaBackend(cuda_devices.devices()[0])
    device = opencl_devices.devices()[0]
    if name == "opencl-lanes":
        return _AsGpu(replace(device, kind="gpu"), optimise=optimise, probe=False)
    return opencl.OpenclBackend(device, optimise=optimise, probe=False)  # hundreds of programs, a known driver


class _AsGpu(opencl.OpenclBackend):
    """As on a GPU, branches run on queues of their own."""

    branches_are_free = True

    def _compile(self, program: Program, text: str) -> Any:
        """PoCL's optimiser aborts on kernels of the occupancy that have barriers; those of the ground run faster."""
        options = self._options
        if any(file.startswith("occupancy/") for file in program.files):
            self._options = (*options, "-cl-opt-disable")
        try:
            return super()._compile(program, text)
        finally:
            self._options = options
