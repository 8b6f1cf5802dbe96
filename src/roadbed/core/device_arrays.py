# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library: whether they are in GPU memory, and how to copy them to the host."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError

_ON_HOST = (1, 3, 11)  # DLPack's kinds of memory: ordinary, pinned by CUDA, pinned by ROCm


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """Handle of an array in the memory of an accelerator, valid until the next frame of the filter that returned it.

    Kernels read `count` rows at `address` where it is not 0, else in `buffer`.
    """

    buffer: Any  # the runtime's buffer object
    address: int = 0
    count: int = 0


@dataclass(eq=False)
class DeviceGround:
    """Results of a ground frame in the memory of its accelerator, for Roadbed's occupancy filter alone.

    Valid until the ground filter's next frame.
    """

    backend: Any
    points: DeviceArray  # (N, 3) float32 m, NaN on the ego vehicle
    heights: DeviceArray  # (N,) float32 m
    layers: DeviceArray  # elevation, slope (x, y) and variance one after the other, float32
    current: bool = True

    def lies_on(self, backend: Any) -> bool:
        """Whether kernels that are queued now on this backend can read it."""
        return self.current and self.backend is backend


def lies_on_device(array: Any) -> bool:
    """An array of CuPy, PyTorch or the like in GPU memory."""
    if isinstance(array, np.ndarray):
        return False
    if hasattr(array, "__dlpack_device__"):
        return array.__dlpack_device__()[0] not in _ON_HOST
    return hasattr(array, "__cuda_array_interface__")


def to_host(array: Any) -> NDArray:
    """As a NumPy array; an array on the host is not copied."""
    if not lies_on_device(array):
        return np.asarray(array)
    try:
        import cupy
    except ImportError:
        raise InputError(f"points: found a {type(array).__name__} in GPU memory, which needs CuPy to be read") from None
    return cupy.asnumpy(cupy.from_dlpack(array) if hasattr(array, "__dlpack__") else cupy.asarray(array))
