# SPDX-License-Identifier: Apache-2.0
"""Lists accelerators and opens the one that a stage runs on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from roadbed.core.errors import ConfigError, DeviceError
from roadbed.runtime import cuda_devices, opencl_devices
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.runtime.device import Device
from roadbed.runtime.program import Program

if TYPE_CHECKING:
    from roadbed.runtime.cuda import CudaBackend
    from roadbed.runtime.opencl import OpenclBackend

_LOG = logging.getLogger("roadbed.devices")
Programs = Callable[[Device], Iterable[Program]]  # the programs that a stage builds on a device


def devices() -> list[Device]:
    """Every accelerator, best first; empty without a driver or its package."""
    return sorted(cuda_devices.devices() + opencl_devices.devices(), key=_preference)


def _preference(device: Device) -> tuple[int, int]:
    """CUDA first, then OpenCL GPUs, other devices, CPUs; the one with more units first."""
    order = 0 if device.backend == "cuda" else {"gpu": 1, "other": 2}.get(device.kind, 3)
    return order, -device.units


def why_missing() -> list[str]:
    """For each backend without a device, one line that says what is missing."""
    return [module.why_missing() for module in (cuda_devices, opencl_devices) if not module.devices()]


def shared_or_opened(
    shared: Backend | CpuBackend | None, name: str, device: int | str | None, programs: Programs
) -> Backend | CpuBackend:
    """The backend that another stage opened, or one that is opened by its name."""
    if shared is None:
        return open_backend(name, device, programs)
    if isinstance(shared, CpuBackend):
        return shared
    if isinstance(shared, _accelerators()):
        return shared
    raise ConfigError(f"backend: expected one that is open, found {shared!r}; by name: Config(backend='opencl')")


def open_backend(
    name: str = "auto", device: int | str | None = None, programs: Programs = lambda _: ()
) -> Backend | CpuBackend:
    """Open "cpu", "opencl", "cuda", or with "auto" the best GPU that builds `programs`, else the CPU.

    `device`: an index or part of a name.
    """
    if name == "auto":
        candidates = [found for found in devices() if found.kind != "cpu" or device is not None]
    elif name in ("opencl", "cuda"):
        module = opencl_devices if name == "opencl" else cuda_devices
        candidates = module.devices()
        if not candidates:
            raise DeviceError(module.why_missing() + ": use backend='cpu' or 'auto'")
    elif name == "cpu":
        candidates = []
    else:
        raise DeviceError(f"backend {name!r}: expected 'cpu', 'opencl', 'cuda' or 'auto'")
    if not candidates:
        if device is not None:
            raise DeviceError(f"device {device!r}: backend {name} has no devices to choose from")
        return CpuBackend()
    chosen = _choose(candidates, name, device)
    return _first_working(chosen, programs) if name == "auto" else open_device(chosen[0])


def open_device(device: Device) -> Backend:
    """Open a device with a queue of its own."""
    opencl, cuda = _accelerators()
    return cuda(device) if device.backend == "cuda" else opencl(device)


def _accelerators() -> tuple[type[OpenclBackend], type[CudaBackend]]:
    """Imported where a device is opened: whoever computes on the CPU does not wait for them."""
    from roadbed.runtime.cuda import CudaBackend
    from roadbed.runtime.opencl import OpenclBackend

    return OpenclBackend, CudaBackend


def _first_working(candidates: Sequence[Device], programs: Programs) -> Backend | CpuBackend:
    """The first device that opens and builds the programs; for each that does not, one line is logged."""
    for device in candidates:
        try:
            backend = open_device(device)
            for program in programs(device):
                backend.build(program)
        except DeviceError as error:
            _LOG.warning("%s", error)
        else:
            return backend
    return CpuBackend()


def _choose(candidates: Sequence[Device], backend: str, selector: int | str | None) -> list[Device]:
    """The devices that fit the selector, best first."""
    if selector is None:
        return sorted(candidates, key=_preference)
    if isinstance(selector, int) or str(selector).isdigit():
        matches = [d for d in candidates if d.index == int(selector)]
    else:
        matches = [d for d in candidates if str(selector).lower() in d.name.lower()]
    if not matches:
        listed = ", ".join(f"{d.index}: {d.name}" for d in candidates)
        raise DeviceError(f"device {selector!r}: expected one of the {backend} devices {listed}")
    return matches
