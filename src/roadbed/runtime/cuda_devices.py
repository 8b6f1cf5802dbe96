# SPDX-License-Identifier: Apache-2.0
"""The CUDA devices of this machine, through CuPy."""

from functools import cache

from roadbed.runtime.device import Device


@cache
def _device_count() -> tuple[int, str]:
    """The number of devices, and the reason if there are none."""
    try:
        import cupy
    except ImportError:
        return 0, "CUDA: the package cupy is not installed (in the checkout: pip install -e '.[cuda]')"
    try:
        return cupy.cuda.runtime.getDeviceCount(), "CUDA: a driver is installed, but it offers no device"
    except Exception as error:  # CuPy raises its own types, and ImportError variants when the driver is missing
        return 0, f"CUDA: no usable driver ({' '.join(str(error).split())})"


@cache
def devices() -> list[Device]:
    count, _ = _device_count()
    if not count:
        return []
    import cupy

    version = cupy.cuda.runtime.driverGetVersion()
    found = []
    for index in range(count):
        facts = cupy.cuda.runtime.getDeviceProperties(index)
        found.append(
            Device(
                backend="cuda",
                index=index,
                name=facts["name"].decode(),
                kind="gpu",
                memory=facts["totalGlobalMem"],
                units=facts["multiProcessorCount"],
                driver=f"CUDA {version // 1000}.{version % 1000 // 10}, CuPy {cupy.__version__}",
                has_double=True,
                largest_group=facts["maxThreadsPerBlock"],
            )
        )
    return found


def why_missing() -> str:
    return _device_count()[1]
