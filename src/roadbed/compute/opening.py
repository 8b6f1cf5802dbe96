# SPDX-License-Identifier: Apache-2.0
"""Which accelerators there are, and opening one of them."""

from __future__ import annotations

from collections.abc import Sequence

from roadbed.compute import cuda, opencl
from roadbed.compute.backend import Backend, Device
from roadbed.errors import DeviceError


def devices() -> list[Device]:
    """Every accelerator present, best first; empty where no driver or package is."""
    found = cuda.devices() + opencl.devices()
    return sorted(found, key=_preference)


def _preference(device: Device) -> tuple[int, int]:
    """CUDA first, then OpenCL GPUs, other devices, CPUs; the one with more units first."""
    order = 0 if device.backend == "cuda" else {"gpu": 1, "other": 2}.get(device.kind, 3)
    return order, -device.units


def open_backend(name: str = "auto", device: int | str | None = None) -> Backend:
    """Open a device: `name` is "opencl", "cuda" or "auto"; `device` an index or a part of the device's name."""
    if name == "auto":
        candidates = devices()
        if not candidates:
            raise DeviceError(f"no accelerator found ({'; '.join(why_missing())}): use backend='cpu'")
    elif name in ("opencl", "cuda"):
        module = opencl if name == "opencl" else cuda
        candidates = module.devices()
        if not candidates:
            raise DeviceError(module.why_missing() + ": use backend='cpu' or 'auto'")
    else:
        raise DeviceError(f"backend {name!r}: expected 'cpu', 'opencl', 'cuda' or 'auto'")
    chosen = _choose(candidates, name, device)
    return cuda.CudaBackend(chosen) if chosen.backend == "cuda" else opencl.OpenclBackend(chosen)


def open_like(backend: Backend) -> Backend:
    """Another queue on the same device, for work beside the first; it copies scans instead of reading them in place."""
    if backend.device.backend == "cuda":
        return cuda.CudaBackend(backend.device, copies=True)
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
