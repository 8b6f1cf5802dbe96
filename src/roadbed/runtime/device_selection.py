# SPDX-License-Identifier: Apache-2.0
"""Which accelerators there are, and opening one of them."""

from __future__ import annotations

from collections.abc import Sequence

from roadbed.core.errors import DeviceError
from roadbed.runtime import cuda, opencl
from roadbed.runtime.backend import Backend
from roadbed.runtime.cpu_backend import CpuBackend
from roadbed.runtime.device import Device


def devices() -> list[Device]:
    """Every accelerator present, best first; empty where no driver or package is."""
    found = cuda.devices() + opencl.devices()
    return sorted(found, key=_preference)


def _preference(device: Device) -> tuple[int, int]:
    """CUDA first, then OpenCL GPUs, other devices, CPUs; the one with more units first."""
    order = 0 if device.backend == "cuda" else {"gpu": 1, "other": 2}.get(device.kind, 3)
    return order, -device.units


def open_backend(name: str = "auto", device: int | str | None = None) -> Backend | CpuBackend:
    """Open "cpu", "opencl", "cuda", or with "auto" the best GPU, else the CPU; `device`: an index or part of a name."""
    if name == "auto":
        candidates = [found for found in devices() if found.kind != "cpu" or device is not None]
    elif name in ("opencl", "cuda"):
        module = opencl if name == "opencl" else cuda
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
    return cuda.CudaBackend(chosen) if chosen.backend == "cuda" else opencl.OpenclBackend(chosen)


def select_backend(
    backend: str | Backend | CpuBackend | None,
    device: int | str | None = None,
    configured: tuple[str, str | None] = ("cpu", None),
) -> Backend | CpuBackend:
    """What a stage runs on: one that is open already, one to open by name, or with None the configuration's."""
    if backend is None:
        return open_backend(configured[0], configured[1] if device is None else device)
    if isinstance(backend, str):
        return open_backend(backend, device)
    if device is not None:
        raise DeviceError(f"device {device!r}: the backend given is open already, on {backend.device.name}")
    return backend


def open_on_same_device(backend: Backend) -> Backend:
    """Another queue on the same device, for work beside the first."""
    if backend.device.backend == "cuda":
        return cuda.CudaBackend(backend.device)
    return opencl.OpenclBackend(backend.device)


def why_missing() -> list[str]:
    """For each backend without a device, one line that says what is missing."""
    return [module.why_missing() for module in (cuda, opencl) if not module.devices()]


def _choose(candidates: Sequence[Device], backend: str, wanted: int | str | None) -> Device:
    if wanted is None:
        return sorted(candidates, key=_preference)[0]
    listed = ", ".join(f"{d.index}: {d.name}" for d in candidates)
    if isinstance(wanted, int) or str(wanted).isdigit():
        matches = [d for d in candidates if d.index == int(wanted)]
    else:
        matches = [d for d in candidates if str(wanted).lower() in d.name.lower()]
    if not matches:
        raise DeviceError(f"device {wanted!r}: expected one of the {backend} devices {listed}")
    return matches[0]
