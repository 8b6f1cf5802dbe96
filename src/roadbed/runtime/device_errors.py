# SPDX-License-Identifier: Apache-2.0
"""Errors of devices as one-line messages."""

from typing import Any

from roadbed.core.errors import DeviceError
from roadbed.runtime.device import Device
from roadbed.runtime.program import Program

_MAX_POINTS = 2**27  # kernels count bytes of a scan in 32 bits


def out_of_memory(device: Device, size: int) -> DeviceError:
    return DeviceError(
        f"{device.name}: {size / 2**20:.0f} MiB do not fit into the free part of its {device.memory / 2**20:.0f} MiB; "
        "use fewer points, a smaller lattice or another device"
    )


def check_points(device: Device, points: int, size: int) -> None:
    """Raise before anything is allocated if `points`, which need `size` bytes, do not fit on the device."""
    if size > device.memory or points >= _MAX_POINTS:
        raise DeviceError(
            f"{device.name}: {points} points need {size / 2**20:.0f} MiB, "
            f"more than fit in its {device.memory / 2**20:.0f} MiB"
        )


def build_failed(device: Device, program: Program, log: str) -> DeviceError:
    return DeviceError(f"{device.name}: building {', '.join(program.files)} failed:\n{log.strip()}")


class translate_error:
    """`with translate_error(backend):` turns an error of the driver into a `DeviceError` of one line.

    A class, because a generator's context manager costs several times as much per frame.
    """

    __slots__ = ("_backend",)

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, self._backend.error_types):
            reason, name = " ".join(str(error).split()), self._backend.device.name
            raise DeviceError(f"{name}: {reason}; if the device is lost, use another backend: 'cpu'") from None
